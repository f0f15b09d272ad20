// Plans a longer context for a model: which scalings reach it, what each does to the pairs, and the config.json that
// says so. `rotary extend` as functions.
#pragma once

#include <algorithm>
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
  Model model;                 // as read_config gives it
  std::string name = {};       // what the config is called in the answer: a path
  std::string config = {};     // the text that the model was read from; "": a file whose text cannot be changed (GGUF)
  ConfigOptions options = {};  // that the model was read with
  std::int64_t context = 0;    // tokens that the model shall take
  std::optional<std::int64_t> trained_length = {};  // instead of what the config says
  std::optional<double> factor = {};                // instead of context / trained_length
  std::optional<std::size_t> rope = {};             // whose part is extended; nothing: the first rope of a text
  std::string method = {};                          // one of methods(); "": all
};

// "linear", "ntk", "dynamic", "yarn", "llama3", "longrope", and "default": no scaling at all.
ROTARY_API std::span<const std::string_view> methods() noexcept;

// What one method does to one pair.
struct PairPlan {
  double unscaled = 0;           // radians per token as trained
  double inv_freq = 0;           // the same as planned
  double stretch = 1;            // unscaled / inv_freq; 0: the pair does not turn
  std::string_view effect = "";  // kept, blended, stretched (by the whole factor), shortened, still
  double trained_angle = 0;      // trained_length * unscaled
  double angle = 0;              // (context - 1) * inv_freq: the largest that a position, or a distance, gives
  // Had not completed a turn in training, and goes beyond trained_angle.
  bool sees_new_angles = false;
};

// One rope under one method.
struct RopePlan {
  std::size_t rope = 0;                                // its number in the model
  Rope planned;                                        // as the new config is read
  Frequencies frequencies;                             // of it, at `context` tokens
  std::vector<PairPlan> pairs;                         // one for each pair of the rope
  int count(std::string_view effect) const noexcept {  // of pairs
    return static_cast<int>(std::ranges::count(pairs, effect, &PairPlan::effect));
  }
  // Of the pairs that see new angles: how many, and the largest angle, at most a whole turn; 0: none.
  int pairs_with_new_angles = 0;
  double largest_unseen_angle = 0;
  int pair_of_largest_unseen_angle = -1;
  double smallest_step = 0;  // radians between neighbouring tokens of the slowest pair that turns
  double largest_step = 0;   // of the fastest
};

// A change of the config: null where a key was not there, or is no more.
struct Change {
  std::string key;                           // with its part: "text_config.rope_scaling"
  std::optional<std::string> before, after;  // JSON, as it is spelled
};

struct MethodPlan {
  std::string method;        // one of methods()
  std::string refused = {};  // why the method cannot be used here; nothing below is set then
  double factor = 1;
  bool starting_list = false;        // long_factor is a start for a search or for fine-tuning, not a published list
  double smallest_factor = 1;        // that reaches the context
  std::string from = {};             // where the parameters come from: "the published config of ...", "the formula"
  std::string rope_parameters = {};  // JSON, as transformers 5 reads it
  std::string rope_scaling = {};  // JSON, the older spelling; "null": none, only rope_theta changes; "": no such form
  double rope_theta = 0;
  std::int64_t max_position_embeddings = 0;
  std::vector<RopePlan> ropes = {};        // those that are extended
  std::vector<std::string> warnings = {};  // sentences: what is known to go wrong
  std::string config = {};                 // the whole new config.json or params.json; "" where there is none to change
  std::string file = {};                   // "config.json", "params.json"
  std::string unsaid = {};                 // why a params.json cannot say the plan
  std::string llama_cpp = {};              // of a GGUF file: the options of llama.cpp that say the plan; "": none do
  std::vector<Change> changes = {};
  // What vLLM and SGLang take in place of a new config.json: JSON, and the command of each, in which $ROPE stands for
  // it and MODEL for the model's folder. "": the text cannot say the plan, or is no config.json.
  std::string overrides = {}, vllm = {}, sglang = {};
};

// The keys and values that attention keeps of one sequence of `context` tokens.
struct Cache {
  std::int64_t bytes = 0;  // of bf16; 0: the config does not tell
  std::string assumes;     // "bf16, 28 layers, keys and values of 4 heads of 128"
};

// What the makers of a model publish for its longer context.
struct Publication {
  std::string publisher;            // "Qwen"
  std::string models;               // "Qwen2.5 and Qwen3"
  std::string method;               // one of methods()
  double factor = 1;                // of the recipe
  std::int64_t trained_length = 0;  // of the short original
  std::int64_t context = 0;         // that the recipe is published for
  std::string source;               // "the model card of ..."
  bool applies = false;             // to these weights, this length and context: the plan is that very one
  // The file shows that it is of the weights that the recipe is for: it has the recipe's scaling, or is the plain file
  // to which the publisher adds it. A model_type and a shape alone do not show it.
  bool weights_known = false;
  std::string other_weights = {};  // that have such a file and are not those: "Llama 3"
  std::string caution = {};        // what the publisher says against it, in quotes
};

// "Qwen: yarn, factor 4 over 32768 tokens, for 131072 (the model card of ...)".
ROTARY_API std::string text_of(const Publication&);

struct Plan {
  std::string name = {};                      // of the request
  Model model;                                // likewise
  std::int64_t context = 0;                   // that was asked for
  std::int64_t trained_length = 0;            // before any scaling
  std::string trained_length_from = {};       // "max_position_embeddings", "published by Qwen", "--trained-length", ...
  double smallest_factor = 1;                 // context / trained_length
  std::optional<Publication> published = {};  // the recipe of the model's family; nothing: none is known
  std::vector<std::size_t> extended = {};     // ropes of the model
  std::vector<std::size_t> left = {};         // the others: they stay as they are
  std::vector<MethodPlan> methods = {};       // the one that was asked for, or all
  std::string recommended = {};               // the method to take; "default": no scaling; "": none of them
  std::string why = {};                       // in words
  std::string otherwise = {};                 // what to take instead if the weights are other ones; "": nothing known
  std::vector<std::string> warnings = {};     // of every method
  Cache cache = {};
  std::string written = {};  // the new config.json or params.json, where write() made one; for the answer
};

// Where a plan starts: the first rope that it extends, and its trained length, which every command takes.
struct Start {
  std::size_t rope = 0;
  std::int64_t trained_length = 0;       // before any scaling; 0: nothing says it
  std::string trained_length_from = {};  // as Plan has it
  std::string publisher = {};            // where its makers publish another length than the file has
};
ROTARY_API Start start_of(const Request&);  // reads no context; throws ROPE where the model has no rope

// Every new config was read back by parse_config: the ropes of the plan are those, and all others are unchanged.
// Throws VALUE (a context that needs no extension, a factor or length out of range), ROPE (nothing that a scaling could
// extend), CONFIG_MISSING (no trained length).
ROTARY_API Plan plan(const Request&);

// Makes the folder with the new config.json or params.json of the plan's only method, else of the recommended one, and
// beside it rotary-extend.md with this note. Returns the path of the new config. Nothing that is there is replaced, and
// nothing is written before all is known to be right. Throws FILE.
ROTARY_API std::string write(const Plan&, const std::string& folder, const std::string& note);

// The object that `rotary extend --json` prints.
ROTARY_API std::string to_json(const Plan&);

}  // namespace rotary::extend
