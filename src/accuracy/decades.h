// The positions at which ways are compared, by the number of their digits.
#pragma once

#include <cstdint>
#include <vector>

#include "exact.h"

namespace rotary::accuracy {

struct Decade {
  std::int64_t first = 0;  // 0, 10, 100, ...: the positions whose magnitude is from first to last
  std::int64_t last = 9;
  std::vector<Position> positions = {};  // those that are measured, of rising magnitude
};

// Of the default sample: every position below this one, and of each decade above `spread` that divide it evenly, its
// last `spread`, and each power of two and its neighbours.
inline constexpr std::int64_t all_below = 10000;
inline constexpr std::int64_t spread = 2048;

// The decades 0-9, 10-99, ... up to the one that holds `last`, with the default sample.
std::vector<Decade> default_decades(std::int64_t last);

// The decades that hold one of the positions, with exactly these.
std::vector<Decade> decades_of(std::vector<Position> positions);

}  // namespace rotary::accuracy
