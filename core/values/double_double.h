// High: double-double arithmetic, about 104 good bits, for formulas that are rounded to double once at the end.
#pragma once

#include <cmath>
#include <cstdint>

#include "runtime/compiler.h"
#include "runtime/device_code.h"

namespace rotary::detail {

// The unevaluated sum hi + lo, with hi the sum rounded to double. Its precision falls below 1e-290, where lo is
// subnormal.
struct High {
  double hi = 0;
  double lo = 0;

  constexpr High() = default;
  ROTARY_DEVICE constexpr High(double x) : hi(x) {}  // NOLINT: a double is a High
  ROTARY_DEVICE constexpr High(double high, double low) : hi(high), lo(low) {}
  ROTARY_DEVICE static constexpr High integer(std::int64_t n) noexcept;  // exact

  ROTARY_DEVICE explicit operator double() const noexcept { return hi; }
  explicit operator float() const noexcept;  // rounds once, to nearest even
};

inline constexpr High pi{0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53};

// Error-free transformations (Knuth, Dekker): the result's hi + lo is the exact sum or product.
ROTARY_DEVICE constexpr High two_sum(double a, double b) noexcept {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

ROTARY_DEVICE constexpr High quick_two_sum(double larger, double smaller) noexcept {
  const double sum = larger + smaller;
  return {sum, smaller - (sum - larger)};
}

// At compile time, without fma, by halves of 26 bits, for numbers whose products of halves are normal.
ROTARY_DEVICE constexpr High two_product(double a, double b) noexcept {
  const double product = a * b;
  if (!__builtin_is_constant_evaluated()) return {product, std::fma(a, b, -product)};
  constexpr double splitter = 0x1p27 + 1;
  const double a_high = splitter * a - (splitter * a - a), b_high = splitter * b - (splitter * b - b);
  const double a_low = a - a_high, b_low = b - b_high;
  return {product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low};
}

// a + b where |a| is larger.
ROTARY_DEVICE constexpr High quick_sum(const High& a, const High& b) noexcept {
  const High sum = quick_two_sum(a.hi, b.hi);
  return quick_two_sum(sum.hi, sum.lo + (a.lo + b.lo));
}

ROTARY_DEVICE constexpr High High::integer(std::int64_t n) noexcept {
  const double high = static_cast<double>(n >> 32) * 0x1p32;
  return two_sum(high, static_cast<double>(n & 0xffffffff));
}

ROTARY_NOINLINE ROTARY_DEVICE constexpr High operator+(const High& a, const High& b) noexcept {
  const High sum = two_sum(a.hi, b.hi);
  const High low = two_sum(a.lo, b.lo);
  const High partial = quick_two_sum(sum.hi, sum.lo + low.hi);
  return quick_two_sum(partial.hi, partial.lo + low.lo);
}
ROTARY_DEVICE constexpr High operator-(const High& a) noexcept { return {-a.hi, -a.lo}; }
ROTARY_DEVICE constexpr High operator-(const High& a, const High& b) noexcept { return a + -b; }

ROTARY_NOINLINE ROTARY_DEVICE constexpr High operator*(const High& a, const High& b) noexcept {
  const High product = two_product(a.hi, b.hi);
  return quick_two_sum(product.hi, product.lo + (a.hi * b.lo + a.lo * b.hi));
}

ROTARY_NOINLINE ROTARY_DEVICE constexpr High operator/(const High& a, const High& b) noexcept {
  const double first = a.hi / b.hi;
  if (!(first - first == 0) || !(b.hi - b.hi == 0)) return first;  // infinite or NaN
  const High back = two_product(first, b.hi);
  return quick_two_sum(first, (((a.hi - back.hi) - back.lo) + (a.lo - first * b.lo)) / b.hi);
}
ROTARY_DEVICE constexpr bool operator==(const High& a, const High& b) noexcept { return a.hi == b.hi && a.lo == b.lo; }
ROTARY_DEVICE constexpr bool operator<(const High& a, const High& b) noexcept {
  return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo);
}

High floor(const High& x) noexcept;
High sqrt(const High& x) noexcept;
High log(const High& x) noexcept;  // relative error 2^-103; for 0 and below as std::log
High pow(const High& base, const High& exponent) noexcept;

// ---- exp -----------------------------------------------------------------------------------------

namespace exponentials {

ROTARY_DEVICE constexpr High ln2() noexcept { return {0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56}; }

struct Tables {
  static constexpr int terms = 12, steps = 23;  // steps of 1/64, to beyond ln2 / 2
  High inverse_factorial[terms];                // 1/1!, 1/2!, ..., 1/terms!
  High power[2 * steps + 1];                    // e^(j/64) for j from -steps to steps

  // Each power as (e^(j/4096))^64, squared as e^t - 1, to keep the small bits.
  ROTARY_DEVICE constexpr Tables() noexcept {
    High factorial = 1;
    for (int n = 1; n <= terms; ++n) {
      factorial = factorial * n;
      inverse_factorial[n - 1] = 1 / factorial;
    }
    for (int j = -steps; j <= steps; ++j) {
      High x = small_expm1(j * 0x1p-12);
      for (int doubling = 0; doubling < 6; ++doubling) x = x * quick_sum(2, x);
      power[j + steps] = quick_sum(1, x);
    }
  }
  // e^x - 1 for |x| < 0.008: the Taylor series; the first term left out is below 2^-115 of x.
  ROTARY_DEVICE constexpr High small_expm1(const High& x) const noexcept {
    constexpr int in_double = 6;  // from this term on, double is precise enough
    double tail = 0;
    for (int n = terms; n-- > in_double;) tail = tail * x.hi + inverse_factorial[n].hi;
    High sum = tail;
    for (int n = in_double; n-- > 0;) sum = quick_sum(inverse_factorial[n], sum * x);
    return sum * x;
  }
};
ROTARY_DEVICE inline const Tables& tables() noexcept {
  static constexpr Tables all{};  // without the braces nvcc leaves it empty
  return all;
}

}  // namespace exponentials

// e^x = 2^k e^(j/64) e^t with |k ln2 - x| <= ln2 / 2 and |t| <= 1/128. The absolute error of x counts: good to 2^-104 *
// max(1, |x|).
ROTARY_NOINLINE ROTARY_DEVICE inline High exp(const High& x) noexcept {
  if (!(x.hi <= 710)) return x.hi + __builtin_inf();  // infinity or NaN
  if (x.hi < -746) return 0;
  const exponentials::Tables& tables = exponentials::tables();
  const double k = std::nearbyint(x.hi / exponentials::ln2().hi);
  const High rest = x - exponentials::ln2() * k;
  const double j = std::nearbyint(rest.hi * 64);
  const High& power = tables.power[static_cast<int>(j) + tables.steps];
  const High result = quick_sum(power, power * tables.small_expm1(rest - j * 0x1p-6));
  const int exponent = static_cast<int>(k);
  return {std::ldexp(result.hi, exponent), std::ldexp(result.lo, exponent)};
}

}  // namespace rotary::detail
