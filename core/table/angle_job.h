// The checked request that the angle kernels receive.
#pragma once

#include <cstdint>

#include "rotary/rotary.h"

namespace rotary::detail {

// A remainder is the signed distance of a phase from the nearest quarter turn, in units of 2^-66 turns. The 96-bit
// phase has an error below 2^-93 turns: at most 2^-55 of a remainder of 2^-38 turns, too much for a smaller one.
inline constexpr double smallest_square = 0x1p56;  // the least square of a remainder that a kernel may decide
inline constexpr int turn_limbs = 7;

// Row r (batch row * tokens + token) has its position at axis * rows + r and is written to cos, sin + r * pairs.
// Arrays "per pair" have `padded` elements, a multiple of 8, zero past `pairs`.
struct AngleJob {
  Angles angles = Angles::exact;
  Rounding rounding = Rounding::f32;
  bool clockwise = false;  // every sin negated
  int pairs = 0;           // over all heads that have their own rows
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

  // For exact angles. turns: inv_freq / (2 pi) modulo 2^64 turns, [turn_limbs][padded]; 32-bit limb j has the weight
  // 2^(32 (1 - j)), the bits below the last limb are cut off, a negative frequency is the two's complement. floor: per
  // pair, the smallest square of a remainder that the kernel may decide; 0 for a pair that does not rotate, whose phase
  // is exact.
  const std::uint64_t* turns = nullptr;
  const double* floor = nullptr;
  // If above 0, angles are sums of `terms` products, exact: term a has the position at a * rows + r, or 1 if it is the
  // last and there is a phase; its frequencies lie at inv_freq + a * padded, limb j of its turns at turns + (j * terms
  // + a) * padded. If 0, the rest of this struct describes the one product.
  int terms = 0;
  bool phase = false;
  const XPos* xpos = nullptr;  // or null; pair i counts as i % head_pairs
  int head_pairs = 0;
  // For float32 angles: the frequencies per pair, and the attention factor in f32.
  const float* inv_freq_float32 = nullptr;
  float factor_float32 = 1;
};

// Recomputes one pair of one row in wide arithmetic and stores it; exact values are rounded once to the given type. In
// turns.cpp.
void settle(const AngleJob&, std::int64_t row, int pair, Rounding) noexcept;

}  // namespace rotary::detail
