// Defaults per model_type, as `rotary models` lists them.
#pragma once

#include <string>
#include <vector>

#include "rotary/config.h"

namespace rotary {

// One part of a model_type, read from its class defaults.
struct KnownModel {
  std::string model_type;  // as the top of a config.json names it
  std::string part;        // dotted path of the sub-config, "" at the top
  Model model = {};        // its ropes by the class defaults, and by sizes that are made up where these have none
  std::string why = {};    // where there are no ropes: why not
  bool rotary = true;      // false: the model has no rotary positions
};

// Sorted by model_type, then part.
std::vector<KnownModel> known_models();

}  // namespace rotary
