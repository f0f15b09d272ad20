// cos and sin by MPFR: the real number to as many bits as needed, rounded once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <variant>
#include <vector>

#include "core/tests/support/mpfr_real.h"
#include "rotary/rotary.h"

namespace judge {

using Position = std::variant<std::int64_t, double>;

using Real = rotary::test::MpfrReal;

// Rounds to nearest even in the type's own format, subnormals and infinities included.
inline float rounded(const Real& x, rotary::Rounding rounding) {
  if (rounding == rotary::Rounding::f32) return x.to_float();
  const bool half = rounding == rotary::Rounding::f16;
  Real y(0, half ? 11 : 8);
  const mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
  mpfr_set_emin(half ? -23 : -132);
  mpfr_set_emax(half ? 16 : 128);
  int ternary = mpfr_set(y.get(), x.get(), MPFR_RNDN);
  ternary = mpfr_check_range(y.get(), ternary, MPFR_RNDN);
  mpfr_subnormalize(y.get(), ternary, MPFR_RNDN);
  const float result = y.to_float();
  mpfr_set_emin(emin);
  mpfr_set_emax(emax);
  return result;
}

struct Pair {
  float cos = 0;
  float sin = 0;
  bool operator==(const Pair& other) const { return std::memcmp(this, &other, sizeof other) == 0; }
};

inline Real real(std::int64_t p) { return Real::integer(p); }
inline Real real(double p) { return p; }
inline Real real(Position position) {
  return std::visit([](auto p) { return real(p); }, position);
}

// factor * (cos, sin)(x), computed with `bits` bits. The sine of a zero angle is +0.
inline Pair cos_sin(const Real& x, double factor, rotary::Rounding rounding, mpfr_prec_t bits = 2000) {
  Real c(0, bits), s(0, bits);
  mpfr_sin_cos(s.get(), c.get(), x.get(), MPFR_RNDN);
  return {rounded(c * factor, rounding), x == 0 ? 0 : rounded(s * factor, rounding)};
}

// factor * (cos, sin)(position * inv_freq).
inline Pair exact(Position position, double inv_freq, double factor,
                  rotary::Rounding rounding = rotary::Rounding::f32) {
  if (factor == 0) return {};
  const Real x = real(position) * inv_freq;
  const mpfr_exp_t exponent = x == 0 ? 0 : mpfr_get_exp(x.get());
  return cos_sin(x, factor, rounding,
                 320 + 2 * std::max<mpfr_exp_t>(0, -exponent));  // cos of a tiny x must not be 1
}

// The angle of pair i of head h at token t: position times frequency on the pair's axis, or the sum of these over all
// axes, and the phase. p: the positions, [axes, tokens].
template <class P>
Real angle(const rotary::Frequencies& f, const std::vector<P>& p, std::size_t t, int h, int i) {
  const auto n = static_cast<std::size_t>(f.pairs()), pair = static_cast<std::size_t>(i);
  const auto axes = static_cast<std::size_t>(std::max(1, f.summed_axes));
  const std::size_t tokens = p.size() / static_cast<std::size_t>(f.axes());
  Real x(0, 4400);
  for (std::size_t a = 0; a < axes; ++a) {
    const std::size_t axis = f.axis.empty() ? a : f.axis[pair];
    x = x + real(p[axis * tokens + t]) * f.inv_freq[(static_cast<std::size_t>(h) * axes + a) * n + pair];
  }
  if (!f.phase.empty()) x = x + f.phase[(static_cast<std::size_t>(h) * n + pair) % f.phase.size()];
  return f.clockwise ? 0 - x : x;
}

// The float32 formula, each step rounded once: angle, cos and sin, times the factor.
inline Pair float32(Position position, float inv_freq, double factor) {
  const float angle = real(position).to_float() * inv_freq;
  const mpfr_prec_t bits = 200 + (angle == 0 ? 0 : 2 * std::max(0, -std::ilogb(angle)));
  Real c(0, bits), s(0, bits);
  mpfr_sin_cos(s.get(), c.get(), Real(double{angle}).get(), MPFR_RNDN);
  return {c.to_float() * static_cast<float>(factor), s.to_float() * static_cast<float>(factor)};
}

// The positions whose angles are nearest to whole quarter turns, from the continued fraction of inv_freq / (pi/2).
inline std::vector<std::int64_t> next_to_zeros(double inv_freq) {
  Real x = 2 * std::fabs(inv_freq) / Real::pi();
  std::vector<std::int64_t> positions;
  for (std::int64_t before = 0, q = 1;;) {
    positions.insert(positions.end(), {q, -q});
    x = 1 / (x - floor(x));
    std::int64_t next = 0;
    if (__builtin_mul_overflow(mpfr_get_si(floor(x).get(), MPFR_RNDN), q, &next) ||
        __builtin_add_overflow(next, before, &next))
      return positions;
    before = q;
    q = next;
  }
}

}  // namespace judge
