// Operations that the lanes of every angles_*.h have in common, by the operators of C++: on numbers, on the vectors of
// g++ and clang, or on two such vectors. angles.inc is written in terms of these operators and functions, and of those
// that angles_scalar.h describes.
#pragma once

#include <cstdint>

namespace rotary::cpu {
namespace {

// Two vectors, or two numbers, as one of twice the width.
template <class V>
struct Two {
  V low, high;
  friend Two operator+(Two a, Two b) { return {a.low + b.low, a.high + b.high}; }
  friend Two operator-(Two a, Two b) { return {a.low - b.low, a.high - b.high}; }
  friend Two operator*(Two a, Two b) { return {a.low * b.low, a.high * b.high}; }
  friend Two operator&(Two a, Two b) { return {a.low & b.low, a.high & b.high}; }
  friend Two operator^(Two a, Two b) { return {a.low ^ b.low, a.high ^ b.high}; }
  friend Two operator<<(Two a, int n) { return {a.low << n, a.high << n}; }
  friend Two operator>>(Two a, int n) { return {a.low >> n, a.high >> n}; }
};

template <class V>
inline constexpr bool halved = requires(V v) {
  v.low;
};

// x in every lane.
template <class V, class T>
inline V all(T x) {
  if constexpr (halved<V>) {
    return {all<decltype(V::low)>(x), all<decltype(V::low)>(x)};
  } else {
    return x - V{};  // + would lose the sign of -0
  }
}

// From memory, to it, and the bits of x as another type: half by half, because g++ copies both at once by way of the
// stack.
template <class V>
inline V loaded(const void* from) {
  const auto* const p = static_cast<const char*>(from);
  V x;
  if constexpr (halved<V>) {
    x = {loaded<decltype(V::low)>(p), loaded<decltype(V::low)>(p + sizeof x.low)};
  } else {
    __builtin_memcpy(&x, p, sizeof x);
  }
  return x;
}
template <class V>
inline void stored(void* to, V x) {
  if constexpr (halved<V>) {
    stored(to, x.low);
    stored(static_cast<char*>(to) + sizeof x.low, x.high);
  } else {
    __builtin_memcpy(to, &x, sizeof x);
  }
}
template <class To, class From>
inline To bits_as(From x) {
  if constexpr (halved<From>) {
    return {bits_as<decltype(To::low)>(x.low), bits_as<decltype(To::low)>(x.high)};
  } else {
    return __builtin_bit_cast(To, x);
  }
}

// Int: unsigned 64-bit lanes. Real: doubles. Float: as many floats.
template <class Ints, class Reals, class Floats, int lanes>
struct Operators {
  static constexpr int width = lanes;
  using Int = Ints;
  using Real = Reals;
  using Float = Floats;

  static Int integer(std::uint64_t x) { return all<Int>(x); }
  static Real real(double x) { return all<Real>(x); }
  static Float floats(float x) { return all<Float>(x); }
  static Int load(const std::uint64_t* p) { return loaded<Int>(p); }
  static Real load(const double* p) { return loaded<Real>(p); }
  static Float load(const float* p) { return loaded<Float>(p); }
  static void store(double* p, Real x) { stored(p, x); }
  static void store(float* p, Float x) { stored(p, x); }

  static Real multiply_add(Real a, Real b, Real c) { return a * b + c; }           // one rounding or two
  static Real negative_multiply_add(Real a, Real b, Real c) { return c - a * b; }  // one rounding or two

  static Int bits(Real a) { return bits_as<Int>(a); }
  // b where bit N of `which` is set, else a. Branchless, because a branch would be unpredictable.
  template <int N>
  static Real choose(Int which, Real a, Real b) {
    const Int differing = (bits(a) ^ bits(b)) & (integer(0) - (which >> N & integer(1)));
    return bits_as<Real>(bits(a) ^ differing);
  }
  // x with its sign changed where the top bit of `which` is set.
  static Real flip_sign(Real x, Int which) {
    return bits_as<Real>(bits(x) ^ (which & integer(std::uint64_t{1} << 63)));
  }
};

}  // namespace
}  // namespace rotary::cpu
