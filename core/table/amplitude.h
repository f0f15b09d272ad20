// The amplitude of xPos; shared with gpu.
#pragma once

#include "rotary/rope.h"
#include "values/double_double.h"

namespace rotary::detail {

// The logarithm of zeta for pair i of n, which is (5 i + 2 n) / (7 n).
ROTARY_API High log_zeta(std::int64_t i, std::int64_t n) noexcept;  // in turns.cpp

// Whether the amplitude fits a float at position p: zeta is at least 2/7, and (7/2)^70 fits a float.
ROTARY_DEVICE inline bool has_amplitude(const XPos& x, double p) noexcept {
  const double power = (p - x.center) / x.scale;
  return (x.reciprocal ? power : -power) <= 70 && power - power == 0;
}

// The attention factor times the amplitude, rounded once.
ROTARY_DEVICE inline double with_amplitude(const XPos& x, const High& log_zeta, const High& p,
                                           double attention_factor) noexcept {
  const High power = (p - x.center) / x.scale;
  const High magnitude = log_zeta * (x.reciprocal ? -power : power);
  if (magnitude < -700) return 0;
  return static_cast<double>(exp(magnitude) * attention_factor);
}

}  // namespace rotary::detail
