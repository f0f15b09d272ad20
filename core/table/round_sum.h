// cos and sin of a sum of angles, rounded once, in wide integer arithmetic; shared with gpu.
#pragma once

#include "round_once.h"

namespace rotary::detail {

// Smaller numbers, except 0, could have all their digits beyond the 1024 bits that hold a sum of angles and its square.
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

namespace wide {

// Whether the terms cancel: sums them in units of 2^-512, which divide every product of the numbers allowed above.
template <class Term>
ROTARY_DEVICE bool cancels(int terms, const Term& term) noexcept {
  constexpr int limbs = 42, point = 512;
  std::uint64_t sum[limbs] = {};
  for (int a = 0; a < terms; ++a) {
    const Angle x = term(a);
    if (x.m == 0) continue;
    const int shift = x.exponent + point, limb = shift / 64, bits = shift % 64;
    const std::uint64_t part[3] = {low(x.m << bits), high(x.m << bits), bits == 0 ? 0 : high(x.m) >> (64 - bits)};
    Wide carry = x.negative ? 1 : 0;  // -x is ~x + 1
    for (int k = 0; k < limbs; ++k) {
      const std::uint64_t digit = k >= limb && k < limb + 3 ? part[k - limb] : 0;
      carry = static_cast<Wide>(sum[k]) + (x.negative ? ~digit : digit) + carry;
      sum[k] = low(carry);
      carry = high(carry);
    }
  }
  for (const std::uint64_t limb : sum) {
    if (limb != 0) return false;
  }
  return true;
}

// Uses N + 1 limbs, so that the terms' errors, 4 ulp each, stay below those of attempt().
template <int N, class Term>
ROTARY_DEVICE bool attempt(int terms, const Term& term, const Dyadic& factor, const Format& format,
                           CosSin* out) noexcept {
  Fraction<N + 1> sum;
  for (int a = 0; a < terms; ++a) {
    const Angle x = term(a);
    if (x.m == 0) continue;
    const Fraction<N + 1> phase = turns<N + 1>(x.m, x.exponent);
    sum = sum + (x.negative ? ~phase : phase);
  }
  Fraction<N> phase;
  for (int k = 0; k < N; ++k) phase.limb[k] = sum.limb[k + 1];
  return attempt(phase, false, factor, format, out);
}

}  // namespace wide

// Like round_once for the sum of the Angles term(0), ..., term(terms - 1). The sum is rational, so cos and sin are
// irrational unless it is 0; the sine is then `zero`.
template <class Term>
ROTARY_DEVICE inline CosSin round_sum(int terms, const Term& term, const Dyadic& factor, const Format& format,
                                      float zero) noexcept {
  if (factor.mantissa == 0) return {0, zero};
  bool moves = false;
  for (int a = 0; a < terms; ++a) moves = moves || !(term(a).m == 0);
  CosSin result;
#ifndef __OPTIMIZE_SIZE__
  if (moves && (wide::attempt<2>(terms, term, factor, format, &result) ||
                wide::attempt<4>(terms, term, factor, format, &result)))
    return result;
#endif
  if (!moves || wide::cancels(terms, term)) {
    const std::uint64_t exact[1] = {factor.mantissa};
    return {wide::with_sign(rounded(exact, factor.exponent, format), factor.negative), zero};
  }
  wide::attempt<16>(terms, term, factor, format, &result);
  return result;
}

}  // namespace rotary::detail
