// The steps of a plan, in their order: what is known before any method is tried, the rope that a method makes of
// another, the text of the config that says it, and what that text is read as.
#pragma once

#include <cstdint>
#include <numbers>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/models/families.h"
#include "files/text/json.h"
#include "files/text/json_edit.h"
#include "rotary/error.h"
#include "rotary/extend.h"
#include "values/scaling_fields.h"

namespace rotary::extend {

inline constexpr double circle = 2 * std::numbers::pi;  // radians of a turn

// ---- published.cpp: the recipes of data/published.json, whose "about" describes each field ----

struct Recipe {
  Publication says;                // `applies` and `weights_known` are left to the plan
  Scaling scaling;                 // Unscaled: the length alone is published
  std::vector<std::string> types;  // model_types of the text part
  std::int64_t also = 0;           // a shorter context that the same parameters are published for; 0: none
  std::string seen;                // where the numbers were read
  double base = 0;                 // 0: any
  int min_width = 0, max_width = 0, kv_heads = 0;  // width: heads * head_dim; 0: any
  files::Json keys = files::Json::object();        // of the config
  std::string part = "any";                        // of the config, as ModelRope has it
  std::vector<std::int64_t> stated;     // max_position_embeddings of such originals that are not the trained length
  bool by_hand = false;                 // the published file has no scaling: who wants it adds it
  int own_width = 0, own_kv_heads = 0;  // at least, at most: of the models that it is published for; 0: any
  std::string instead;                  // what the publisher advises in its place
  bool elsewhere = false;               // and no scaling says it
  bool states_betas = false;            // its config spells the default beta_fast and beta_slow too
  std::int64_t sliding_window = 0;      // of the published file, where its original has a shorter one; 0: not said
  std::string why_less = "with weights trained on such lengths";  // why a factor below the smallest is right

  // For this context, or for one that is at most 1/16 longer.
  bool is_made_for(std::int64_t context) const;
};

const std::vector<Recipe>& published_recipes();
// At most 1/16 shorter.
bool is_just_below(std::int64_t context, std::int64_t length);
// ---- situation.cpp: which ropes are extended, and from which length ----

struct Situation {
  const Request& request;                 // must outlive it
  files::Json root = {};                  // the config; null where its text cannot be changed
  files::JsonPath part = {};              // of the ropes that are extended
  const files::Family* family = nullptr;  // of that part; null: not known
  const Recipe* published = nullptr;
  std::vector<std::size_t> targets = {}, left = {};
  std::int64_t trained = 0;
  std::string trained_from = {};
  std::vector<std::string> warnings = {};

  const ModelRope& rope(std::size_t i) const { return request.model.ropes[i]; }
  const ModelRope& first() const { return rope(targets.front()); }
  const Scaling& scaling() const { return first().rope.scaling; }  // the file's own
  bool editable() const { return !request.config.empty(); }
  std::string family_type() const { return std::string(family->type); }
  // The part's object, or its value of that key; null where it is not there.
  const files::Json* object() const { return files::object_at(root, part); }
  const files::Json* value(const std::string& key) const;
  const files::Json* dict(const std::string& key) const;  // the same, where it is an object
  files::JsonPath path(const std::string& key) const;

  // The config has, or its family makes, parameters for each layer type.
  bool of_layer_types() const;
  // transformers' code of the family takes no long_factor: there longrope changes nothing for long texts.
  bool turns_by_short_factor_only() const;
  // Layers that slide and others share the rope, and only the others are extended.
  bool splits(const ModelRope&) const;

  bool all_slide() const;  // every layer of every rope that is extended

