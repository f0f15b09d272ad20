// One pair at a time, for any machine. angles.inc is written in terms of these functions.
#pragma once

#include <bit>
#include <cstdint>

namespace rotary::cpu {
namespace {

struct Lanes {
  static constexpr int width = 1;
  using Int = std::uint64_t;  // unsigned 64-bit lanes
  using Real = double;
  using Float = float;  // as many lanes as Real

  static Int integer(std::uint64_t x) { return x; }
  static Real real(double x) { return x; }
  static Float floats(float x) { return x; }
  static Int load(const std::uint64_t* p) { return *p; }
  static Real load(const double* p) { return *p; }
  static Float load(const float* p) { return *p; }
  static void store(double* p, Real x) { *p = x; }
  static void store(float* p, Float x) { *p = x; }

  static Int add(Int a, Int b) { return a + b; }
  static Int multiply_32(Int a, Int b) { return a * b; }  // a and b below 2^32
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
  static Real multiply_add(Real a, Real b, Real c) { return a * b + c; }           // one rounding or two
  static Real negative_multiply_add(Real a, Real b, Real c) { return c - a * b; }  // one rounding or two
  static Float multiply(Float a, Float b) { return a * b; }

  static Real widen(Float a) { return static_cast<double>(a); }
  static Float rounded(Real a) { return static_cast<float>(a); }
  static Real of_signed(Int a) { return static_cast<double>(static_cast<std::int64_t>(a)); }  // rounded once
  static Real of_32_bits(Int a) { return static_cast<double>(static_cast<std::int64_t>(a)); }
  static Int bits(Real a) { return __builtin_bit_cast(Int, a); }

  // b where bit N of `which` is set, else a. Branchless, because a branch would be unpredictable.
  template <int N>
  static Real choose(Int which, Real a, Real b) {
    const Int differing = (bits(a) ^ bits(b)) & (0 - (which >> N & 1));
    return __builtin_bit_cast(Real, bits(a) ^ differing);
  }
  // x with its sign changed where the top bit of `which` is set.
  static Real flip_sign(Real x, Int which) {
    return __builtin_bit_cast(Real, bits(x) ^ (which & std::uint64_t{1} << 63));
  }

  // Whether in some lane ((low 32 bits of a) + offset) & mask is 0, or the same of b, or x < y.
  static bool any_open(Real a, Real b, std::uint32_t offset, std::uint32_t mask, Real x, Real y) {
    const auto clear = [&](Real r) { return ((static_cast<std::uint32_t>(bits(r)) + offset) & mask) == 0; };
    return (static_cast<int>(clear(a)) | static_cast<int>(clear(b)) | static_cast<int>(x < y)) != 0;
  }
  // The lanes where a and b, or c and d, differ; lane 0 lowest.
  static unsigned differing(Float a, Float b, Float c, Float d) { return a != b || c != d ? 1 : 0; }
};

}  // namespace
}  // namespace rotary::cpu
