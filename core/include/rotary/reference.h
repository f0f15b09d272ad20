// The reference implementation of rotate: scalar, slow and simple, without code of the kernels. Also the rotation of
// doubles, which no kernel has.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::reference {

enum class Arithmetic : std::uint8_t {
  f32,        // as rotary::rotate: f32 arithmetic, one rounding to the storage type at the end
  each_step,  // like a framework that computes in the storage type: rounds cos, sin, each product and the sum
};

// Same as rotary::rotate out of place or, if x and out are the same, in place. Throws the same errors.
ROTARY_API void rotate(const ConstHeads& x, const Heads& out, const Table&, Direction = Direction::forward,
                       Arithmetic = Arithmetic::f32);

// ---- in double -----------------------------------------------------------------------------------

// cos and sin of every token, row-major [batch, tokens, heads, pairs]; heads is 1 if all heads rotate alike.
struct DoubleTable {
  std::vector<double> cos;
  std::vector<double> sin;
  Pairing pairing = Pairing::unset;
  int pairs = 0;
  int batch = 1;
  std::int64_t tokens = 0;
  int heads = 1;
};

// attention_factor * cos(position * inv_freq) for the double inv_freq, computed in long double and rounded once to
// double. Where long double has 64 bits or more (x86, Linux on ARM) the result is within 1 ulp at every position; where
// it is double (macOS on ARM), at positions below 2^53. Sums, phases and xpos add steps of the same precision.
ROTARY_API DoubleTable double_table(const Frequencies&, const Positions&);
ROTARY_API DoubleTable double_table(const Table&);  // its f32 values

// Rotates in place as rotary::rotate does, with two products and a sum, each rounded to double. x holds the elements of
// the layout; the first 2 * pairs of each head rotate. Throws SHAPE, also if layout.heads is no multiple of the table's
// heads, and PAIRING.
ROTARY_API void rotate(std::span<double> x, const Layout&, const DoubleTable&, Direction = Direction::forward);

}  // namespace rotary::reference
