// One pair at a time: the arithmetic that angles.inc is written in, for any machine.
#pragma once

#include <bit>
#include <cstdint>

namespace rotary::cpu {
namespace {

struct Lanes {
  static constexpr int width = 1;
  using Int = std::uint64_t;  // unsigned 64-bit lanes
  using Real = double;

  static Int integer(std::uint64_t x) { return x; }
  static Real real(double x) { return x; }
  static Int load(const std::uint32_t* p) { return *p; }  // extended with zeros
  static Real load(const double* p) { return *p; }
  // The products of floats, rounded to float.
  static Real float_product(const float* p, const float* q) { return static_cast<double>(*p * *q); }
  static void store(float* p, Real x) { *p = static_cast<float>(x); }
  static void store(float* p, Real x, float factor) { *p = static_cast<float>(x) * factor; }

  static Int add(Int a, Int b) { return a + b; }
  static Int multiply_low(Int a, Int b) { return (a & 0xffffffffu) * (b & 0xffffffffu); }  // 32 x 32 -> 64 bits
  static Int both(Int a, Int b) { return a & b; }
  static Int either(Int a, Int b) { return a | b; }
  static Int differ(Int a, Int b) { return a ^ b; }
  template <int N>
  static Int left(Int a) {
    return a << N;
  }
  template <int N>
  static Int right(Int a) {
    return a >> N;
  }

  static Real add(Real a, Real b) { return a + b; }
  static Real subtract(Real a, Real b) { return a - b; }
  static Real multiply(Real a, Real b) { return a * b; }
  static Real multiply_add(Real a, Real b, Real c) { return a * b + c; }  // one rounding or two
  static Int bits(Real a) { return __builtin_bit_cast(Int, a); }
  static Real from_bits(Int a) { return __builtin_bit_cast(Real, a); }

  // b where the top bit of `which` is set, else a.
  static Real choose(Int which, Real a, Real b) { return which >> 63 != 0 ? b : a; }
  // The top bits, lane 0 lowest.
  static unsigned top_bits(Int a) { return static_cast<unsigned>(a >> 63); }
};

}  // namespace
}  // namespace rotary::cpu
