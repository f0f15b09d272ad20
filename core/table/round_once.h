// cos and sin rounded once from the real number, in wide integer arithmetic; shared with gpu.
#pragma once

#include <cstdint>

#include "rotary/rotary.h"
#include "runtime/device_code.h"
#include "turns_constant.h"
#include "values/fraction.h"

namespace rotary::detail {

// (-1)^negative * mantissa * 2^exponent, exactly.
struct Dyadic {
  bool negative = false;
  std::uint64_t mantissa = 0;
  int exponent = 0;
};
ROTARY_DEVICE inline Dyadic dyadic(std::int64_t x) noexcept {
  const auto bits = static_cast<std::uint64_t>(x);
  return {x < 0, x < 0 ? 0 - bits : bits, 0};
}

ROTARY_DEVICE inline Dyadic dyadic(double x) noexcept {  // finite
  const auto bits = __builtin_bit_cast(std::uint64_t, x);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  const int biased = static_cast<int>(bits >> 52 & 0x7ff);
  if (biased == 0) return {x < 0, fraction, -1074};
  return {x < 0, fraction | std::uint64_t{1} << 52, biased - 1075};
}

struct CosSin {
  float cos;
  float sin;
};

// ---- the wide computation ------------------------------------------------------------------------

namespace wide {

template <int N>
ROTARY_DEVICE Fraction<N> quarter_pi_fraction() noexcept {
  Fraction<N> result;
  for (int k = 0; k < N; ++k) result.limb[k] = quarter_pi()[N - 1 - k];
  return result;
}

// |cos| and |sin| of a phase in turns and their signs, each within 2^8 ulp, or 2^10 with more than 6 limbs. Errors in
// ulp: up to 5 from the phase, 41 from the eighths, 34 from the angle x, 54 from its square; the series add less than
// 64, or 400 with more than 6 limbs.
template <int N>
struct SignedCosSin {
  Fraction<N> cos, sin;
  bool cos_negative, sin_negative;
};
template <int N>
ROTARY_DEVICE SignedCosSin<N> cos_sin(Fraction<N> phase) noexcept {
  const unsigned octant = static_cast<unsigned>(phase.limb[N - 1] >> 61);
  const unsigned quadrant = (octant + 1) / 2 % 4;
  phase = phase << 3;
  const bool below = (octant & 1) != 0;  // the phase is below the nearest quarter turn
  const Fraction<N> eighths = below ? ~phase : phase;
  const Fraction<N> x = eighths * quarter_pi_fraction<N>();
  const Fraction<N> z = x * x;
  const Fraction<N> c = series<N, 1>(z);
  const Fraction<N> s = x * series<N, 2>(z);
  const bool swap = (quadrant & 1) != 0;
  const bool c_negative = quadrant == 1 || quadrant == 2;
  const bool s_negative = quadrant == 2 || quadrant == 3;
  return swap ? SignedCosSin<N>{s, c, c_negative != below, s_negative}
              : SignedCosSin<N>{c, s, c_negative, s_negative != below};
}

// value * factor, rounded. *decided: whether every number within cos_sin's error of value rounds to the same result.
template <int N>
ROTARY_DEVICE float scaled(const Fraction<N>& value, const Dyadic& factor, const Format& format,
                           bool* decided) noexcept {
  std::uint64_t below[N + 1], above[N + 1];
  std::uint64_t carry = 0;
  for (int k = 0; k < N; ++k) {
    const Wide product = static_cast<Wide>(value.limb[k]) * factor.mantissa + carry;
    below[k] = above[k] = low(product);
    carry = high(product);
  }
  below[N] = above[N] = carry;
  Wide less = static_cast<Wide>(factor.mantissa) << (N > 6 ? 10 : 8), more = less;
  for (int k = 0; k <= N; ++k) {
    const Wide difference = static_cast<Wide>(below[k]) - low(less);
    below[k] = low(difference);
    less = (less >> 64) + (high(difference) != 0 ? 1 : 0);
    const Wide sum = static_cast<Wide>(above[k]) + low(more);
    above[k] = low(sum);
    more = (more >> 64) + high(sum);
  }
  const int exponent = factor.exponent - 64 * N;
  const float result = rounded(above, exponent, format);
  *decided = less == 0 && rounded(below, exponent, format) == result;
  return result;
}

ROTARY_DEVICE inline float with_sign(float magnitude, bool negative) noexcept {
  return negative ? -magnitude : magnitude;
}

template <int N>
ROTARY_DEVICE bool attempt(const Fraction<N>& phase, bool negative, const Dyadic& factor, const Format& format,
                           CosSin* out) noexcept {
  const SignedCosSin<N> t = cos_sin(phase);
  bool cos_decided, sin_decided;
  const float c = scaled(t.cos, factor, format, &cos_decided);
  const float s = scaled(t.sin, factor, format, &sin_decided);
  *out = {with_sign(c, t.cos_negative != factor.negative),
          with_sign(s, (t.sin_negative != negative) != factor.negative)};
  return cos_decided && sin_decided;
}

// |x| < 2^-100: cos x and (sin x)/x are less than 2^-200 below 1, while factor and factor * x have at most 170 bits. So
// the result lies just below (in magnitude) such a number, closer than any rounding boundary.
ROTARY_DEVICE inline CosSin tiny(Wide m, int exponent, bool negative, const Dyadic& factor,
                                 const Format& format) noexcept {
  const Wide bottom = static_cast<Wide>(low(m)) * factor.mantissa;
  const Wide middle = static_cast<Wide>(high(m)) * factor.mantissa + high(bottom);
  const std::uint64_t product[3] = {low(bottom), low(middle), high(middle)};
  std::uint64_t below[3] = {product[0] << 2, product[1] << 2 | product[0] >> 62, product[2] << 2 | product[1] >> 62};
  for (int k = 0; below[k]-- == 0;) ++k;
  const std::uint64_t below_factor[1] = {(factor.mantissa << 2) - 1};
  return {with_sign(rounded(below_factor, factor.exponent - 2, format), factor.negative),
          with_sign(rounded(below, exponent + factor.exponent - 2, format), negative != factor.negative)};
}

}  // namespace wide

// factor * cos(position * inv_freq) and factor * sin(...), rounded once from the real number to the given type, to
// nearest even, with its subnormals and infinities. A zero sine is +0.
ROTARY_DEVICE inline CosSin round_once(const Dyadic& position, double inv_freq, double factor,
                                       Rounding rounding) noexcept {
  const Dyadic w = dyadic(inv_freq), a = dyadic(factor);
  const Format format = format_of(rounding);
  if (a.mantissa == 0) return {0, 0};
  const Wide m = static_cast<Wide>(position.mantissa) * w.mantissa;
  if (m == 0) {
    const std::uint64_t exact[1] = {a.mantissa};
    return {wide::with_sign(rounded(exact, a.exponent, format), a.negative), 0};
  }
  const int exponent = position.exponent + w.exponent;
  const bool negative = position.negative != w.negative;
  const int bits = high(m) != 0 ? 64 + width_of(high(m)) : width_of(low(m));
  if (bits + exponent <= -100) return wide::tiny(m, exponent, negative, a, format);
  // The angle is rational and not 0, so cos and sin are irrational (Lindemann), and some precision decides. 128 bits
  // are enough for most angles, 256 bits fail with a probability of about 2^-100, 384 bits with 2^-220, and are final.
  // Under -Os the 1024 bits of a sum of angles come after the 128.
  CosSin result;
  if (wide::attempt(turns<2>(m, exponent), negative, a, format, &result)) return result;
#ifdef __OPTIMIZE_SIZE__
  constexpr int last = 16;
#else
  if (wide::attempt(turns<4>(m, exponent), negative, a, format, &result)) return result;
  constexpr int last = 6;
#endif
  wide::attempt(turns<last>(m, exponent), negative, a, format, &result);
  return result;
}

}  // namespace rotary::detail
