// The rotation of f64 tensors, in double: plain loops, for checks. The library's own rotation is f32.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "positions.h"
#include "rotary/rotary.h"

namespace rotary::cli {

// cos and sin, row-major [batch, tokens, pairs].
struct DoubleRows {
  std::vector<double> cos;
  std::vector<double> sin;
  Pairing pairing = Pairing::unset;
  int pairs = 0;
  int batch = 1;
  std::int64_t tokens = 0;
};

// attention_factor * cos(position * inv_freq) of the double inv_freq, with the product and the functions in long double
// and one rounding to double. Where long double has 64 bits or more (x86, Linux on ARM) the result is within 1 ulp at
// every position; where it is double (macOS on ARM), at positions below 2^53.
DoubleRows double_rows(const Frequencies&, const PositionSet&);
DoubleRows double_rows(const Table&);  // the f32 values

// Rotates in place as rotary::rotate does: two products and a sum, each rounded to double. block is the part of each
// head that turns, in elements of x. Throws SHAPE; operation and label are for the sentence.
void rotate_doubles(const char* operation, const std::string& label, std::span<double> x, const Layout& block,
                    const DoubleRows&, Direction);

}  // namespace rotary::cli
