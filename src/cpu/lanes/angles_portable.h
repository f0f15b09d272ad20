// Two pairs at a time by the vector extensions of g++ and clang, where vectors lie in registers; else as scalar.
#pragma once

#include "vector_registers.h"

#if !ROTARY_VECTOR_REGISTERS
#include "angles_scalar.h"
#else

#include <cstdint>

namespace rotary::cpu {
namespace {

struct Lanes {
  static constexpr int width = 2;
  using Int [[gnu::vector_size(16)]] = std::uint64_t;
  using Real [[gnu::vector_size(16)]] = double;
  struct Float {
    float low, high;
  };

  static Int integer(std::uint64_t x) { return Int{x, x}; }
  static Real real(double x) { return Real{x, x}; }
  static Float floats(float x) { return {x, x}; }
  static Int load(const std::uint64_t* p) { return load_as<Int>(p); }
  static Real load(const double* p) { return load_as<Real>(p); }
  static Float load(const float* p) { return {p[0], p[1]}; }
  static void store(double* p, Real x) { __builtin_memcpy(p, &x, sizeof x); }
  static void store(float* p, Float x) {
    p[0] = x.low;
    p[1] = x.high;
  }

  static Int add(Int a, Int b) { return a + b; }
  static Int multiply_32(Int a, Int b) { return Int{a[0] * b[0], a[1] * b[1]}; }
  static Int both(Int a, Int b) { return a & b; }
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
  static Real multiply_add(Real a, Real b, Real c) { return a * b + c; }
  static Real negative_multiply_add(Real a, Real b, Real c) { return c - a * b; }
  static Float multiply(Float a, Float b) { return {a.low * b.low, a.high * b.high}; }

  static Real widen(Float a) { return Real{static_cast<double>(a.low), static_cast<double>(a.high)}; }
  static Float rounded(Real a) { return {static_cast<float>(a[0]), static_cast<float>(a[1])}; }
  static Real of_signed(Int a) { return __builtin_convertvector(__builtin_bit_cast(Signed, a), Real); }
  static Real of_32_bits(Int a) { return of_signed(a); }
  static Int bits(Real a) { return __builtin_bit_cast(Int, a); }

  template <int N>
  static Real choose(Int which, Real a, Real b) {
    const Int mask = Int{} - (which >> N & 1u);
    return __builtin_bit_cast(Real, (bits(a) & ~mask) | (bits(b) & mask));
  }
  static Real flip_sign(Real x, Int which) {
    return __builtin_bit_cast(Real, bits(x) ^ (which & std::uint64_t{1} << 63));
  }

  static bool any_open(Real a, Real b, std::uint32_t offset, std::uint32_t mask, Real x, Real y) {
    const auto clear = [=](Real r) { return ((bits(r) + offset) & mask) == 0; };
    const Signed open = clear(a) | clear(b) | (x < y);
    return (open[0] | open[1]) != 0;
  }
  static unsigned differing(Float a, Float b, Float c, Float d) {
    const auto differ = [](float i, float j, float k, float l) {
      return static_cast<unsigned>(i != j) | static_cast<unsigned>(k != l);
    };
    return differ(a.low, b.low, c.low, d.low) | differ(a.high, b.high, c.high, d.high) << 1;
  }

 private:
  using Signed [[gnu::vector_size(16)]] = std::int64_t;

  template <class V>
  static V load_as(const void* p) {
    V x;
    __builtin_memcpy(&x, p, sizeof x);
    return x;
  }
};

}  // namespace
}  // namespace rotary::cpu

#endif
