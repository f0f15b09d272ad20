// --positions SPEC: the position of each token.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::cli {

// Row-major [axes, batch, tokens], in `integers` or in `reals`; the other is empty.
struct PositionSet {
  std::vector<std::int64_t> integers;
  std::vector<double> reals;
  int axes = 1;
  int batch = 1;
  bool batched = false;  // the file has a batch dimension, even if it is 1
  std::int64_t tokens = 0;

  Positions view() const;
  // The sequence length: the largest position, rounded down, plus 1; at least 0.
  std::int64_t length() const;
};

// SPEC is a list of positions and ranges whose end is not included ("7", "0:8,100:104", "-5:5"), or a file that
// ends in .npy: int32, int64 or float64, [tokens] or [batch, tokens] for a rope of one axis, [axes, tokens] or
// [axes, batch, tokens] for a rope of several. Positions in text form apply to every axis.
// Throws POSITION, SHAPE, DTYPE, and what read_npy throws.
PositionSet parse_positions(std::string_view spec, int axes);

// Parses the text form only, at most max_positions positions. Throws POSITION.
std::vector<std::int64_t> parse_ranges(std::string_view spec);
inline constexpr std::int64_t max_positions = std::int64_t{1} << 24;

// 0, 1, ..., tokens - 1.
PositionSet count_positions(std::int64_t tokens);

}  // namespace rotary::cli
