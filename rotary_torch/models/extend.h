// Extending the context: the published scalings applied to a model that was trained without one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rotary/rotary.h"
#include "rotary_torch/models/decoder.h"

namespace rotary_torch {

const std::vector<std::string>& extensions();  // "none", "linear", "ntk", "ntk_fixed", "dynamic", "yarn", "llama3"

// The model's rope with this scaling and factor, from the trained length in its config (context); "none" returns the
// rope unchanged. Throws ROPE (no rope to scale), SCALING (unknown word, factor not above 1, a rope that is scaled
// already), CONFIG_MISSING (no trained length).
rotary::Rope extended_rope(const DecoderConfig&, std::string_view scaling, double factor);

}  // namespace rotary_torch
