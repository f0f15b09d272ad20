// The base and scaling that explain the speeds of pairs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "motion.h"

namespace rotary::diagnose {

struct Speed {
  double value = 0;  // radians per position, not negative
  double error = 0;  // what rounding explains; infinite where the data say nothing
};
std::vector<Speed> speeds_of(const std::vector<FoundSpeed>&);  // without their common sign

struct Explanation {
  Rope rope;                // whose frequencies the speeds are
  std::int64_t length = 0;  // for scalings that depend on it
  std::string words;        // "without the scaling yarn", "with base 10000"
};
// The asked rope with one thing changed: other lengths, without its scaling, with other values of it, with another
// scaling, with another base, and with usual bases without the scaling.
std::vector<Explanation> rivals(const Rope& asked, std::int64_t length, std::int64_t context);

// The first of the known methods whose frequencies are the speeds within their errors: the asked rope with another
// base, without its scaling, with another scaling; then a fit of base and scaling. asked.rotary_dim is that of the
// block.
std::optional<Explanation> explain_speeds(const std::vector<Speed>& speeds, const Rope& asked, std::int64_t length);
// Without a config: only the fit. scale_known: the positions are known, and with them the scale of the speeds.
std::optional<Explanation> fit_speeds(const std::vector<Speed>& speeds, int rotary_dim, bool scale_known);

std::string words_of(const Scaling&);  // "the scaling yarn (factor 4, trained length 32768)", "no scaling"

}  // namespace rotary::diagnose
