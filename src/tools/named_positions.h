// The forms of SPEC that begin with a word: "packed:0,5,9".
#pragma once

#include <optional>
#include <string_view>

#include "rotary/positions.h"

namespace rotary::tools {

// None where spec begins with no such word. axes: of the rope with the most of the part.
std::optional<PositionSet> named_positions(std::string_view spec, int axes);

}  // namespace rotary::tools
