// The rope that a method makes of one that is to be extended.
#pragma once

#include <string>

#include "situation.h"

namespace rotary::extend {

struct Proposal {
  Rope rope;
  double factor = 1;
  std::string from;           // where its parameters come from
  bool states_betas = false;  // the config spells the default beta_fast and beta_slow too
};

// Why the method cannot be used on these ropes; "" where it can.
std::string reason_against(const Situation&, std::string_view method);
// The method must have no reason against it.
Proposal propose(const Situation&, const ModelRope&, std::string_view method);

// transformers' code of the family takes no long_factor: there longrope changes nothing for long texts.
bool turns_by_short_factor_only(const Situation&);

// The method that the plan recommends, and why, in words.
struct Recommendation {
  std::string method, why;
};
Recommendation recommend(const Situation&);

// The rope as the model was trained, before any scaling; p-RoPE keeps the pairs that turn. The static NTK of a config
// (Hunyuan's alpha) is no extension but the base of the training, and becomes a base.
Rope unscaled(const Rope&);

// One of methods() for a scaling; "" where none makes it.
std::string method_of(const Scaling&);

// A start for LongRoPE's long_factor: 1 for pairs of 32 turns and more within the trained length, `factor` for those
// that do not complete one, between them YaRN's ramp over the logarithm of the turns: 1 / (1 - r + r / factor) with
// r = 1 - ln(turns) / ln(32). Rises from pair to pair.
std::vector<double> starting_long_factor(const std::vector<double>& inv_freq, std::int64_t trained, double factor);

}  // namespace rotary::extend
