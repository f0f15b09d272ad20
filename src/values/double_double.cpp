#include "runtime/arithmetic.h"

#include "double_double.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace rotary::detail {
namespace {

// Error-free transformations (Knuth, Dekker): the result's hi + lo is the exact sum or product.
High two_sum(double a, double b) noexcept {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

High quick_two_sum(double larger, double smaller) noexcept {
  const double sum = larger + smaller;
  return {sum, smaller - (sum - larger)};
}

High two_product(double a, double b) noexcept {
  const double product = a * b;
  return {product, std::fma(a, b, -product)};
}

// a + b where |a| is larger.
High quick_sum(const High& a, const High& b) noexcept {
  const High sum = quick_two_sum(a.hi, b.hi);
  return quick_two_sum(sum.hi, sum.lo + (a.lo + b.lo));
}

constexpr int terms = 12;

// 1/1!, 1/2!, ..., 1/terms!
std::array<High, terms> inverse_factorials() noexcept {
  std::array<High, terms> table;
  High factorial = 1;
  for (int n = 1; n <= terms; ++n) {
    factorial = factorial * n;
    table[static_cast<std::size_t>(n - 1)] = 1 / factorial;
  }
  return table;
}

// e^x - 1 for |x| < 0.008: the Taylor series; the first term left out is below 2^-115 of x.
High small_expm1(const High& x) noexcept {
  static const std::array<High, terms> coefficients = inverse_factorials();
  constexpr std::size_t in_double = 6;  // from this term on, double is precise enough
  double tail = 0;
  for (std::size_t n = terms; n-- > in_double;) {
    tail = tail * x.hi + coefficients[n].hi;
  }
  High sum = tail;
  for (std::size_t n = in_double; n-- > 0;) {
    sum = quick_sum(coefficients[n], sum * x);
  }
  return sum * x;
}

constexpr int steps = 23;  // of 1/64, to beyond ln2 / 2

// e^(j/64) for j from -steps to steps, each as (e^(j/4096))^64, squared as e^t - 1, to keep the small bits.
std::array<High, 2 * steps + 1> exponentials() noexcept {
  std::array<High, 2 * steps + 1> table;
  for (int j = -steps; j <= steps; ++j) {
    High power = small_expm1(j * 0x1p-12);
    for (int doubling = 0; doubling < 6; ++doubling) power = power * quick_sum(2, power);
    table[static_cast<std::size_t>(j + steps)] = quick_sum(1, power);
  }
  return table;
}
const High& exponential(double j) noexcept {
  static const std::array<High, 2 * steps + 1> table = exponentials();
  return table[static_cast<std::size_t>(j + steps)];
}

// ln(1 + d) for |d| < 0.01 as 2 (s + s^3 / 3 + ...) with s = d / (2 + d); the first term left out is below 2^-108 of s.
High small_log1p(const High& d) noexcept {
  static const High third = High(1) / 3, fifth = High(1) / 5;
  const High s = d / quick_sum(2, d), t = s * s;
  const High tail = t.hi * (1.0 / 7 + t.hi * (1.0 / 9 + t.hi * (1.0 / 11 + t.hi * (1.0 / 13))));
  return s * (2 * quick_sum(1, t * quick_sum(third, t * quick_sum(fifth, tail))));
}

}  // namespace

High High::integer(std::int64_t n) noexcept {
  const double high = static_cast<double>(n >> 32) * 0x1p32;
  return two_sum(high, static_cast<double>(n & 0xffffffff));
}

// Rounding hi alone would round twice. So hi is first moved to the odd one of its neighbours ("round to odd"),
// unless lo is only the noise of an exact result.
High::operator float() const noexcept {
  if (!std::isfinite(hi) || std::fabs(lo) <= std::fabs(hi) * 0x1p-90) {
    return static_cast<float>(hi);
  }
  const bool inward = (lo < 0) == (hi > 0);
  const double truncated = inward ? std::nextafter(hi, 0.0) : hi;
  return static_cast<float>(std::bit_cast<double>(std::bit_cast<std::uint64_t>(truncated) | 1));
}

High operator+(const High& a, const High& b) noexcept {
  const High sum = two_sum(a.hi, b.hi);
  const High low = two_sum(a.lo, b.lo);
  const High partial = quick_two_sum(sum.hi, sum.lo + low.hi);
  return quick_two_sum(partial.hi, partial.lo + low.lo);
}

High operator*(const High& a, const High& b) noexcept {
  const High product = two_product(a.hi, b.hi);
  return quick_two_sum(product.hi, product.lo + (a.hi * b.lo + a.lo * b.hi));
}

High operator/(const High& a, const High& b) noexcept {
  const double first = a.hi / b.hi;
  if (!std::isfinite(first) || std::isinf(b.hi)) {
    return first;
  }
  const High back = two_product(first, b.hi);
  return quick_two_sum(first, (((a.hi - back.hi) - back.lo) + (a.lo - first * b.lo)) / b.hi);
}

High floor(const High& x) noexcept {
  const double down = std::floor(x.hi);
  return down == x.hi ? quick_two_sum(down, std::floor(x.lo)) : down;
}

High sqrt(const High& x) noexcept {
  if (x.hi == 0) {
    return 0;
  }
  const double root = std::sqrt(x.hi);
  return quick_two_sum(root, (x - two_product(root, root)).hi / (2 * root));
}

// e^x = 2^k e^(j/64) e^t with |k ln2 - x| <= ln2 / 2 and |t| <= 1/128.
High exp(const High& x) noexcept {
  if (!(x.hi <= 710)) {  // infinite, or not a number
    return x.hi + std::numeric_limits<double>::infinity();
  }
  if (x.hi < -746) {
    return 0;
  }
  const double k = std::nearbyint(x.hi / ln2.hi);
  const High rest = x - ln2 * k;
  const double j = std::nearbyint(rest.hi * 64);
  const High& power = exponential(j);
  const High result = quick_sum(power, power * small_expm1(rest - j * 0x1p-6));
  const int exponent = static_cast<int>(k);
  return {std::ldexp(result.hi, exponent), std::ldexp(result.lo, exponent)};
}

// ln(2^k m) = k ln2 + j/64 + ln(m e^(-j/64)) with m in [0.7, 1.42] and j/64 next to ln m.
High log(const High& x) noexcept {
  if (!std::isfinite(x.hi)) {
    return x;
  }
  int exponent = 0;
  if (std::frexp(x.hi, &exponent) < 0.70710678) {
    --exponent;
  }
  const High m{std::ldexp(x.hi, -exponent), std::ldexp(x.lo, -exponent)};
  const double j = std::nearbyint(std::log(m.hi) * 64);
  return ln2 * exponent + (j * 0x1p-6 + small_log1p(m * exponential(-j) - 1));
}

High pow(const High& base, const High& exponent) noexcept { return exp(exponent * log(base)); }

}  // namespace rotary::detail
