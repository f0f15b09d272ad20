// rotary extend: the scalings for a longer context, their effect on the pairs, and the config.json for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/config.h"

namespace rotary::extend {

struct Request {
  Model model;                                      // as read by read_config
  std::string name = {};                            // the config's name in the answer, a path
  std::string config = {};                          // the text that the model was read from; required by plan()
  ConfigOptions options = {};                       // the options with which the model was read
  std::int64_t context = 0;                         // tokens that the model is to take
  std::optional<std::int64_t> trained_length = {};  // replaces the config's
  std::optional<double> factor = {};                // replaces context / trained_length
  std::optional<int> rope = {};                     // selects the part to extend; default: the first rope of a text
  std::string method = {};                          // one of methods(); "": plans all of them
};

// "linear", "yarn", "llama3", "longrope" (with published lists), and "default": no scaling at all.
ROTARY_API std::span<const std::string_view> methods() noexcept;

// One rope under one method.
struct RopePlan {
  std::size_t rope = 0;              // index in Model::ropes
  Rope planned;                      // as read from the new config
  Frequencies frequencies = {};      // `planned` at `context` tokens
  std::vector<double> trained = {};  // radians per token of each pair, before any scaling
  // Pairs whose wavelength is as trained, stretched by less than the factor, and stretched by the whole factor.
  int kept = 0, blended = 0, stretched = 0;
};

// A changed key of the config. Values are JSON, and not set where the key is absent.
struct Change {
  std::string key;  // dotted, with its part: "text_config.rope_scaling"
  std::optional<std::string> before = {}, after = {};
};

struct MethodPlan {
  std::string method;        // one of methods()
  std::string refused = {};  // why the method cannot be used here, if so; then the fields below are not set
  double factor = 1;
  std::string from = {};             // source of the parameters: "the published config of ...", "--factor"
  std::string rope_parameters = {};  // JSON, as transformers 5 reads it
  std::string rope_scaling = {};     // JSON in the older form; "null": no scaling; "": not expressible
  std::int64_t max_position_embeddings = 0;
  std::vector<RopePlan> ropes = {};        // the extended ropes
  std::vector<std::string> warnings = {};  // sentences about known faults of the plan
  std::string config = {};                 // the whole new config.json
  std::vector<Change> changes = {};
  // JSON that servers take instead of a new config.json, and the command of each, with that JSON as $ROPE and the
  // model's folder as MODEL; "" if rope_parameters cannot express the plan.
  std::string overrides = {}, vllm = {}, sglang = {};
};

// The keys and values of one sequence of `context` tokens.
struct Cache {
  std::int64_t bytes = 0;    // 0 if the config does not state the sizes
  std::string assumes = {};  // "bf16, 28 layers, keys and values of 4 heads of 128"
};

// The recipe that a model's publisher gives for a longer context.
struct Publication {
  std::string publisher, models;    // "Qwen", "Qwen2.5 and Qwen3"
  std::string method;               // the scaling's name; "default": the weights need no scaling
  double factor = 1;                // the recipe's factor
  std::int64_t trained_length = 0;  // the model's length before it is extended
  std::int64_t context = 0;         // the context of the recipe
  std::string source;               // "the model card of ..."
  // weights_known: the file belongs to the recipe's weights, because it has the recipe's scaling, or is the plain file
  // to which the publisher adds it. applies: the trained length and the context are also those of the recipe.
  bool weights_known = false, applies = false;
  std::string other_weights = {};  // other models with such a file: "Llama 3"
  std::string caution = {};        // a reason against the recipe
};

// The trained length from which a plan starts.
struct Start {
  std::int64_t trained_length = 0;       // before any scaling; 0 if unknown
  std::string trained_length_from = {};  // "max_position_embeddings", "published by Qwen", "--trained-length", ...
  std::string publisher = {};            // set if the publisher states another length than the file
};
ROTARY_API Start start_of(const Request&);  // ignores the context; throws ROPE if the model has no rope

struct Plan {
  std::string name = {};  // these three are from the request
  Model model;
  std::int64_t context = 0;
  Start start = {};
  double smallest_factor = 1;                 // context / trained_length
  std::optional<Publication> published = {};  // the recipe of the model's family, if one is known
  std::vector<std::size_t> extended = {};     // indices of the ropes that are extended; others stay
  std::vector<MethodPlan> methods = {};       // the requested one, or all
  std::string recommended = {};               // a method; "default": no scaling; "": no method
  std::string why = {};                       // the reason for the recommendation
  std::string otherwise = {};                 // a sentence on other weights with the same config, or ""
  std::vector<std::string> warnings = {};     // about all methods
  Cache cache = {};
  std::string written = {};  // the path returned by write(), for to_json
};

// Plans every method, and reads each new config back by parse_config to check that the extended ropes are as planned
// and all others unchanged. Throws VALUE (a context that needs no extension, a factor or length out of range), ROPE (no
// rope that a scaling could extend), CONFIG_MISSING (no trained length), FORMAT (a GGUF file or params.json).
ROTARY_API Plan plan(const Request&);

// Writes the config.json of the plan's only method, else of the recommended one, into the folder, which it creates if
// necessary, and returns the file's path. Does not replace an existing config.json. Throws FILE.
ROTARY_API std::string write(const Plan&, const std::string& folder);

ROTARY_API std::string to_json(const Plan&);  // the object that `rotary extend --json` prints

}  // namespace rotary::extend
