// Memory between two guard pages: an access one byte outside crashes.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <new>

namespace rotary::tests {

class Guarded {
 public:
  explicit Guarded(std::size_t bytes) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    inside_ = (bytes + page - 1) / page * page;
    mapped_ = inside_ + 2 * page;
    void* memory = mmap(nullptr, mapped_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<std::byte*>(memory);
    begin_ = base_ + page;
    mprotect(begin_, inside_, PROT_READ | PROT_WRITE);
  }
  ~Guarded() { munmap(base_, mapped_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  std::byte* at_start() const { return begin_; }                                   // right after a guard page
  std::byte* at_end(std::size_t bytes) const { return begin_ + inside_ - bytes; }  // ends right before a guard page

 private:
  std::byte* base_;
  std::byte* begin_;
  std::size_t inside_;
  std::size_t mapped_;
};

}  // namespace rotary::tests
