// The steps of a plan, in their order: the facts that hold for every method, the rope that a method makes of another,
// and the text of the config that says it, read back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/families.h"
#include "models/quirks/quirk.h"
#include "rotary/extend.h"
#include "text/json.h"
#include "values/fail.h"
#include "values/number_text.h"
#include "values/scaling_fields.h"

namespace rotary::extend {

using detail::sentence_of;
using detail::spelled;
using files::Json;
using files::OrderedJson;
using Sentences = std::vector<std::string>;
inline constexpr const char* original_key = "original_max_position_embeddings";

// A row of tools/extend/published.json, whose "about" describes each field.
struct Recipe {
  Publication says;                              // `applies` and `weights_known` are left to the plan
  Scaling scaling;                               // Unscaled where the length alone is published
  Json row;                                      // all fields
  bool is_made_for(std::int64_t context) const;  // at most 1/16 shorter than a published one
  bool states(std::int64_t context) const;  // such originals have this max_position_embeddings, not the trained length
};

const Json& published();  // tools/extend/published.json
const std::vector<Recipe>& published_recipes();

struct Situation {
  const Request& request;                 // must outlive it
  Json root = {};                         // the config; null for a GGUF file, of which start_of alone is known
  const files::Family* family = nullptr;  // the family of the part that is extended; null where it is not known
  const Recipe* published = nullptr;
  std::vector<std::size_t> targets = {};
  Start start = {};
  Sentences warnings = {};

  const std::vector<ModelRope>& ropes() const { return request.model.ropes; }
  const ModelRope& first() const { return ropes()[targets.front()]; }
  const std::string& part() const { return first().part; }
  std::int64_t stated_context() const { return part_of(request.model, part()).context; }
  const Scaling& scaling() const { return first().rope.scaling; }  // the file's own
  std::int64_t trained() const { return start.trained_length; }
  std::string family_type() const { return family == nullptr ? "this model" : std::string(family->type); }
  // The part's value of that key, null where it is not there; as a whole number, 0 where it is none.
  const Json& value(const char* key) const;
  std::int64_t number(const char* key) const;
  std::int64_t window() const;  // sliding_window, where it is in use; 0: none

  bool of_layer_types() const;  // the config has, or its family makes, parameters for each layer type
  // Whether that layer of that rope is extended: of a rope that layers of both kinds share, only those that attend to
  // everything are, where the config can say so.
  bool extends(std::size_t rope, int layer) const;

  // The weights take the context as they were trained: at most a length of the file must be raised.
  bool is_within() const { return request.context <= trained(); }
  // context / trained_length, rounded so that their product reaches the context; at least 1.
  double smallest_factor() const;
  bool is_scaled() const;              // the file's own rope
  bool is_published_scaling() const;   // the scaling of the file is the published one
  bool are_published_weights() const;  // Publication::weights_known
  bool is_published_length() const;    // the recipe was made for this very trained length
  bool is_published_context() const;   // and for this context or one that is at most 1/16 longer
};

Situation situation_of(const Request&);  // throws ROPE, VALUE, CONFIG_MISSING, FORMAT

bool only_slides(const Model&, const ModelRope&);           // every layer that uses it
std::int64_t reached(std::int64_t trained, double factor);  // trained * factor, rounded
inline const double* factor_of(const Scaling& scaling) { return scalings::value_of<double>(scaling, "factor"); }
inline const std::int64_t* length_of(const Scaling& scaling) {
  return scalings::value_of<std::int64_t>(scaling, "trained_length");
}

// Writes the plan in both forms of transformers, rope_parameters and rope_scaling, and reads each back. The file's own
// form is kept where it can say the plan; else the other is taken, or the plan refused.
void write_config(const Situation&, MethodPlan&);
std::string length_key(const Situation&);  // the part's word for max_position_embeddings
std::string one_line(const OrderedJson&);  // JSON with a blank behind each comma and colon

Cache cache_of(const Situation&);
void add_serving(const Situation&, MethodPlan&);  // overrides, vllm, sglang

}  // namespace rotary::extend
