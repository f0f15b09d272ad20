// A number on MPFR, of 400 bits unless more or fewer are asked for, to check formulas with.
#pragma once

#include <mpfr.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace rotary::test {

class MpfrReal {
 public:
  MpfrReal(double x = 0, mpfr_prec_t bits = 400) {  // NOLINT: a double is a real number
    mpfr_init2(value_, bits);
    mpfr_set_d(value_, x, MPFR_RNDN);
  }
  MpfrReal(const MpfrReal& other) : MpfrReal(0, mpfr_get_prec(other.value_)) {
    mpfr_set(value_, other.value_, MPFR_RNDN);
  }
  MpfrReal& operator=(const MpfrReal& other) {
    mpfr_set_prec(value_, mpfr_get_prec(other.value_));
    mpfr_set(value_, other.value_, MPFR_RNDN);
    return *this;
  }
  ~MpfrReal() { mpfr_clear(value_); }

  static MpfrReal integer(std::int64_t n) {
    MpfrReal x;
    mpfr_set_si(x.value_, n, MPFR_RNDN);
    return x;
  }
  static MpfrReal pi() {
    MpfrReal x;
    mpfr_const_pi(x.value_, MPFR_RNDN);
    return x;
  }
  mpfr_ptr get() { return value_; }
  mpfr_srcptr get() const { return value_; }

  // Results have the bits of the operand that has more.
  friend MpfrReal operator+(const MpfrReal& a, const MpfrReal& b) { return binary(mpfr_add, a, b); }
  friend MpfrReal operator-(const MpfrReal& a, const MpfrReal& b) { return binary(mpfr_sub, a, b); }
  friend MpfrReal operator*(const MpfrReal& a, const MpfrReal& b) { return binary(mpfr_mul, a, b); }
  friend MpfrReal operator/(const MpfrReal& a, const MpfrReal& b) { return binary(mpfr_div, a, b); }
  friend MpfrReal pow(const MpfrReal& a, const MpfrReal& b) { return binary(mpfr_pow, a, b); }
  friend MpfrReal min(const MpfrReal& a, const MpfrReal& b) { return binary(mpfr_min, a, b); }
  friend MpfrReal max(const MpfrReal& a, const MpfrReal& b) { return binary(mpfr_max, a, b); }
  friend MpfrReal exp(const MpfrReal& a) { return unary(mpfr_exp, a); }
  friend MpfrReal log(const MpfrReal& a) { return unary(mpfr_log, a); }
  friend MpfrReal sqrt(const MpfrReal& a) { return unary(mpfr_sqrt, a); }
  friend MpfrReal floor(const MpfrReal& a) { return unary(mpfr_rint_floor, a); }
  friend MpfrReal ceil(const MpfrReal& a) { return unary(mpfr_rint_ceil, a); }
  friend bool operator<(const MpfrReal& a, const MpfrReal& b) { return mpfr_less_p(a.value_, b.value_) != 0; }
  friend bool operator==(const MpfrReal& a, const MpfrReal& b) { return mpfr_equal_p(a.value_, b.value_) != 0; }

  double to_double() const { return mpfr_get_d(value_, MPFR_RNDN); }
  float to_float() const { return mpfr_get_flt(value_, MPFR_RNDN); }

 private:
  template <class Function>
  static MpfrReal binary(Function f, const MpfrReal& a, const MpfrReal& b) {
    MpfrReal x(0, std::max(mpfr_get_prec(a.value_), mpfr_get_prec(b.value_)));
    f(x.value_, a.value_, b.value_, MPFR_RNDN);
    return x;
  }
  template <class Function>
  static MpfrReal unary(Function f, const MpfrReal& a) {
    MpfrReal x(0, mpfr_get_prec(a.value_));
    f(x.value_, a.value_, MPFR_RNDN);
    return x;
  }

  mpfr_t value_;
};

// The distance of a double from the real number, in units of the double's last place.
inline double ulps(double got, const MpfrReal& exact) {
  const double rounded = std::fabs(exact.to_double());
  if (rounded == 0) {
    return got == 0 ? 0 : HUGE_VAL;
  }
  int exponent = 0;
  std::frexp(rounded, &exponent);
  return std::fabs((MpfrReal(got) - exact).to_double()) / std::ldexp(1.0, exponent - 53);
}

}  // namespace rotary::test
