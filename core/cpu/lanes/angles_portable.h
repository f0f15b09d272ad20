// Two pairs at a time by the vector extensions of g++ and clang, where vectors lie in registers; else as scalar.
#pragma once

#include "vector_registers.h"

#if !ROTARY_VECTOR_REGISTERS
#include "angles_scalar.h"
#else

#include "angles_operators.h"

namespace rotary::cpu {
namespace {

using Ints [[gnu::vector_size(16)]] = std::uint64_t;
using Signed [[gnu::vector_size(16)]] = std::int64_t;
using Reals [[gnu::vector_size(16)]] = double;

struct Lanes : Operators<Ints, Reals, Two<float>, 2> {
  static Int multiply_32(Int a, Int b) { return Int{a[0] * b[0], a[1] * b[1]}; }

  static Real widen(Float a) { return Real{static_cast<double>(a.low), static_cast<double>(a.high)}; }
  static Float rounded(Real a) { return {static_cast<float>(a[0]), static_cast<float>(a[1])}; }
  static Real of_signed(Int a) { return __builtin_convertvector(__builtin_bit_cast(Signed, a), Real); }
  static Real of_32_bits(Int a) { return of_signed(a); }

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
};

}  // namespace
}  // namespace rotary::cpu

#endif
