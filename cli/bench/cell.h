// The cells of rotary bench: each is a rotation of q and k, verified, then timed beside the plain loop and beside
// a copy of the same bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::cli::bench {

constexpr std::int64_t q_heads = 32, kv_heads = 8;
constexpr int head_dim = 128;

// q [1, tokens, q_heads, head_dim] and k [1, tokens, kv_heads, head_dim], rotated in one call.
struct Cell {
  DType dtype = DType::f32;
  Pairing pairing = Pairing::half;
  std::int64_t tokens = 1;
  bool in_place = true;
  bool after_write = false;  // q and k have just been written, in the order of addresses, as by a projection
};

// f32 and bf16, both pairings, 1, 64, 2048 and 8192 tokens, in place and out of place; then f32 in place, both
// pairings, of 0.5, 1 and 1.5 times the last cache, and of 1 after a write.
std::vector<Cell> grid();

const char* place(const Cell&);  // in words
std::int64_t elements(const Cell&);
std::int64_t bytes(const Cell&);  // q and k are read and written once each: 2 * elements * size

struct Result {
  double rotary = 0;          // seconds of a run, as the next two
  double loop = 0;            // by the plain loop, for the instruction set of rotary's target
  double copy = 0;            // by memcpy to other memory
  int samples = 0;            // the number for each of the three
  std::int64_t verified = 0;  // elements that were compared with the reference and equal
};

// A cell with its table and with q and k in `memory`, which the next cell may use.
class ReadyCell {
 public:
  struct alignas(4096) Page {
    std::byte bytes[4096];
  };
  using Memory = std::vector<Page>;
  ReadyCell(const Cell&, Memory& memory);

  bool after_write() const { return cell_.after_write; }
  void rotate() const;
  void rotate_by_loop() const;
  void copy() const;
  void write_inputs() const;

  // Runs `work` once on the first inputs and compares 64 tokens at most, the first and the last among them, with
  // reference::rotate. Returns the number of elements that were compared. Throws CHECK unless all are equal.
  std::int64_t verify(const char* name, const std::function<void()>& work) const;

  Heads q, k, q_out, k_out;  // in place q_out is q and k_out is k

 private:
  void fill() const;  // the inputs, and 0xee where nothing has written a result

  const Cell cell_;
  const std::string target_;
  const Table table_;
  const std::size_t size_;
  std::byte* in_ = nullptr;
  std::byte* other_ = nullptr;  // written by the copy, and by a rotation out of place
};

// Verifies rotary and the plain loop, then times them and the copy in turn, so that a slow moment of the machine hits
// all of them, for about `seconds` together; three samples of each at least. Throws CHECK.
Result measure(const ReadyCell&, double seconds);

}  // namespace rotary::cli::bench
