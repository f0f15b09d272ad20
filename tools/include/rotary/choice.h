// The choice of a rope, a layer, positions and a layout for a model and tensors. Link rotary_tools.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "rotary/config.h"
#include "rotary/positions.h"

namespace rotary {

struct Choice {
  std::string config = {};                    // the model's name in error sentences; "" where it has none
  std::optional<int> rope = {};               // index in Model::ropes; empty: the layer's, else the one that fits best
  std::optional<int> layer = {};              // every tensor's; empty: the layer that each tensor's name says
  std::optional<std::int64_t> length = {};    // for scalings that depend on it; none: the largest position + 1
  std::optional<PositionSet> positions = {};  // read or not; none: 0, 1, 2, ...
  bool same_on_every_axis = false;            // positions of one axis serve every axis of coordinates
  std::string layout = {};                    // "bthd", "bhtd", "tbhd", "thd", "htd", "td", "hd", "flat"; "": found
  bool query_scale = false;                   // queries are multiplied by the scale of their position too
  bool names_rope() const noexcept { return rope || layer; }
};

// The positions for a model's rope; 0, 1, 2, ... is an open set. A file has the axes of the rope with the most axes
// among those of the rope's part. Throws POSITION, beside what parse_positions throws, if the rope turns by the
// coordinates of an image and the positions give all its axes the same, unless same_on_every_axis.
ROTARY_API PositionSet positions_of(const std::string& operation, const Choice&, const Model&, const ModelRope&);

}  // namespace rotary
