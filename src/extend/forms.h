// A plan in the words of config.json: rope_parameters of transformers 5, or the older rope_scaling and rope_theta.
#pragma once

#include <map>
#include <string>

#include "proposal.h"

namespace rotary::extend {

enum class Form : std::uint8_t { rope_parameters, rope_scaling };

struct Wanted {
  std::string method;
  std::map<std::size_t, Proposal> ropes;  // by their number in the model
  std::int64_t context = 0;               // max_position_embeddings
};

struct Written {
  std::string object;  // what the key holds, on one line; "null" for a rope_scaling that goes away
  std::string config;  // the whole text
};

// The form that the file has.
Form own_form(const Situation&);
Written written(const Situation&, const Wanted&, Form);

}  // namespace rotary::extend
