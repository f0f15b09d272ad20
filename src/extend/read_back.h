// What a new config comes to, and whether that is what was planned.
#pragma once

#include "forms.h"
#include "rotary/error.h"

namespace rotary::extend {

struct ReadBack {
  std::string wrong;  // how it differs from the plan; "": it does not
  Model model;
};

// Every rope of the plan as planned, every other as it was, layer by layer. Where a family reads parameters beside
// factor and length in its own way (DeepSeek-V4's yarn, Phi-3.5-MoE's lists), the model holds what it reads.
ReadBack read_back(const Situation&, const Wanted&, const std::string& config);

// The sentence of an error without its [operation].
std::string without_operation(const Error&);

// The rope of the new model that layers of `used` have, and of those the one that was extended; null: they have none.
const ModelRope* extended_rope(const Model&, const ModelRope& used);

}  // namespace rotary::extend
