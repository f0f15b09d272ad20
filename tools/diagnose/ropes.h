// Candidates for the rope that turned a tensor: the asked one with one thing changed; and the base that fits speeds.
#pragma once

#include <optional>
#include <vector>

#include "positions.h"

namespace rotary::diagnose {

struct Explanation {
  Rope rope;                // whose frequencies the speeds are
  std::int64_t length = 0;  // for scalings that depend on it
  Finding found;            // "is rotated without the scaling yarn"; what the model asks is added to it
};
// The asked rope with other lengths, without its scaling, with other values of it, with another scaling, with another
// base, with usual bases without the scaling, and with the known mistakes in how frequencies are made.
std::vector<Explanation> rivals(const Rope& asked, std::int64_t length, std::int64_t context);

struct Speed {
  double value = 0;  // radians per position, not negative
  double error = 0;  // the largest that rounding explains; infinite where the data say nothing
};
std::vector<Speed> speeds_of(const std::vector<FoundSpeed>&);  // without their common sign

// The first rope whose frequencies are the speeds within their errors: a rival, then the asked one with any base, or
// without its scaling and with any base, then under a scaling of any factor, then any base and scaling.
// asked.rotary_dim is that of the block.
std::optional<Explanation> explain_speeds(const std::vector<Speed>&, const Rope& asked, std::int64_t length,
                                          std::int64_t context);
// The rope without a config: its base, and a scaling where the positions are known, and with them the scale of speeds.
std::optional<Rope> fit_rope(const std::vector<Speed>&, int rotary_dim, bool scale_known);

}  // namespace rotary::diagnose
