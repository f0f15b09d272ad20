// The steps of a plan, in order: the facts that hold for every method, the extended rope of each method, and the text
// of its config, which is read back.
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
  Publication says;                              // `applies` and `weights_known` are set by the plan
  Scaling scaling;                               // Unscaled if only a length is published
  Json row;                                      // all fields
  bool is_made_for(std::int64_t context) const;  // equals a published context or is at most 1/16 shorter
  bool states(std::int64_t context) const;       // the unscaled files have this max_position_embeddings
};

const Json& published();  // tools/extend/published.json
const std::vector<Recipe>& published_recipes();

struct Situation {
  const Request& request;                 // must outlive it
  Json root = {};                         // the config; null for a GGUF file, which has a start_of only
  const files::Family* family = nullptr;  // the family of the extended part; null if unknown
  const Recipe* published = nullptr;
  std::vector<std::size_t> targets = {};
  Start start = {};
  Sentences warnings = {};

  const std::vector<ModelRope>& ropes() const { return request.model.ropes; }
  const ModelRope& first() const { return ropes()[targets.front()]; }
  const std::string& part() const { return first().part; }
  std::int64_t stated_context() const { return part_of(request.model, part()).context; }
  const Scaling& scaling() const { return first().rope.scaling; }  // the scaling of the file
  std::int64_t trained() const { return start.trained_length; }
  std::string family_type() const { return family == nullptr ? "this model" : std::string(family->type); }
  // The part's value of that key, null if it is missing; number() as a whole number, 0 if it is none.
  const Json& value(const char* key) const;
  std::int64_t number(const char* key) const;
  std::int64_t window() const;  // sliding_window if it is used, else 0

  bool of_layer_types() const;  // the config has parameters for each layer type, or its family makes them
  // Whether the rope is extended in that layer. If sliding and full layers share a rope, only the full ones are
  // extended, provided that the config can express it.
  bool extends(std::size_t rope, int layer) const;

  // Whether the weights were trained for the context, so that at most a length in the file must grow.
  bool is_within() const { return request.context <= trained(); }
  // context / trained_length, rounded so that their product reaches the context; at least 1.
  double smallest_factor() const;
  bool is_scaled() const;              // the rope of the file is scaled
  bool is_published_scaling() const;   // the scaling of the file is the published one
  bool are_published_weights() const;  // Publication::weights_known
  bool is_published_length() const;    // the recipe is for this trained length
  bool is_published_context() const;   // and for this context or one at most 1/16 longer
};

Situation situation_of(const Request&);  // throws ROPE, VALUE, CONFIG_MISSING, FORMAT

std::int64_t reached(std::int64_t trained, double factor);  // trained * factor, rounded
inline const double* factor_of(const Scaling& scaling) { return scalings::value_of<double>(scaling, "factor"); }
inline const std::int64_t* length_of(const Scaling& scaling) {
  return scalings::value_of<std::int64_t>(scaling, "trained_length");
}

// Writes the plan in both forms of transformers, rope_parameters and rope_scaling, and reads each back. The file's form
// is kept if it can express the plan; else the other is used, or the plan is refused.
void write_config(const Situation&, MethodPlan&);
std::string length_key(const Situation&);  // the part's key for max_position_embeddings
std::string one_line(const OrderedJson&);  // JSON with a blank after each comma and colon

Cache cache_of(const Situation&);
void add_serving(const Situation&, MethodPlan&);  // sets overrides, vllm and sglang

}  // namespace rotary::extend
