// One pair at a time, for any machine.
#pragma once

#include "angles_operators.h"

namespace rotary::cpu {
namespace {

struct Lanes : Operators<std::uint64_t, double, float, 1> {
  static Int multiply_32(Int a, Int b) { return a * b; }  // a and b below 2^32

  static Real widen(Float a) { return static_cast<double>(a); }
  static Float rounded(Real a) { return static_cast<float>(a); }
  static Real of_signed(Int a) { return static_cast<double>(static_cast<std::int64_t>(a)); }  // rounded once
  static Real of_32_bits(Int a) { return of_signed(a); }

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
