// Where the elements of an axis come from when its heads change their pairing: out[i] = in[source[i]].
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::convert {

using Sources = std::vector<std::uint32_t>;

// 2 * pairs elements of an axis, which rotate as one block of a head.
struct RotatedBlock {
  std::int64_t first = 0;
  int pairs = 0;
};

Sources unchanged(std::int64_t elements);

// Moves the elements of a block from the other pairing to this one, half or interleaved:
//   half[j] = interleaved[2 j], half[pairs + j] = interleaved[2 j + 1], j < pairs.
void reorder(Sources&, RotatedBlock, Pairing to);

}  // namespace rotary::convert
