// The memory of rotary bench: the work and its ceiling run in the same pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cell.h"

namespace rotary::cli::bench {

// One block, in huge pages where the machine grants them, that begins on a 2 MiB boundary.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // At least that many bytes, every page touched; what was there is lost when it grows. Throws MEMORY.
  std::byte* reserve(std::size_t bytes);

 private:
  void release() noexcept;

  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  std::byte* begin_ = nullptr;
  std::size_t size_ = 0;
};

// Bytes that can be had without swapping, by what the kernel and the control group say, but for a twentieth.
double free_memory();

struct Cache {
  std::string name;  // "L1"
  std::size_t bytes = 0;
};
// The data caches of one core and the last level, as far as the machine tells.
std::vector<Cache> caches();

// The q and k of a cell in an arena: k behind q, and out of place the results behind both.
struct Places {
  Places(const Heads& q_read, const Heads& k_read, const Heads& q_written, const Heads& k_written)
      : q(q_read), k(k_read), q_out(q_written), k_out(k_written) {}  // anywhere
  Places(const Cell& cell, Arena& arena);
  // begin is 64-byte aligned and holds bytes_of(cell) bytes.
  Places(const Cell& cell, std::byte* begin);
  static std::size_t bytes_of(const Cell& cell);

  Heads q, k;                // read; in place written too
  Heads q_out, k_out;        // written; in place the same
  std::byte* in = nullptr;   // the line where q begins
  std::byte* out = nullptr;  // the line where q_out begins; in place the same as in
  std::size_t moved = 0;     // bytes from in, and from out, that a ceiling moves
};

// Values between 0.25 and 2 in both signs, the same ones each time.
void fill(const Cell&, const Places&);
// The repeating byte pattern that fill() writes.
std::vector<std::byte> fill_pattern(DType);

}  // namespace rotary::cli::bench
