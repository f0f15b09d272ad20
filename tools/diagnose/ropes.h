// The speeds of pairs, and candidates for the rope that has them: the asked one with one thing changed, or another
// base.
#pragma once

#include <optional>
#include <vector>

#include "findings.h"
#include "turns.h"

namespace rotary::diagnose {

// The speed of a pair whose angles rise evenly with the positions, and its angle at position 0; none where no speed
// explains the pair at every row.
struct FoundSpeed {
  double speed = 0;
  double error = 0;        // standard error; infinite where the data say nothing
  double phase = 0;        // in [-pi, pi]; 0 if the angles are position times speed
  double phase_error = 0;  //
};
std::optional<FoundSpeed> find_speed(const Turns&, int pair, const std::vector<double>& position);
double sign_of(const std::vector<FoundSpeed>&);  // 1 or -1, of most pairs
// The number of positions by which all pairs are ahead of the given ones, whole if possible; empty: no such number.
std::optional<double> shift_of(const std::vector<FoundSpeed>&);

struct Explanation {
  Rope rope;                // whose frequencies the speeds are
  std::int64_t length = 0;  // for scalings that depend on it
  Finding found;            // "is rotated without the scaling yarn"; the asked values are added to it
};
// The asked rope with other lengths, without its scaling, with other values of it, with another scaling, with another
// base, with usual bases without the scaling, and with the known mistakes in how frequencies are made.
std::vector<Explanation> rivals(const Rope& asked, std::int64_t length, std::int64_t context);

struct Speed {
  double value = 0;  // radians per position, not negative
  double error = 0;  // the largest that rounding explains; infinite where the data say nothing
};
std::vector<Speed> speeds_of(const std::vector<FoundSpeed>&);  // without their common sign

// The first rope whose frequencies are the speeds within their errors: a rival, then the asked one without
// its scaling and with any base, then under a scaling of any factor, then any base and scaling. asked.rotary_dim is
// the width of the block.
std::optional<Explanation> explain_speeds(const std::vector<Speed>&, const Rope& asked, std::int64_t length,
                                          std::int64_t context);

}  // namespace rotary::diagnose
