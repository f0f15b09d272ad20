// The plain request that the angle kernels receive. Checked before it is made.
#pragma once

#include <cstdint>

#include "rotary/rotary.h"

namespace rotary::detail {

// Remainders (the signed distance of a phase from the nearest quarter turn) are in units of 2^-66 turns. One below
// 2^-38 turns has too few of its bits in the 96-bit phase: the phase's error is below 2^-93, which is 2^-55 of it.
inline constexpr double smallest_square = 0x1p56;  // of a remainder that a kernel may decide
inline constexpr int turn_limbs = 7;

// Row r (batch row * tokens + token) takes its position at axis * rows + r and goes to cos, sin + r * pairs.
// Arrays "per pair" have `padded` elements, a multiple of 8, zero past `pairs`.
struct AngleJob {
  Angles angles = Angles::exact;
  Rounding rounding = Rounding::f32;
  bool clockwise = false;  // every sin negated
  int pairs = 0;
  int padded = 0;
  std::int64_t rows = 0;
  const std::int64_t* integers = nullptr;  // positions [axes][rows], or
  const double* reals = nullptr;           // the same, finite
  int axes = 1;
  const std::uint8_t* axis = nullptr;  // per pair (not padded), below axes; null: all 0
  const double* inv_freq = nullptr;    // not padded
  double attention_factor = 1;
  float* cos = nullptr;
  float* sin = nullptr;

  // exact: inv_freq / (2 pi) modulo 2^64 turns, [turn_limbs][padded]: 32-bit limb j has the weight 2^(32 (1 - j)), what
  // is below the last is cut off, a negative frequency is the two's complement. And per pair the smallest square of a
  // remainder that the kernel may decide: smallest_square, or 0 for a pair that stands still (its phase is exact).
  const std::uint64_t* turns = nullptr;
  const double* floor = nullptr;
  // float32: per pair, and the factor in f32.
  const float* inv_freq_float32 = nullptr;
  float factor_float32 = 1;
};

// Recomputes one pair of one row in wide arithmetic and stores it; exact ones rounded once to the given type. In
// turns.cpp.
void settle(const AngleJob&, std::int64_t row, int pair, Rounding) noexcept;

}  // namespace rotary::detail
