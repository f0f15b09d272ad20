// One rope as `rotary inspect` shows it: the origin of each value, and the effect of the scaling on each pair.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/rotary/reach.h"
#include "rotary/config.h"

namespace rotary::cli {

struct PairView {
  int axis = 0;
  double inv_freq = 0;
  double stretch = 1;  // scaled wavelength / unscaled wavelength; 0: the pair does not rotate
  const char* effect = "kept";
};

struct RopeView {
  const ModelRope* used = nullptr;
  std::int64_t context = 0;     // tokens; 0: unknown
  std::int64_t turns_over = 0;  // the tokens over which turns are counted: of the context, those that Lengths holds for
  Lengths lengths;
  Frequencies frequencies;              // scaled
  std::vector<std::string> axis_names;  // one for each axis
  std::vector<PairView> pairs;
  std::vector<ValueOrigin> origins;
};

// used must outlive the view. length: the sequence length in tokens.
RopeView view_rope(const ModelRope& used, std::optional<std::int64_t> length);

double wavelength_of(const PairView&);  // tokens; of a pair that turns

nlohmann::ordered_json json_of(const RopeView&);  // the keys are a contract

}  // namespace rotary::cli
