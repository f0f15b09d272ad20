// The errors of every way: of cos and sin, and of the attention scores of unit vectors.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "decades.h"
#include "rotary/threads.h"
#include "rows.h"
#include "ways.h"

namespace rotary::accuracy {

struct Largest {
  double error = 0;  // |table - exact|; the entries hold the attention factor
  Position position = {};
  int pair = 0;
  bool of_sine = false;
};

// Of q_m . k_n, q and k unit vectors of a head, m and n two positions of the decade.
struct ScoreErrors {
  double largest = 0;  // for any q and k: the largest |z'_m conj(z'_n) - z_m conj(z_n)| of a pair, z = cos + i sin
  double rms = 0;      // the root of the mean square over all directions of q and k, and over the sampled m and n
};

struct DecadeErrors {
  std::optional<Largest> cos_sin = {};     // none: the way is not run at all positions of the decade
  std::optional<ScoreErrors> scores = {};  // none likewise, or there are not two positions
};

struct WayErrors {
  Way way;
  std::vector<DecadeErrors> decades;
};

// The scores of a decade are measured at no more than score_positions of its positions, which divide them evenly. Up to
// score_all_pairs positions, each m is compared with each n; more, each with score_partners others at random, the same
// in every run.
inline constexpr std::size_t score_positions = 512;
inline constexpr std::size_t score_all_pairs = 64;
inline constexpr std::size_t score_partners = 4;
// Positions times pairs that are kept for the scores of a decade: fewer positions where a rope has over 2048 pairs.
inline constexpr std::size_t score_entries = std::size_t{1} << 20;

// done: told now and then, on the caller's thread, how many positions of all decades are measured. The executor changes
// no bit of the result.
std::vector<WayErrors> measure(const Subject&, std::span<const Way>, const std::vector<Decade>&,
                               const Executor& = serial(), const std::function<void(std::int64_t)>& done = {});

// How far a way stays near the exact table.
struct Reach {
  std::int64_t last = 0;    // the last position before the first error above the tolerance; -1: none
  bool to_the_end = false;  // no error above the tolerance was found: `last` is the last position looked at
};
// Of float32_product: every position from 0 to `most`, but no more than most_entries pairs of cos and sin, of those
// that can be off by the tolerance at all. The tolerance must be 1e-6 or more.
inline constexpr std::int64_t reach_entries = std::int64_t{1} << 24;
Reach float32_reach(const Subject&, double tolerance, std::int64_t most, std::int64_t most_entries = reach_entries);

}  // namespace rotary::accuracy
