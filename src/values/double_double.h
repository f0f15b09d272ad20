// High: double-double arithmetic, about 104 good bits, for formulas that are rounded to double once at the end.
#pragma once

#include <cstdint>

namespace rotary::detail {

// The unevaluated sum hi + lo, with hi the sum rounded to double. Its precision falls below 1e-290, where lo is
// subnormal.
struct High {
  double hi = 0;
  double lo = 0;

  constexpr High() = default;
  constexpr High(double x) : hi(x) {}  // NOLINT: a double is a High
  constexpr High(double high, double low) : hi(high), lo(low) {}
  static High integer(std::int64_t n) noexcept;  // exact

  explicit operator double() const noexcept { return hi; }
  explicit operator float() const noexcept;  // rounded once, to nearest even
};

inline constexpr High pi{0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53};
inline constexpr High ln2{0x1.62e42fefa39efp-1, 0x1.abc9e3b39803fp-56};

High operator+(const High& a, const High& b) noexcept;
inline High operator-(const High& a) noexcept { return {-a.hi, -a.lo}; }
inline High operator-(const High& a, const High& b) noexcept { return a + -b; }
High operator*(const High& a, const High& b) noexcept;
High operator/(const High& a, const High& b) noexcept;
inline bool operator==(const High& a, const High& b) noexcept { return a.hi == b.hi && a.lo == b.lo; }
inline bool operator<(const High& a, const High& b) noexcept { return a.hi < b.hi || (a.hi == b.hi && a.lo < b.lo); }

High floor(const High& x) noexcept;
High sqrt(const High& x) noexcept;
High exp(const High& x) noexcept;  // absolute error of x counts: good to 2^-104 * max(1, |x|)
High log(const High& x) noexcept;  // x > 0; relative error 2^-103
High pow(const High& base, const High& exponent) noexcept;  // base > 0

}  // namespace rotary::detail
