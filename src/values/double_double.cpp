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

// e^x - 1 for |x| < 0.006: the Taylor series; the first term left out is below 2^-128 of x.
High small_expm1(const High& x) noexcept {
  static const std::array<High, terms> coefficients = inverse_factorials();
  constexpr std::size_t in_double = 6;  // from this term on, double is precise enough
  double tail = 0;
  for (std::size_t n = terms; n-- > in_double;) {
    tail = tail * x.hi + coefficients[n].hi;
  }
  High sum = tail;
  for (std::size_t n = in_double; n-- > 0;) {
    sum = sum * x + coefficients[n];
  }
  return sum * x;
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

High operator-(const High& a) noexcept { return {-a.hi, -a.lo}; }

High operator-(const High& a, const High& b) noexcept { return a + -b; }

High operator*(const High& a, const High& b) noexcept {
  const High product = two_product(a.hi, b.hi);
  return quick_two_sum(product.hi, product.lo + (a.hi * b.lo + a.lo * b.hi));
}

High operator/(const High& a, const High& b) noexcept {
  const double first = a.hi / b.hi;
  if (!std::isfinite(first) || std::isinf(b.hi)) {
    return first;
  }
  const High rest = a - b * first;
  const double second = rest.hi / b.hi;
  const double third = (rest - b * second).hi / b.hi;
  return quick_two_sum(first, second) + third;
}

bool operator==(const High& a, const High& b) noexcept { return a.hi == b.hi && a.lo == b.lo; }

bool operator<(const High& a, const High& b) noexcept { return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo); }

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

// e^x = 2^k (e^(r/64))^64 with r = x - k ln2, |r| <= ln2 / 2; squared as e^t - 1, to keep the small bits.
High exp(const High& x) noexcept {
  if (!(x.hi <= 710)) {  // infinite, or not a number
    return x.hi + std::numeric_limits<double>::infinity();
  }
  if (x.hi < -746) {
    return 0;
  }
  const double k = std::nearbyint(x.hi / ln2.hi);
  const High rest = x - ln2 * k;
  High power = small_expm1({rest.hi / 64, rest.lo / 64});
  for (int doubling = 0; doubling < 6; ++doubling) {
    power = power * (power + 2);
  }
  power = power + 1;
  const int exponent = static_cast<int>(k);
  return {std::ldexp(power.hi, exponent), std::ldexp(power.lo, exponent)};
}

// One Newton step of third order on the double logarithm y of the significand m: with d = m e^-y - 1,
// log m = y + d - d^2 / 2 + O(d^3), and |d| < 2^-51.
High log(const High& x) noexcept {
  if (!std::isfinite(x.hi)) {
    return x;
  }
  int exponent = 0;
  if (std::frexp(x.hi, &exponent) < 0.70710678) {
    --exponent;
  }
  const High m{std::ldexp(x.hi, -exponent), std::ldexp(x.lo, -exponent)};
  const double y = std::log(m.hi);
  const High d = m * exp(-y) - 1;
  return ln2 * exponent + (y + (d - d * d * 0.5));
}

High pow(const High& base, const High& exponent) noexcept { return exp(exponent * log(base)); }

}  // namespace rotary::detail
