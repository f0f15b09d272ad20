// The position of each token, as text (SPEC), a file or arrays. Link rotary_tools.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/config.h"
#include "rotary/rotary.h"

namespace rotary {

// Row-major [axes, batch, tokens], in `integers` or in `reals`; the other is empty.
struct ROTARY_API PositionSet {
  std::vector<std::int64_t> integers;
  std::vector<double> reals;
  int axes = 1;
  int batch = 1;
  bool batched = false;  // the file has a batch dimension, even if it is 1
  std::int64_t tokens = 0;
  std::optional<std::int64_t> open_from = {};  // behind the listed positions: open_from, open_from + 1, ...

  // The set for a tensor of that many tokens: as it is, or, of an open one, with the open range written out. Throws
  // POSITION if an open set lists more than that many, or goes beyond 64 bits.
  PositionSet closed(std::int64_t tokens) const;
  Positions view() const;  // of a closed set; valid as long as this
  // Of an open set too; the first axis and row where there is one alone.
  double value(std::size_t axis, std::size_t row, std::size_t token) const;
  // The sequence length: the largest position, rounded down, plus 1; at least 0. The set is closed.
  std::int64_t length() const;
};

// SPEC is a list of positions and ranges whose end is not included ("7", "0:8,100:104", "-5:5"), of which the last may
// be open ("100:": from 100 on, as many as there are tokens); "100:+16" are 16 positions from 100 on; or an offset
// ("+16": the same as "16:"); or a file that ends in .npy: int32, int64 or float64, [tokens] or [batch, tokens] for a
// rope of one axis, [axes, tokens] or [axes, batch, tokens] for a rope of several. Positions in text form apply to
// every axis. file_axes: the axes of a file where it serves other ropes too; the rope of `axes` axes takes the first of
// them. Throws POSITION, SHAPE, DTYPE, and what read_npy throws.
ROTARY_API PositionSet parse_positions(std::string_view spec, int axes, int file_axes = 0);

// The positions of a model's rope; without spec 0, 1, 2, ... as an open set. A file has the axes of the rope with the
// most axes among those of the rope's part. Throws POSITION, beside what parse_positions throws, if the rope turns by
// the coordinates of an image and the positions give all its axes the same, unless same_on_every_axis.
struct PositionRequest {
  std::optional<std::string> spec;
  bool same_on_every_axis = false;
  std::optional<PositionSet> set = {};  // instead of spec, of the rope's axes
  bool given() const noexcept { return spec || set; }
};
ROTARY_API PositionSet positions_of(const std::string& operation, const PositionRequest&, const Model&, const ModelRope&);

// Parses the text form only, at most max_positions positions; the set may be open. Throws POSITION.
ROTARY_API PositionSet parse_ranges(std::string_view spec);
inline constexpr std::int64_t max_positions = std::int64_t{1} << 24;

}  // namespace rotary
