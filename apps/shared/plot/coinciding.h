// Lines that lie on each other in an SVG picture: none may hide another.
#pragma once

#include <cstddef>
#include <vector>

#include "plot.h"

namespace rotary::cli {

// Strong lines with the same points become one, in the style of the first: "a = b".
Plot with_equal_lines_joined(Plot plot);

// The indices of the lines from back to front: the first in front, but in front of all others those whose points are
// some of another line's.
std::vector<std::size_t> drawing_order(const std::vector<Line>& lines);

}  // namespace rotary::cli
