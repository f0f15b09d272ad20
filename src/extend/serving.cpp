// What a plan takes to be served: the cache of keys and values, and the options of vLLM and SGLang.
#include <algorithm>

#include "files/config/stages.h"
#include "steps.h"

namespace rotary::extend {
namespace {

constexpr std::int64_t bytes_each = 2;  // of bf16

std::int64_t number(const Situation& situation, const char* key) {
  const files::Json* value = situation.value(key);
  return value != nullptr && value->is_number_integer() ? value->get<std::int64_t>() : 0;
}

std::string layers_of(std::size_t count) { return std::to_string(count) + (count == 1 ? " layer" : " layers"); }

}  // namespace

std::int64_t Situation::window() const {
  const files::Json* uses = value("use_sliding_window");
  const bool on = uses == nullptr || (uses->is_boolean() && uses->get<bool>());
  return on ? std::max<std::int64_t>(number(*this, "sliding_window"), 0) : 0;
}

Cache cache_of(const Situation& situation) {
  const std::int64_t context = situation.request.context, window = situation.window();
  const std::int64_t latent = number(situation, "kv_lora_rank");
  const ModelRope& first = situation.first();
  std::size_t whole = 0, sliding = 0;
  double elements = 0;
  const auto add = [&](const ModelRope& used, int layer) {
    const auto i = static_cast<std::size_t>(layer);
    const std::string type = i < used.types_of_layers.size() ? used.types_of_layers[i] : "";
    if (!files::attends(type)) return;
    const bool slides = window > 0 && window < context && (type.empty() || files::slides(type));
    const int of_token =
        latent > 0 ? static_cast<int>(latent) + used.rope.rotary_dim : 2 * used.kv_heads * used.rope.head_dim;
    elements += static_cast<double>(of_token) * static_cast<double>(slides ? window : context);
    ++(slides ? sliding : whole);
  };
  for (const ModelRope& used : situation.request.model.ropes) {
    if (used.part != first.part) continue;
    for (const int layer : used.layers) add(used, layer);
  }
  for (const int layer : first.layers_without_rope) add(first, layer);
  // An MLA without its latents' width, and layers that keep compressed tokens, are not counted.
  const bool compresses = std::count(first.layer_types.begin(), first.layer_types.end(), "compress") != 0;
  if (first.kv_heads == 0 || (first.first > 0 && latent == 0) || compresses) return {};
  std::string text = "bf16, " + (whole > 0 ? layers_of(whole) : "");
  if (sliding > 0)
    text +=
        (whole > 0 ? " whole and " : "") + layers_of(sliding) + " of the last " + std::to_string(window) + " tokens";
  text += latent > 0 ? ", latents of " + std::to_string(latent) + " + " + std::to_string(first.rope.rotary_dim)
                     : ", keys and values of " + std::to_string(first.kv_heads) + " heads of " +
                           std::to_string(first.rope.head_dim);
  return {static_cast<std::int64_t>(std::min(elements * bytes_each, 9e18)), text};
}

void add_serving(const Situation& situation, MethodPlan& plan) {
  if (plan.file != "config.json" || plan.rope_parameters.empty()) return;
  files::JsonMembers members;
  bool turns_otherwise = plan.changes.empty();  // a rope that stays needs no words
  for (const Change& change : plan.changes) {
    const std::string key = change.key.substr(change.key.rfind('.') + 1);
    const bool beside =
        key == length_key(*situation.object()) || key == "original_max_position_embeddings" || key == "head_dim";
    if (beside && change.after) members.insert(members.begin(), {key, *change.after});
    turns_otherwise = turns_otherwise || !beside;
  }
  if (turns_otherwise) members.push_back({"rope_parameters", plan.rope_parameters});
  plan.overrides = files::json_line(members);
  for (auto key = situation.part.rbegin(); key != situation.part.rend(); ++key)
    plan.overrides = files::json_line({{*key, plan.overrides}});
  const std::string length = std::to_string(situation.request.context);
  // vLLM derives the length of these three from the factor, and refuses a longer one.
  const bool derives = plan.method == "yarn" || plan.method == "linear" || plan.method == "dynamic";
  const bool refuses = derives && plan.factor < plan.smallest_factor;
  plan.vllm = std::string(refuses ? "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 " : "") + "vllm serve MODEL --max-model-len " +
              length + " --hf-overrides \"$ROPE\"";
  plan.sglang = "python -m sglang.launch_server --model-path MODEL --context-length " + length +
                " --json-model-override-args \"$ROPE\"";
}

}  // namespace rotary::extend
