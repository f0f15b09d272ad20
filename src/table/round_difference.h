// cos and sin of the difference of two angles, rounded once, in wide integer arithmetic; shared with src/gpu.
#pragma once

#include <cmath>

#include "round_once.h"

namespace rotary::detail {

// Smaller numbers, but for 0, could need more than the 1024 bits that hold the difference of two angles, and its
// square, in front of all their digits.
inline constexpr double least_frequency = 0x1p-256, least_position = 0x1p-64;

// position * inv_freq, exactly.
struct Angle {
  bool negative = false;
  Wide m = 0;
  int exponent = 0;
};
ROTARY_DEVICE inline Angle angle_of(const Dyadic& position, double inv_freq, bool clockwise) noexcept {
  const Dyadic w = dyadic(inv_freq);
  return {(position.negative != w.negative) != clockwise, static_cast<Wide>(position.mantissa) * w.mantissa,
          position.exponent + w.exponent};
}

ROTARY_DEVICE inline bool are_equal(Angle a, Angle b) noexcept {
  if (a.m == 0 || b.m == 0) return a.m == b.m;
  for (; (low(a.m) & 1) == 0; ++a.exponent) a.m = a.m >> 1;
  for (; (low(b.m) & 1) == 0; ++b.exponent) b.m = b.m >> 1;
  return a.m == b.m && a.exponent == b.exponent && a.negative == b.negative;
}

namespace wide {

// Of a phase with its sign; at most 3 ulp too small.
template <int N>
ROTARY_DEVICE Fraction<N> phase_of(const Angle& angle) noexcept {
  if (angle.m == 0) return {};
  const Fraction<N> phase = turns<N>(angle.m, angle.exponent);
  return angle.negative ? ~phase : phase;
}

template <int N>
ROTARY_DEVICE bool attempt(const Angle& from, const Angle& to, const Dyadic& factor, const Format& format,
                           CosSin* out) noexcept {
  const Angle back{!from.negative, from.m, from.exponent};
  return attempt(phase_of<N>(to) + phase_of<N>(back), false, factor, format, out);
}

}  // namespace wide

// As round_once, of the difference. It is rational, so that cos and sin are irrational unless it is 0. zero: the sine
// then, -0 where keys turn clockwise, as in a table.
ROTARY_DEVICE inline CosSin round_difference(const Angle& from, const Angle& to, const Dyadic& factor,
                                             const Format& format, float zero) noexcept {
  if (factor.mantissa == 0) return {0, zero};
  CosSin result;
  if (wide::attempt<2>(from, to, factor, format, &result) || wide::attempt<4>(from, to, factor, format, &result))
    return result;
  if (are_equal(from, to)) {
    const std::uint64_t exact[1] = {factor.mantissa};
    return {wide::with_sign(rounded(exact, factor.exponent, format), factor.negative), zero};
  }
  wide::attempt<16>(from, to, factor, format, &result);
  return result;
}

}  // namespace rotary::detail
