// The errors of ways: of cos and sin, and of the attention scores of unit vectors.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "rows.h"

namespace rotary::accuracy {

// Of the default sample: every position below this one, and of each decade above `spread` that divide it evenly, its
// last `spread`, and each power of two and its neighbours.
inline constexpr std::int64_t all_below = 10000;
inline constexpr std::int64_t spread = 2048;

// The decades 0-9, 10-99, ... up to the one that holds `last`, with the default sample.
std::vector<Decade> default_decades(std::int64_t last);

// The decades that hold one of the positions, with exactly these.
std::vector<Decade> decades_of(std::vector<Position> positions);

// Of each way. done: told now and then, on the caller's thread, how many positions of all decades are measured. The
// executor changes no bit of the result.
std::vector<WayErrors> measure(const Subject&, const std::vector<Decade>&, const Executor& = serial(),
                               const std::function<void(std::int64_t)>& done = {});

// Every position from 0 to `most`, but no more than most_entries pairs of cos and sin, of those that can be off by the
// tolerance at all. The tolerance must be 1e-6 or more.
inline constexpr std::int64_t reach_entries = std::int64_t{1} << 24;
Reach float32_reach(const Subject&, double tolerance, std::int64_t most, std::int64_t most_entries = reach_entries);

}  // namespace rotary::accuracy
