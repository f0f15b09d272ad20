// The members of a rope's object in config.json.
#pragma once

#include <string>

#include "files/text/json_edit.h"
#include "proposal.h"

namespace rotary::extend {

// "4.0", "0.25", "1e+30": a number that JSON readers take for a float.
std::string real(double value);

const char* rope_type_of(const Scaling&);
// factor, lengths and what is not the method's default. states_betas: beta_fast and beta_slow too.
files::JsonMembers fields_of(const Scaling&, bool states_betas);
// The keys that go with a scaling: what else stands in its object stays.
bool belongs_to_a_scaling(const std::string& key);

// rope_parameters of a rope whose file has no text that could be changed.
std::string parameters_alone(const ModelRope&, const Proposal&);

// JSON text without the blanks around its words, but for one behind each comma and colon.
std::string on_one_line(const std::string& raw);

}  // namespace rotary::extend
