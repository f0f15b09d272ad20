// Plans a longer context for a model: which scalings reach it, what each does to the pairs, and the config.json that
// says so. Nothing is printed, and nothing is read but what the request holds.
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
  Model model;
  std::string config = {};  // the text that the model was read from; "": a file whose text cannot be changed (GGUF)
  ConfigOptions options = {};
  std::int64_t context = 0;                         // tokens that the model shall take
  std::optional<std::int64_t> trained_length = {};  // instead of what the config says
  std::optional<double> factor = {};                // instead of context / trained_length
  std::optional<std::size_t> rope = {};             // whose part is extended; nothing: the first rope of a text
  std::string method = {};                          // one of methods(); "": all
};

// "linear", "ntk", "dynamic", "yarn", "llama3", "longrope".
std::span<const std::string_view> methods() noexcept;

// What one method does to one pair.
struct PairPlan {
  double unscaled = 0;       // radians per token as trained
  double inv_freq = 0;       // the same as planned
  double stretch = 1;        // unscaled / inv_freq; 0: the pair does not turn
  const char* effect = "";   // kept, blended, stretched (by the whole factor), shortened, still
  double trained_angle = 0;  // trained_length * unscaled
  double angle = 0;          // (context - 1) * inv_freq: the largest that a position, or a distance, gives
  // Had not completed a turn in training, and goes beyond trained_angle.
  bool sees_new_angles = false;
};

// One rope under one method.
struct RopePlan {
  std::size_t rope = 0;  // its number in the model
  Rope planned;
  Frequencies frequencies;  // at `context` tokens
  std::vector<PairPlan> pairs;
  int kept = 0, blended = 0, stretched = 0, still = 0;
  // Of the pairs that see new angles: how many, and the largest angle, at most a whole turn; 0: none.
  int pairs_with_new_angles = 0;
  double largest_unseen_angle = 0;
  int pair_of_largest_unseen_angle = -1;
  double smallest_step = 0;  // radians between neighbouring tokens of the slowest pair that turns
  double largest_step = 0;   // of the fastest
};

// A change of the config: null where a key was not there, or is no more.
struct Change {
  std::string key;
  std::optional<std::string> before, after;
};

struct MethodPlan {
  std::string method;
  std::string refused = {};  // why the method cannot be used here; nothing below is set then
  double factor = 1;
  double smallest_factor = 1;        // that reaches the context
  std::string from = {};             // where the parameters come from: "the published config of ...", "the formula"
  std::string rope_parameters = {};  // JSON, as transformers 5 reads it
  std::string rope_scaling = {};  // JSON, the older spelling; "null": none, only rope_theta changes; "": no such form
  double rope_theta = 0;
  std::int64_t max_position_embeddings = 0;
  std::vector<RopePlan> ropes = {};
  std::vector<std::string> warnings = {};
  std::string config = {};     // the whole new config.json or params.json; "" where there is none to change
  std::string file = {};       // "config.json", "params.json"
  std::string unsaid = {};     // why a params.json cannot say the plan
  std::string llama_cpp = {};  // of a GGUF file: the options of llama.cpp that say the plan; "": none do
  std::vector<Change> changes = {};
};

// What the makers of a model publish for its longer context.
struct Publication {
  std::string publisher;  // "Qwen"
  std::string models;     // "Qwen2.5 and Qwen3"
  std::string method;
  double factor = 1;
  std::int64_t trained_length = 0;
  std::int64_t context = 0;
  std::string source;
  bool applies = false;  // to this model, length and context: the plan is that very one
};

struct Plan {
  std::int64_t context = 0;
  std::int64_t trained_length = 0;
  std::string trained_length_from = {};
  double smallest_factor = 1;  // context / trained_length
  std::optional<Publication> published = {};
  std::vector<std::size_t> extended = {};  // ropes of the model
  std::vector<std::size_t> left = {};      // the others: they stay as they are
  std::vector<MethodPlan> methods = {};
  std::string recommended = {};
  std::string why = {};
  std::vector<std::string> warnings = {};  // of every method
};

// Where a plan starts: the first rope that it extends, and the trained length of that rope where its makers publish
// one.
struct Start {
  std::size_t rope = 0;
  std::optional<std::int64_t> published_length = {};
  std::string publisher = {};
};
Start start_of(const Request&);  // reads no context; throws ROPE where the model has no rope

// Every new config was read back by parse_config: the ropes of the plan are those, and all others are unchanged.
// Throws VALUE (a context that needs no extension, a factor or length out of range), ROPE (nothing that a scaling could
// extend), CONFIG_MISSING (no trained length).
Plan plan(const Request&);

}  // namespace rotary::extend
