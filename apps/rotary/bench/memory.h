// The memory of rotary bench. A cell and its ceiling run in the same pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cell.h"

namespace rotary::cli::bench {

// One block of memory, aligned to 2 MiB, in huge pages if the system grants them.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // A block of at least `bytes` bytes with every page touched. Growing discards the contents. Throws MEMORY.
  std::byte* reserve(std::size_t bytes);

 private:
  void release() noexcept;

  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  std::byte* begin_ = nullptr;
  std::size_t size_ = 0;
};

// 95 % of the bytes that can be allocated without swapping, according to the kernel and the control group.
double free_memory();

struct Cache {
  std::string name;  // "L1"
  std::size_t bytes = 0;
};
// The data caches of one core, from the first level, as far as the system reports them.
std::vector<Cache> caches();

// The q and k of a cell in one block: q, then k, then out of place the results in the same order.
struct Places {
  Places(const Heads& q_read, const Heads& k_read, const Heads& q_written, const Heads& k_written)
      : q(q_read), k(k_read), q_out(q_written), k_out(k_written) {}  // in any memory
  Places(const Cell& cell, Arena& arena);
  // begin is 64-byte aligned and holds bytes_of(cell) bytes.
  Places(const Cell& cell, std::byte* begin);
  static std::size_t bytes_of(const Cell& cell);

  Heads q, k;                // read, in place also written
  Heads q_out, k_out;        // written, in place the same as q, k
  std::byte* in = nullptr;   // the cache line where q begins
  std::byte* out = nullptr;  // the cache line where q_out begins, in place equal to in
  std::size_t moved = 0;     // bytes from in to out that the ceiling moves
};

// Fills q and k with values of magnitude 0.25 to 2 and both signs, the same each time.
void fill(const Cell&, const Places&);
// The repeating byte pattern that fill() writes.
std::vector<std::byte> fill_pattern(DType);

}  // namespace rotary::cli::bench
