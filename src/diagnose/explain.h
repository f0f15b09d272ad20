// The base and scaling that explain the speeds of pairs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rotary/config.h"

namespace rotary::diagnose {

struct Speed {
  double value = 0;  // radians per position, not negative
  double error = 0;  // what rounding explains; infinite where the data say nothing
};

struct Explanation {
  Rope rope;               // whose frequencies the speeds are
  std::int64_t length = 0;  // for scalings that depend on it
  bool base_differs = false;
  bool scaling_differs = false;
  double worst = 0;   // the largest difference, in errors
  std::string words;  // "as without scaling"; empty: as asked
};

// The first of the known methods whose frequencies are the speeds within their errors: as asked, the same rope with
// another base or another scaling, then a fit of base and scaling. asked.rotary_dim is that of the block.
std::optional<Explanation> explain_speeds(const std::vector<Speed>& speeds, const Rope& asked, std::int64_t length,
                                          std::int64_t context);
// Without a config: only the fit. scale_known: the positions are known, and with them the scale of the speeds.
std::optional<Explanation> fit_speeds(const std::vector<Speed>& speeds, int rotary_dim, bool scale_known);

// The largest difference between the speeds and the rope's frequencies, in errors; infinite where the rope is invalid.
double misfit_of(const std::vector<Speed>& speeds, const Rope& rope, std::int64_t length, double scale = 1);

}  // namespace rotary::diagnose
