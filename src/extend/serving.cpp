// How a plan is served: the size of the cache of keys and values, and the options of vLLM and SGLang.
#include <algorithm>

#include "files/config/stages.h"
#include "steps.h"

namespace rotary::extend {

Cache cache_of(const Situation& situation) {
  const std::int64_t context = situation.request.context, window = situation.window();
  const std::int64_t latent = situation.number("kv_lora_rank");
  const ModelRope& first = situation.first();
  // An MLA without its latents' width, and layers that keep compressed tokens, are not counted.
  const std::vector<std::string>& types = part_of(situation.request.model, situation.part()).layer_types;
  const bool compresses = std::ranges::count(layer_types_of(situation.request.model, first), "compress") != 0;
  if (first.kv_heads == 0 || (first.first > 0 && latent == 0) || compresses) return {};
  std::size_t whole = 0, sliding = 0;
  double elements = 0;
  const auto add = [&](const ModelRope& used, int layer) {
    const auto i = static_cast<std::size_t>(layer);
    const std::string type = i < types.size() ? types[i] : "";
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
  for (const int layer : layers_without_rope(situation.request.model, first.part)) add(first, layer);
  const auto layers = [](std::size_t count) { return std::to_string(count) + (count == 1 ? " layer" : " layers"); };
  std::string text = "bf16, " + (whole > 0 ? layers(whole) : "");
  if (sliding > 0)
    text += (whole > 0 ? " whole and " : "") + layers(sliding) + " of the last " + std::to_string(window) + " tokens";
  text += latent > 0 ? ", latents of " + std::to_string(latent) + " + " + std::to_string(first.rope.rotary_dim)
                     : ", keys and values of " + std::to_string(first.kv_heads) + " heads of " +
                           std::to_string(first.rope.head_dim);
  constexpr double bytes_each = 2;  // of bf16
  return {static_cast<std::int64_t>(std::min(elements * bytes_each, 9e18)), text};
}

void add_serving(const Situation& situation, MethodPlan& plan) {
  if (plan.rope_parameters.empty()) return;
  OrderedJson members = OrderedJson::object();
  bool turns_otherwise = plan.changes.empty();  // a rope that stays needs no words
  for (const Change& change : plan.changes) {
    const std::string key = change.key.substr(change.key.rfind('.') + 1);
    const bool beside =
        key == length_key(*situation.object()) || key == "original_max_position_embeddings" || key == "head_dim";
    if (beside && change.after) members[key] = OrderedJson::parse(*change.after);
    turns_otherwise = turns_otherwise || !beside;
  }
  if (turns_otherwise) members["rope_parameters"] = OrderedJson::parse(plan.rope_parameters);
  const std::vector<std::string> keys = files::keys_of(situation.part());
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) members = OrderedJson{{*key, members}};
  plan.overrides = one_line(members);
  const std::string length = std::to_string(situation.request.context);
  // vLLM derives the length of these two from the factor, and refuses a longer one.
  const bool derives = plan.method == "yarn" || plan.method == "linear";
  const bool refuses = derives && plan.factor < situation.smallest_factor();
  plan.vllm = std::string(refuses ? "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 " : "") + "vllm serve MODEL --max-model-len " +
              length + " --hf-overrides \"$ROPE\"";
  plan.sglang = "python -m sglang.launch_server --model-path MODEL --context-length " + length +
                " --json-model-override-args \"$ROPE\"";
}

}  // namespace rotary::extend
