// Two tensors, before and after somebody's rotation, as vectors of head_dim doubles.
#pragma once

#include <array>
#include <complex>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/tensors.h"

namespace rotary::diagnose {

struct Sample {
  std::vector<std::int64_t> size;  // the dimensions in front of head_dim: one, two or three
  int head_dim = 0;
  std::vector<double> before;  // row-major [size..., head_dim]
  std::vector<double> after;
  ElementType type = ElementType::f64;  // the coarsest type that holds every value of `after`
  double unit = 0;                      // the largest relative error of rounding to `type`: 2^-24 for f32
  double least = 0;                     // the smallest step of `type`, of its subnormal numbers
  std::string not_finite;               // names a value that is not finite; empty: there is none

  std::int64_t vectors() const noexcept;
  std::span<const double> x(std::int64_t vector) const noexcept;
  std::span<const double> y(std::int64_t vector) const noexcept;
};

// head_dim 0: that of the last dimension. If the last dimension is a multiple of head_dim, it is heads * head_dim.
// Throws SHAPE (shapes differ, other than two to four dimensions, no element, head_dim does not fit), DTYPE (not F64,
// F32, F16 or BF16).
enum class Scale : std::uint8_t {
  near_1,  // elements of doubles that are far from 1 are multiplied by one power of two: their squares stay finite
  as_given,
};
Sample make_sample(const Tensor& before, const Tensor& after, int head_dim, Scale = Scale::near_1);

// Which dimension of a sample is what. Vector (b, t, h) is number b * row + t * token + h * head.
struct Order {
  std::string name;  // "bthd", "bhtd", "tbhd", "thd", "htd", "td", "hd"
  std::int64_t batch = 1, tokens = 1, heads = 1;
  std::int64_t row = 0, token = 0, head = 0;

  std::int64_t at(std::int64_t b, std::int64_t t, std::int64_t h) const noexcept {
    return b * row + t * token + h * head;
  }
  // visit(row, h, vector), row = b * tokens + t, in this order.
  template <class Visit>
  void for_each_vector(Visit visit) const {
    for (std::int64_t row_index = 0; row_index < batch * tokens; ++row_index) {
      for (std::int64_t h = 0; h < heads; ++h) visit(row_index, h, at(row_index / tokens, row_index % tokens, h));
    }
  }
};
// The orders of a tensor of that many dimensions, the most usual first.
std::vector<Order> orders_of(const Sample&);

}  // namespace rotary::diagnose
