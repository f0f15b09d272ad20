// The memory of a table's rows.
#pragma once

#include <cstddef>
#include <utility>

namespace rotary::detail {

// Room for as many floats of cos as of sin, each from a 64-byte boundary on, not initialised. Large rooms lie in huge
// pages where the system has them: 64 MiB are then 32 page faults instead of 16384.
class Rows {
 public:
  Rows() = default;
  ~Rows();
  Rows(Rows&& other) noexcept { swap(other); }
  Rows& operator=(Rows&& other) noexcept {
    swap(other);
    return *this;
  }

  // Afterwards `size` floats fit, their values unspecified; memory that is large enough stays. If memory runs out
  // nothing has changed.
  void reserve(std::size_t size);
  float* cos() const noexcept { return cos_; }
  float* sin() const noexcept { return cos_ + capacity_; }
  void swap(Rows& other) noexcept {
    std::swap(cos_, other.cos_);
    std::swap(capacity_, other.capacity_);
  }

 private:
  float* cos_ = nullptr;
  std::size_t capacity_ = 0;  // of each, a multiple of 16
};

}  // namespace rotary::detail