  // The weights take the context as they were trained: at most a length of the file must be raised.
  bool is_within() const { return request.context <= trained; }
  // context / trained_length, rounded so that their product reaches the context; at least 1.
  double smallest_factor() const;
  bool is_scaled() const;  // the file's own rope
  bool of_llama3_or_lists() const;
  // The file's own scaling was made for this very context.
  bool is_own_context() const;
  // The file's linear scaling, which says no length, is the published one.
  bool is_published_linear() const;
  std::int64_t window() const;         // sliding_window, where it is in use; 0: none
  bool is_published_scaling() const;   // what the file has already is what is published
  bool are_published_weights() const;  // Publication::weights_known
  bool has_factors_of_gguf() const;    // Llama 3.1's scaling as a GGUF file has it
  // The recipe is for weights that the file may have: no others are known to have such a file.
  bool may_take_published() const { return are_published_weights() || published->says.other_weights.empty(); }
  // What is published was made for this very trained length.
  bool is_published_length() const;
  // And for this context or one that is at most 1/16 longer.
  bool is_published_context() const;
  bool is_published_exactly() const;  // for this very length and context
};

// The recipe that is made for this model and context, else the first for another context; null where nothing is known.
const Recipe* published_for(const Situation&);

// Throws ROPE, VALUE, CONFIG_MISSING.
Situation situation_of(const Request&);

bool only_slides(const ModelRope&);                         // every layer that uses it
std::int64_t reached(std::int64_t trained, double factor);  // trained * factor, rounded
inline const double* factor_of(const Scaling& scaling) { return scalings::value_of<double>(scaling, "factor"); }

// ---- methods.cpp ----

// Sets the ropes of the plan as planned, their factor and where it comes from; or why the method is refused.
void propose(const Situation&, MethodPlan&);
std::vector<std::string> warnings_of(const Situation&, const MethodPlan&);
void warn_of_every_method(Situation&);

// The config of the plan spells the default beta_fast and beta_slow too, as the file or the recipe does.
bool states_betas(const Situation&);
// The rope as the model was trained, before any scaling; p-RoPE keeps the pairs that turn. The static NTK of a config
// (Hunyuan's alpha) is no extension but the base of the training, and becomes a base.
Rope unscaled(const Rope&);
// One of methods() for a scaling; "" where none makes it.
std::string method_of(const Scaling&);
// A start for LongRoPE's long_factor: 1 for pairs of 32 turns and more within the trained length, `factor` for those
// that do not complete one, between them YaRN's ramp over the logarithm of the turns: 1 / (1 - r + r / factor) with
// r = 1 - ln(turns) / ln(32). Rises from pair to pair.
std::vector<double> starting_long_factor(const std::vector<double>& inv_freq, std::int64_t trained, double factor);

// ---- config_text.cpp, params.cpp: a plan as text, read back ----

enum class Form : std::uint8_t { rope_parameters, rope_scaling };  // of transformers 5, or the older with rope_theta
inline constexpr const char* form_keys[] = {"rope_parameters", "rope_scaling"};

struct Written {
  std::string config;       // the whole text
  std::string object = {};  // what the form's key holds, on one line; "null" for a rope_scaling that goes away
  std::string wrong = {};   // why the text cannot say the plan, or how it is read otherwise; "": it is right
  Model model = {};         // as the text is read
};

// An object that stands there keeps its members, in their order and spelling, but for what changes.
void write_object(files::JsonText&, const files::JsonPath&, const files::JsonMembers&);
Form own_form(const Situation&);  // that the file has
Written in_config(const Situation&, const MethodPlan&, Form);
// rope_parameters of the first rope, where the file has no text that holds them.
std::string parameters_alone(const Situation&, const MethodPlan&);
// "4.0", "0.25", "1e+30": a number that JSON readers take for a float.
std::string real(double value);
// max_position_embeddings, by the word that the object has for it.
std::string length_key(const files::Json& object);

std::string one_line(const std::string& raw);  // JSON text, with one blank behind each comma and colon

bool is_params(const Situation&);  // params.json of Mistral or of Meta
Written in_params(const Situation&, const MethodPlan&);
// "--ctx-size 131072 --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768", of llama.cpp, which runs GGUF files; ""
// where no options say it.
std::string llama_cpp_options(const Situation&, const MethodPlan&);

// ---- serving.cpp ----

Cache cache_of(const Situation&);
void add_serving(const Situation&, MethodPlan&);  // overrides, vllm, sglang

// ---- read_back.cpp ----

// Every rope of the plan must be read as planned, every other as it was, layer by layer: else `wrong` says how it is
// read. Where a family reads parameters beside factor and length in its own way (DeepSeek-V4's yarn, Phi-3.5-MoE's
// lists), the model holds what it reads.
void read_back(const Situation&, const MethodPlan&, Written&);
// The rope as planned; null: it stays.
const Rope* planned_rope(const MethodPlan&, std::size_t rope);
// The rope of the new model that layers of `used` have, and of those the one that was extended; null: they have none.
const ModelRope* extended_rope(const Model&, const ModelRope& used);
// The sentence of an error without its [operation].
std::string without_operation(const Error&);

}  // namespace rotary::extend
