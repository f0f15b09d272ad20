// The steps of a plan, in their order: the rope that a method makes of another, the text of the config that says it,
// what that text is read as, and what is known to go wrong.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "files/text/json_edit.h"
#include "rotary/error.h"
#include "situation.h"

namespace rotary::extend {

// ---- trained_length.cpp ----

// The file's linear scaling, which says no length, is the published one.
bool is_published_linear(const Situation&);
// Sets trained and trained_from, with warnings. Throws CONFIG_MISSING, VALUE.
void set_trained_length(Situation&);

// ---- proposal.cpp ----

struct Proposal {
  Rope rope;
  double factor = 1;
  std::string from;            // where its parameters come from
  bool starting_list = false;  // long_factor is a start for a search, not a published list
  bool states_betas = false;   // the config spells the default beta_fast and beta_slow too
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

// ---- fields.cpp: the members of a rope's object in config.json ----

// "4.0", "0.25", "1e+30": a number that JSON readers take for a float.
std::string real(double value);
// The scaling's fields: those that it means nothing without, and those that are not the default. states_betas:
// beta_fast and beta_slow too.
files::JsonMembers fields_of(const Scaling&, bool states_betas);
// The keys that go with a scaling: what else stands in its object stays.
bool belongs_to_a_scaling(const std::string& key);
// rope_parameters of a rope whose file has no text that could be changed.
std::string parameters_alone(const ModelRope&, const Proposal&);
// JSON text without the blanks around its words, but for one behind each comma and colon.
std::string on_one_line(const std::string& raw);

// ---- forms.cpp: rope_parameters of transformers 5, or the older rope_scaling and rope_theta ----

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

Form own_form(const Situation&);  // that the file has
Written written(const Situation&, const Wanted&, Form);

// ---- native.cpp: params.json of Mistral and of Meta, and the options of llama.cpp, which runs GGUF files ----

bool is_params(const Situation&);

struct Native {
  std::string config;  // the whole text of the new params.json
  std::string wrong;   // why such a file cannot say it; config is "" then
};
Native native(const Situation&, const Wanted&);

// "--ctx-size 131072 --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768"; "" where no options say it.
std::string llama_cpp_options(const Situation&, const Proposal&);

// ---- read_back.cpp ----

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

// ---- warnings.cpp ----

std::vector<std::string> warnings_of(const Situation&, const MethodPlan&);  // of one method
std::vector<std::string> warnings_of_all(const Situation&);                 // of any

// ---- answer.cpp ----

// A value of the config on one line.
std::string one_line(const std::string& raw);
// The same; a list of more than 8 numbers by its ends.
std::string short_value(const std::string& raw);

}  // namespace rotary::extend
