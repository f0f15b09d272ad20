// One rope as `rotary inspect` shows it: the origin of each value, and the effect of the scaling on each pair.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

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
  std::int64_t context = 0;  // tokens; 0: unknown
  int axes = 1;
  double attention_factor = 1;
  std::vector<PairView> pairs;
  std::vector<ValueOrigin> origins;
};

// used must outlive the view. length: the sequence length in tokens.
RopeView view_rope(const ModelRope& used, std::optional<std::int64_t> length);

nlohmann::ordered_json json_of(const RopeView&);  // the keys are a contract
void print_rope(const RopeView&, std::size_t index);

}  // namespace rotary::cli
