// The memory of rotary bench: a cell's tensors in one block, and the blocks in the host's memory.
#pragma once

#include <cstddef>
#include <vector>

#include "cell.h"

namespace rotary::cli::bench {

// One block of memory, aligned to 2 MiB; in huge pages if they are wanted and the system grants them.
class Arena {
 public:
  explicit Arena(bool huge_pages = true) : huge_pages_(huge_pages) {}
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // A block of at least `bytes` bytes with every page touched. Growing discards the contents. Throws MEMORY.
  std::byte* reserve(std::size_t bytes);

 private:
  void release() noexcept;

  const bool huge_pages_;
  void* mapping_ = nullptr;
  std::size_t mapped_ = 0;
  std::byte* begin_ = nullptr;
  std::size_t size_ = 0;
};

// 95 % of the bytes that can be allocated without swapping, according to the kernel and the control group.
double free_memory();

constexpr int page_size = 16;                     // tokens of a page of a cell's cache
constexpr float k_scale = 0.5F, v_scale = 0.25F;  // of a cache of f8

// The tensors of a cell in one block of memory: the inputs, then the results. q, k and v of an appending cell are parts
// of one tensor, and its k and v are written to a cache.
struct Tensors {
  // begin is aligned to 64 bytes and holds bytes_of(cell) bytes.
  Tensors(const Cell&, std::byte* begin);
  static std::size_t bytes_of(const Cell&);

  Heads q, k, v, qkv;            // read, in place also written
  Heads q_out, k_out;            // written, in place the same as q and k
  std::byte* k_cache = nullptr;  // of an appending cell: pages of page_size tokens
  std::byte* v_cache = nullptr;
  std::byte* in = nullptr;  // the inputs
  std::size_t in_bytes = 0;
  std::byte* out = nullptr;  // the results; in place the inputs on the CPU, and spare memory on a device
  std::size_t out_bytes = 0;
  std::size_t moved = 0;  // bytes from in to out that the ceiling moves, a multiple of 64
};
std::int64_t pages_of(const Cell&);

// Numbers of magnitude 0.25 to 2 and both signs, the same each time, to be repeated.
std::vector<std::byte> fill_pattern(DType);

}  // namespace rotary::cli::bench
