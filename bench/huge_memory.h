// Memory for measurements, every page touched.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace rotary::measured {

class HugeMemory {
 public:
  static constexpr std::size_t page = std::size_t{2} << 20;

  // In huge pages where the system grants them, or in small ones. Every byte 0x3c: a number near 0.01 as f32 and bf16,
  // near 1 as f16. Ends the program where there is not so much.
  explicit HugeMemory(std::size_t size, bool huge = true) : mapped_((size + page - 1) / page * page + page) {
    mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping_ == MAP_FAILED) std::abort();
    char* const first = static_cast<char*>(mapping_);
    begin_ = first + static_cast<std::size_t>(-reinterpret_cast<std::uintptr_t>(first)) % page;
    bytes_ = mapped_ - page;
    madvise(begin_, bytes_, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    std::memset(begin_, 0x3c, bytes_);
  }
  ~HugeMemory() { munmap(mapping_, mapped_); }
  HugeMemory(const HugeMemory&) = delete;
  HugeMemory& operator=(const HugeMemory&) = delete;

  char* begin() const { return begin_; }

 private:
  std::size_t mapped_, bytes_;
  void* mapping_;
  char* begin_;
};

}  // namespace rotary::measured
