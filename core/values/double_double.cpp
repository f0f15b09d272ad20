#include "runtime/arithmetic.h"

#include "double_double.h"

#include <bit>

namespace rotary::detail {
namespace {

// ln(1 + d) for |d| < 0.01 as 2 (s + s^3 / 3 + ...) with s = d / (2 + d); the first term left out is below 2^-108 of s.
High small_log1p(const High& d) noexcept {
  static constexpr High third = High(1) / 3, fifth = High(1) / 5;
  const High s = d / quick_sum(2, d), t = s * s;
  const High tail = t.hi * (1.0 / 7 + t.hi * (1.0 / 9 + t.hi * (1.0 / 11 + t.hi * (1.0 / 13))));
  return s * (2 * quick_sum(1, t * quick_sum(third, t * quick_sum(fifth, tail))));
}

}  // namespace

// Rounding hi alone would round twice. So hi is first moved to the odd one of its neighbours ("round to odd"),
// unless lo is only the noise of an exact result.
High::operator float() const noexcept {
  if (!std::isfinite(hi) || std::fabs(lo) <= std::fabs(hi) * 0x1p-90) return static_cast<float>(hi);
  const bool inward = (lo < 0) == (hi > 0);
  const double truncated = inward ? std::nextafter(hi, 0.0) : hi;
  return static_cast<float>(std::bit_cast<double>(std::bit_cast<std::uint64_t>(truncated) | 1));
}

High floor(const High& x) noexcept {
  const double down = std::floor(x.hi);
  return down == x.hi ? quick_two_sum(down, std::floor(x.lo)) : down;
}

High sqrt(const High& x) noexcept {
  if (x.hi == 0) return 0;
  const double root = std::sqrt(x.hi);
  return quick_two_sum(root, (x - two_product(root, root)).hi / (2 * root));
}

// ln(2^k m) = k ln2 + j/64 + ln(m e^(-j/64)) with m in [0.7, 1.42] and j/64 next to ln m.
High log(const High& x) noexcept {
  if (!std::isfinite(x.hi) || x.hi <= 0) return std::log(x.hi);
  int exponent = 0;
  if (std::frexp(x.hi, &exponent) < 0.70710678) --exponent;
  const High m{std::ldexp(x.hi, -exponent), std::ldexp(x.lo, -exponent)};
  const double j = std::nearbyint(std::log(m.hi) * 64);
  const High& power = exponentials::tables().power[exponentials::Tables::steps - static_cast<int>(j)];
  return exponentials::ln2() * exponent + (j * 0x1p-6 + small_log1p(m * power - 1));
}

High pow(const High& base, const High& exponent) noexcept { return exp(exponent * log(base)); }

}  // namespace rotary::detail
