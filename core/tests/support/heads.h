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

inline ::testing::AssertionResult same(const void* got, const void* wanted, DType dtype, std::int64_t count,
                                       const std::vector<bool>& rotated) {
  const std::string difference = first_difference(got, wanted, dtype, count, rotated);
  return difference.empty() ? ::testing::AssertionSuccess() : ::testing::AssertionFailure() << difference;
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
