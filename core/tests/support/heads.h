// Heads and tables for the tests of rotate, and the comparison of their bits.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "core/tests/support/elements.h"

namespace rotary::tests {

inline std::vector<float> counted(std::int64_t count) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 97) / 8 - 5;
  return x;
}

// Which elements of a buffer rotate.
inline std::vector<bool> rotated_elements(const Layout& l, int rotary_dim) {
  std::vector<bool> rotated(static_cast<std::size_t>(extent(l)));
  for (std::int64_t b = 0; b < l.batch; ++b) {
    for (std::int64_t t = 0; t < l.tokens; ++t) {
      for (std::int64_t h = 0; h < l.heads; ++h) {
        const std::int64_t at = b * l.batch_stride + t * l.token_stride + h * l.head_stride;
        for (int d = 0; d < rotary_dim; ++d) rotated[static_cast<std::size_t>(at + d)] = true;
      }
    }
  }
  return rotated;
}

// Equal bits everywhere; among the rotated elements any NaN equals any other.
inline ::testing::AssertionResult same(const void* got, const void* wanted, DType dtype, std::int64_t count,
                                       const std::vector<bool>& rotated) {
  if (count == 0 || std::memcmp(got, wanted, static_cast<std::size_t>(count) * size_of(dtype)) == 0) {
    return ::testing::AssertionSuccess();
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t g = bits_at(got, dtype, i), w = bits_at(wanted, dtype, i);
    const bool rotates = rotated[static_cast<std::size_t>(i)];
    if (g == w || (rotates && is_nan(g, dtype) && is_nan(w, dtype))) continue;
    return ::testing::AssertionFailure() << (rotates ? "rotated" : "still") << " element " << i << " is " << std::hex
                                         << g << " instead of " << w;
  }
  return ::testing::AssertionSuccess();
}

// ---- the cases of every rotation's tests ----

using GridPoint = std::tuple<DType, Pairing, Direction>;
inline const auto grid =
    ::testing::Combine(::testing::ValuesIn(dtypes), ::testing::ValuesIn(pairings), ::testing::ValuesIn(directions));
inline std::string grid_name(const ::testing::TestParamInfo<GridPoint>& p) {
  const auto& [dtype, pairing, direction] = p.param;
  return std::string(name(dtype)) + "_" + name(pairing) + (direction == Direction::backward ? "_backward" : "_forward");
}

}  // namespace rotary::tests
