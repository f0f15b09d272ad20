// Rounds an f32 to the values of f16 or bf16, to nearest even. Without branches, so that the kernels' loops vectorise.
#pragma once

#include <cstdint>

#include "rotary/rotary.h"
#include "runtime/device_code.h"

namespace rotary::detail {

// All functions here are static: each target keeps its own copy, compiled with its own flags. Magnitudes are signed
// integers because AVX2 compares only those.
ROTARY_DEVICE static inline std::int32_t bits_of_float(float x) { return __builtin_bit_cast(std::int32_t, x); }
ROTARY_DEVICE static inline float float_of_bits(std::int32_t bits) { return __builtin_bit_cast(float, bits); }
ROTARY_DEVICE static inline std::int32_t magnitude_of(float x) { return bits_of_float(x) & 0x7fffffff; }

// Below 2^-14 the values of f16 are the multiples of 2^-24, the ulp of 0.5.
ROTARY_DEVICE static inline float whole_f16(float magnitude) { return (magnitude + 0.5f) - 0.5f; }

// a if magnitude is below limit, else b. Uses a mask: compilers make branches of ?: around floating-point sums.
ROTARY_DEVICE static inline std::int32_t below(std::int32_t magnitude, std::int32_t limit, std::int32_t a,
                                               std::int32_t b) {
  const std::int32_t mask = (magnitude - limit) >> 31;
  return (a & mask) | (b & ~mask);
}
constexpr std::int32_t smallest_normal_f16 = 0x38800000;

// x rounded to Type. x is not NaN.
template <Rounding Type>
ROTARY_DEVICE static inline float narrowed(float x) {
  constexpr int drop = Type == Rounding::f16 ? 13 : 16;
  const std::int32_t magnitude = magnitude_of(x);
  std::int32_t kept = magnitude + ((1 << (drop - 1)) - 1) + (magnitude >> drop & 1);
  kept &= -(1 << drop);
  if constexpr (Type == Rounding::f16) {
    kept = below(kept, 0x47800000, kept, 0x7f800000);  // 2^16 and above
    kept = below(magnitude, smallest_normal_f16, bits_of_float(whole_f16(float_of_bits(magnitude))), kept);
  }
  return float_of_bits(kept | (bits_of_float(x) ^ magnitude));
}

// All bits set if x lies midway between two values of Type, else 0.
template <Rounding Type>
ROTARY_DEVICE static inline std::int32_t midway(float x) {
  constexpr std::int32_t half = Type == Rounding::f16 ? 1 << 12 : 1 << 15;
  const std::int32_t magnitude = magnitude_of(x);
  std::int32_t off = (magnitude & (2 * half - 1)) ^ half;  // 0: midway
  if constexpr (Type == Rounding::f16) {
    const float value = float_of_bits(magnitude);
    const std::int32_t subnormal = magnitude_of(value - whole_f16(value)) ^ bits_of_float(0x1p-25f);
    off = below(magnitude, smallest_normal_f16, subnormal, off);
  }
  return off == 0 ? -1 : 0;
}

}  // namespace rotary::detail
