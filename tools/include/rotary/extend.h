// rotary extend: which scalings reach a longer context, what each does to the pairs, and the config.json that says so.
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
  Model model;                                      // as read_config gives it
  std::string name = {};                            // the config's name in the answer: a path
  std::string config = {};                          // the text that the model was read from; required by plan()
  ConfigOptions options = {};                       // with which the model was read
  std::int64_t context = 0;                         // tokens that the model shall take
  std::optional<std::int64_t> trained_length = {};  // in place of the one that the config says
  std::optional<double> factor = {};                // in place of context / trained_length
  std::optional<int> rope = {};                     // selects the part that is extended; default: the first of a text
  std::string method = {};                          // one of methods(); "" plans all
};

// "linear", "yarn", "llama3", "longrope" (with published lists), and "default": no scaling at all.
ROTARY_API std::span<const std::string_view> methods() noexcept;

// One rope under one method.
struct RopePlan {
  std::size_t rope = 0;              // its number in the model
  Rope planned;                      // as the new config is read
  Frequencies frequencies = {};      // `planned` at `context` tokens
  std::vector<double> trained = {};  // radians per token of each pair, before any scaling
  // Pairs whose wavelength is as trained, stretched by less than the factor, and stretched by the whole factor.
  int kept = 0, blended = 0, stretched = 0;
};

// A changed key of the config. A value is JSON, and absent where the key is absent.
struct Change {
  std::string key;  // with its part: "text_config.rope_scaling"
  std::optional<std::string> before = {}, after = {};
};

struct MethodPlan {
  std::string method;        // one of methods()
  std::string refused = {};  // why the method cannot be used here; the fields below are not set then
  double factor = 1;
  std::string from = {};             // where the parameters come from: "the published config of ...", "--factor"
  std::string rope_parameters = {};  // JSON, as transformers 5 reads it
  std::string rope_scaling = {};     // JSON in the older form; "null": no scaling; "": it cannot be said
  std::int64_t max_position_embeddings = 0;
  std::vector<RopePlan> ropes = {};        // the extended ropes
  std::vector<std::string> warnings = {};  // sentences about known faults of the plan
  std::string config = {};                 // the whole new config.json
  std::vector<Change> changes = {};
  // JSON that servers take in place of a new config.json, and the command of each with that as $ROPE and MODEL for the
  // model's folder; "" where rope_parameters cannot say the plan.
  std::string overrides = {}, vllm = {}, sglang = {};
};

// The keys and values of one sequence of `context` tokens.
struct Cache {
  std::int64_t bytes = 0;    // 0 where the config does not say the sizes
  std::string assumes = {};  // "bf16, 28 layers, keys and values of 4 heads of 128"
};

// The recipe that the makers of a model publish for its longer context.
struct Publication {
  std::string publisher, models;    // "Qwen", "Qwen2.5 and Qwen3"
  std::string method;               // the scaling's name; default: the weights take the context without one
  double factor = 1;                // the recipe's
  std::int64_t trained_length = 0;  // the short original's
  std::int64_t context = 0;         // for which the recipe is published
  std::string source;               // "the model card of ..."
  // The file shows that it is of the recipe's weights: it has the recipe's scaling, or is the plain file to which the
  // publisher adds it. applies: the length and the context are the recipe's too.
  bool weights_known = false, applies = false;
  std::string other_weights = {};  // other models that have such a file: "Llama 3"
  std::string caution = {};        // a reason against it
};

// Where a plan starts, which every command takes.
struct Start {
  std::int64_t trained_length = 0;       // before any scaling; 0 where nothing says it
  std::string trained_length_from = {};  // "max_position_embeddings", "published by Qwen", "--trained-length", ...
  std::string publisher = {};            // set where the makers publish another length than the file has
};
ROTARY_API Start start_of(const Request&);  // reads no context; throws ROPE where the model has no rope

struct Plan {
  std::string name = {};  // these three are the request's
  Model model;
  std::int64_t context = 0;
  Start start = {};
  double smallest_factor = 1;                 // context / trained_length
  std::optional<Publication> published = {};  // the recipe of the model's family, if one is known
  std::vector<std::size_t> extended = {};     // numbers of the ropes that are extended; the others stay
  std::vector<MethodPlan> methods = {};       // the one that was asked for, or all
  std::string recommended = {};               // the method to take; "default": no scaling; "": none of them
  std::string why = {};                       // the reason of the recommendation
  std::string otherwise = {};                 // the method for other weights with the same config; "": none is known
  std::vector<std::string> warnings = {};     // about every method
  Cache cache = {};
  std::string written = {};  // the path that write() returned, for to_json
};

// Reads every new config back by parse_config: the extended ropes are as planned, and all others are unchanged. Throws
// VALUE (a context that needs no extension, a factor or length out of range), ROPE (no rope that a scaling could
// extend), CONFIG_MISSING (no trained length), FORMAT (no config.json: a GGUF file or params.json).
ROTARY_API Plan plan(const Request&);

// Makes the folder with the config.json of the plan's only method, else of the recommended one, and returns its path. A
// config.json that is there is not replaced. Throws FILE.
ROTARY_API std::string write(const Plan&, const std::string& folder);

ROTARY_API std::string to_json(const Plan&);  // the object that `rotary extend --json` prints

}  // namespace rotary::extend
