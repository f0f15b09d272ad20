// The steps of a plan, in their order: the facts that hold for every method, the rope that a method makes of another,
// and the text of the config that says it, read back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/models/families.h"
#include "files/text/json.h"
#include "rotary/error.h"
#include "rotary/extend.h"
#include "values/scaling_fields.h"

namespace rotary::extend {

using files::Json;
using files::OrderedJson;

// ---- published.cpp: the recipes of data/published.json, whose "about" describes each field ----

struct Recipe {
  Publication says;  // `applies` and `weights_known` are left to the plan
  Scaling scaling;   // Unscaled where the length alone is published
  Json row;          // all fields
  // For this context, or for one that is at most 1/16 longer.
  bool is_made_for(std::int64_t context) const;
  bool states(std::int64_t context) const;  // such originals have this max_position_embeddings, not the trained length
};

const std::vector<Recipe>& published_recipes();

// ---- situation.cpp: which ropes are extended, and from which length ----

struct Situation {
  const Request& request;                 // must outlive it
  Json root = {};                         // the config; null for a GGUF file, of which start_of alone is known
  const files::Family* family = nullptr;  // of the part that is extended; null where it is not known
  const Recipe* published = nullptr;
  std::vector<std::size_t> targets = {}, left = {};
  std::int64_t trained = 0;
  std::string trained_from = {};
  std::vector<std::string> warnings = {};

  const ModelRope& rope(std::size_t i) const { return request.model.ropes[i]; }
  const ModelRope& first() const { return rope(targets.front()); }
  const std::string& part() const { return first().part; }
  const Scaling& scaling() const { return first().rope.scaling; }  // the file's own
  std::int64_t stated_context() const { return part_of(request.model, part()).context; }
  bool editable() const { return !request.config.empty(); }
  std::string family_type() const { return std::string(family->type); }
  // The part's object, its value of that key, and the same where it is an object; null where it is not there.
  const Json* object() const { return files::object_at(root, part()); }
  const Json* value(const std::string& key) const;
  const Json* dict(const std::string& key) const;
  std::int64_t number(const std::string& key) const;  // an integer; 0 where there is none

  bool of_layer_types() const;  // the config has, or its family makes, parameters for each layer type
  // transformers' code of the family takes no long_factor: there longrope changes nothing for long texts.
  bool turns_by_short_factor_only() const;
  // Layers that slide and others share the rope, and only the others are extended.
  bool splits(const Model&, const ModelRope&) const;
  bool all_slide() const;       // every layer of every rope that is extended
  std::int64_t window() const;  // sliding_window, where it is in use; 0: none

  // The weights take the context as they were trained: at most a length of the file must be raised.
  bool is_within() const { return request.context <= trained; }
  // context / trained_length, rounded so that their product reaches the context; at least 1.
  double smallest_factor() const;
  bool is_scaled() const;  // the file's own rope
  bool of_llama3_or_lists() const;
  bool is_own_context() const;  // the file's own scaling was made for this very context

  // published.cpp
  bool has_factors_of_gguf() const;    // Llama 3.1's scaling as a GGUF file has it
  bool is_published_scaling() const;   // the scaling of the file is the published one
  bool are_published_weights() const;  // Publication::weights_known
  bool is_published_length() const;    // the recipe was made for this very trained length
  bool is_published_context() const;   // and for this context or one that is at most 1/16 longer
  bool is_published_exactly() const;   // for this very length and context
  // The recipe is for weights that the file may have: no others are known to have such a file.
  bool may_take_published() const { return are_published_weights() || published->says.other_weights.empty(); }
};

// The recipe that is made for this model and context, else the first for another context; null where nothing is known.
const Recipe* published_for(const Situation&);

Situation situation_of(const Request&);  // throws ROPE, VALUE, CONFIG_MISSING, FORMAT

bool only_slides(const Model&, const ModelRope&);           // every layer that uses it
std::int64_t reached(std::int64_t trained, double factor);  // trained * factor, rounded
inline const double* factor_of(const Scaling& scaling) { return scalings::value_of<double>(scaling, "factor"); }

// ---- methods.cpp ----

// Sets the ropes of the plan as planned, their factor and where it comes from; or why the method is refused.
void propose(const Situation&, MethodPlan&);
std::vector<std::string> warnings_of(const Situation&, const MethodPlan&);
void warn_of_every_method(Situation&);
bool states_betas(const Situation&);  // the new config spells the default betas too, as the file or the recipe does
// The rope as the model was trained, before any scaling; p-RoPE keeps the pairs that turn. The static NTK of a config
// (Hunyuan's alpha) is no extension but the base of the training, and becomes a base.
Rope unscaled(const Rope&);
std::string method_of(const Scaling&);  // one of methods(); "" where none makes it

// ---- config_text.cpp ----

// Writes the plan in both forms of transformers, rope_parameters and rope_scaling, and reads each back. The file's own
// form is kept where it can say the plan; else the other is taken, or the plan refused.
void write_config(const Situation&, MethodPlan&);
std::string length_key(const Json& object);  // the object's word for max_position_embeddings
std::string one_line(const OrderedJson&);    // JSON with a blank behind each comma and colon

// ---- serving.cpp ----

Cache cache_of(const Situation&);
void add_serving(const Situation&, MethodPlan&);  // overrides, vllm, sglang

}  // namespace rotary::extend
