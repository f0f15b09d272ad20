// cos and sin by MPFR: the real number to as many bits as needed, rounded once.
#pragma once

#include <mpfr.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <variant>
#include <vector>

#include "rotary/rotary.h"

namespace judge {

using Position = std::variant<std::int64_t, double>;

class Real {
 public:
  explicit Real(mpfr_prec_t bits) { mpfr_init2(x_, bits); }
  ~Real() { mpfr_clear(x_); }
  Real(const Real&) = delete;
  Real& operator=(const Real&) = delete;
  operator mpfr_ptr() { return x_; }

 private:
  mpfr_t x_;
};

// Rounds to nearest even in the type's own format, subnormals and infinities included.
inline float rounded(mpfr_ptr x, rotary::Rounding rounding) {
  if (rounding == rotary::Rounding::f32) return mpfr_get_flt(x, MPFR_RNDN);
  const bool half = rounding == rotary::Rounding::f16;
  Real y(half ? 11 : 8);
  const mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
  mpfr_set_emin(half ? -23 : -132);
  mpfr_set_emax(half ? 16 : 128);
  int ternary = mpfr_set(y, x, MPFR_RNDN);
  ternary = mpfr_check_range(y, ternary, MPFR_RNDN);
  mpfr_subnormalize(y, ternary, MPFR_RNDN);
  const float result = mpfr_get_flt(y, MPFR_RNDN);
  mpfr_set_emin(emin);
  mpfr_set_emax(emax);
  return result;
}

struct Pair {
  float cos = 0;
  float sin = 0;
  bool operator==(const Pair& other) const { return std::memcmp(this, &other, sizeof other) == 0; }
};

inline void set(mpfr_ptr x, std::int64_t p) { mpfr_set_si(x, p, MPFR_RNDN); }
inline void set(mpfr_ptr x, double p) { mpfr_set_d(x, p, MPFR_RNDN); }
inline void set(mpfr_ptr x, Position position) {
  std::visit([&](auto p) { set(x, p); }, position);
}

// factor * (cos, sin)(x), computed with `bits` bits. The sine of a zero angle is +0.
inline Pair cos_sin(mpfr_ptr x, double factor, rotary::Rounding rounding, mpfr_prec_t bits = 2000) {
  Real c(bits), s(bits);
  mpfr_sin_cos(s, c, x, MPFR_RNDN);
  mpfr_mul_d(c, c, factor, MPFR_RNDN);
  mpfr_mul_d(s, s, factor, MPFR_RNDN);
  return {rounded(c, rounding), mpfr_zero_p(x) != 0 ? 0 : rounded(s, rounding)};
}

// factor * (cos, sin)(position * inv_freq).
inline Pair exact(Position position, double inv_freq, double factor,
                  rotary::Rounding rounding = rotary::Rounding::f32) {
  if (factor == 0) return {};
  Real x(128);  // 64 + 53 bits at most
  set(x, position);
  mpfr_mul_d(x, x, inv_freq, MPFR_RNDN);
  const mpfr_exp_t exponent = mpfr_zero_p(x) != 0 ? 0 : mpfr_get_exp(x);
  return cos_sin(x, factor, rounding,
                 320 + 2 * std::max<mpfr_exp_t>(0, -exponent));  // cos of a tiny x must not be 1
}

// The angle of pair i of head h at token t: position times frequency on the pair's axis, or the sum of these over all
// axes, and the phase. p: the positions, [axes, tokens].
template <class P>
void angle(mpfr_ptr x, const rotary::Frequencies& f, const std::vector<P>& p, std::size_t t, int h, int i) {
  const auto n = static_cast<std::size_t>(f.pairs()), pair = static_cast<std::size_t>(i);
  const auto axes = static_cast<std::size_t>(std::max(1, f.summed_axes));
  const std::size_t tokens = p.size() / static_cast<std::size_t>(f.axes());
  Real product(200);
  mpfr_set_zero(x, 1);
  for (std::size_t a = 0; a < axes; ++a) {
    const std::size_t axis = f.axis.empty() ? a : f.axis[pair];
    set(product, p[axis * tokens + t]);
    mpfr_mul_d(product, product, f.inv_freq[(static_cast<std::size_t>(h) * axes + a) * n + pair], MPFR_RNDN);
    mpfr_add(x, x, product, MPFR_RNDN);
  }
  if (!f.phase.empty()) mpfr_add_d(x, x, f.phase[(static_cast<std::size_t>(h) * n + pair) % f.phase.size()], MPFR_RNDN);
  if (f.clockwise) mpfr_neg(x, x, MPFR_RNDN);
}

// The float32 formula, each step rounded once: angle, cos and sin, times the factor.
inline Pair float32(Position position, float inv_freq, double factor) {
  Real x(24), p(64);
  set(p, position);
  const float angle = mpfr_get_flt(p, MPFR_RNDN) * inv_freq;
  mpfr_set_flt(x, angle, MPFR_RNDN);
  const mpfr_prec_t bits = 200 + (angle == 0 ? 0 : 2 * std::max(0, -std::ilogb(angle)));
  Real c(bits), s(bits);
  mpfr_sin_cos(s, c, x, MPFR_RNDN);
  return {mpfr_get_flt(c, MPFR_RNDN) * static_cast<float>(factor),
          mpfr_get_flt(s, MPFR_RNDN) * static_cast<float>(factor)};
}

// The positions whose angles are nearest to whole quarter turns, from the continued fraction of inv_freq / (pi/2).
inline std::vector<std::int64_t> next_to_zeros(double inv_freq) {
  Real x(400), whole(400);
  mpfr_const_pi(x, MPFR_RNDN);
  mpfr_d_div(x, 2 * std::fabs(inv_freq), x, MPFR_RNDN);
  std::vector<std::int64_t> positions;
  for (std::int64_t before = 0, q = 1;;) {
    positions.insert(positions.end(), {q, -q});
    mpfr_frac(x, x, MPFR_RNDN);
    mpfr_ui_div(x, 1, x, MPFR_RNDN);
    mpfr_rint_floor(whole, x, MPFR_RNDN);
    std::int64_t next = 0;
    if (__builtin_mul_overflow(mpfr_get_si(whole, MPFR_RNDN), q, &next) || __builtin_add_overflow(next, before, &next))
      return positions;
    before = q;
    q = next;
  }
}

}  // namespace judge
