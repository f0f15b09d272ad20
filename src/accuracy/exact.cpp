#include "runtime/arithmetic.h"

#include "exact.h"

#include <cmath>

#include "rotary/error.h"
#include "values/number_text.h"

namespace rotary::accuracy {

namespace {

// Towards zero; what is lost is below 2^-117.
Sum sum_of(const detail::Fraction<2>& value, bool negative) noexcept {
  constexpr std::uint64_t tail = 0x7ff;  // the bits of a limb that a double does not hold
  const double sign = negative ? -1 : 1;
  const double high = static_cast<double>(value.limb[1] & ~tail) * 0x1p-64;
  const double low =
      static_cast<double>(value.limb[1] & tail) * 0x1p-64 + static_cast<double>(value.limb[0]) * 0x1p-128;
  return {sign * high, sign * low};
}

Sum operator*(const Sum& a, double factor) noexcept {
  if (factor == 1) return a;
  const double high = a.high * factor;
  return {high, std::fma(a.high, factor, -high) + a.low * factor};
}

// Whether every number within 2^-50 of value, relatively, rounds to the same float.
bool is_clear(double value) noexcept {
  return static_cast<float>(value * (1 - 0x1p-50)) == static_cast<float>(value * (1 + 0x1p-50));
}

}  // namespace

Position Position::real(double value) {
  if (!(std::fabs(value) < 0x1p63)) {
    throw Error(Code::POSITION,
                "[accuracy] a position must be finite and below 2^63 but got " + detail::shortest(value));
  }
  Position position;
  position.real_ = value;
  position.is_whole_ = false;
  position.whole_ = static_cast<std::int64_t>(value);
  return position;
}

detail::Dyadic dyadic(const Position& position) noexcept {
  return position.is_whole() ? detail::dyadic(position.whole()) : detail::dyadic(position.as_double());
}

std::uint64_t Position::magnitude() const noexcept {
  const auto bits = static_cast<std::uint64_t>(whole_);
  return whole_ < 0 ? 0 - bits : bits;
}

ExactCosSin exact_cos_sin(const Position& position, double inv_freq, double factor) noexcept {
  const detail::Dyadic p = dyadic(position), w = detail::dyadic(inv_freq);
  const detail::Wide m = static_cast<detail::Wide>(p.mantissa) * w.mantissa;
  const int exponent = p.exponent + w.exponent;
  const bool negative = p.negative != w.negative;
  const int bits = detail::high(m) != 0 ? 64 + width_of(detail::high(m)) : width_of(detail::low(m));
  if (m == 0) return {Sum{1, 0} * factor, Sum{0, 0}};
  if (bits + exponent <= -100) return {Sum{1, 0} * factor, Sum{position.as_double() * inv_freq, 0} * factor};
  const auto found = detail::wide::cos_sin<2>(m, exponent);
  return {sum_of(found.cos, found.cos_negative) * factor, sum_of(found.sin, found.sin_negative != negative) * factor};
}

double distance(double value, const Sum& exact) noexcept { return std::fabs((value - exact.high) - exact.low); }

CosSin nearest_cos_sin(double angle) noexcept {
  const double cos = std::cos(angle), sin = std::sin(angle);
  if (is_clear(cos) && is_clear(sin)) return {static_cast<float>(cos), static_cast<float>(sin)};
  return detail::round_once({false, 1, 0}, angle, 1, Rounding::f32);
}

}  // namespace rotary::accuracy
