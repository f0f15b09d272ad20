// The memory of a table's rows.
#pragma once

#include <cstddef>
#include <utility>

namespace rotary::detail {

// Uninitialised memory for equally many floats of cos and of sin, both aligned to 64 bytes. Large memory uses huge
// pages where the system has them: 64 MiB then cause 32 page faults instead of 16384.
class Rows {
 public:
  Rows() = default;
  ~Rows();
  Rows(Rows&& other) noexcept { swap(other); }
  Rows& operator=(Rows&& other) noexcept {
    swap(other);
    return *this;
  }

  // Makes room for `size` floats of each, with unspecified values; keeps memory that is large enough. If memory runs
  // out, nothing changes.
  void reserve(std::size_t size);
  float* cos() const noexcept { return cos_; }
  float* sin() const noexcept { return cos_ + capacity_; }
  void swap(Rows& other) noexcept {
    std::swap(cos_, other.cos_);
    std::swap(capacity_, other.capacity_);
  }

 private:
  float* cos_ = nullptr;
  std::size_t capacity_ = 0;  // floats of each, a multiple of 16
};

}  // namespace rotary::detail
