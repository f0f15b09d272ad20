// Commands to serve a plan, the plan as JSON, and the folder with its config.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <system_error>

#include "config/stages.h"
#include "steps.h"
#include "text/io.h"
#include "text/paths.h"
#include "values/effects.h"

namespace rotary::extend {
namespace {

constexpr double circle = 2 * std::numbers::pi;

// JSON text as a value; null for "".
OrderedJson parsed(const std::string& text) { return text.empty() ? OrderedJson() : OrderedJson::parse(text); }
OrderedJson text_or_null(const std::string& text) { return text.empty() ? OrderedJson() : OrderedJson(text); }

// One rope under one method: its numbers, then its pairs one by one. A pair meets new angles if the trained angles were
// less than a turn and those of the context exceed them.
OrderedJson object_of(const RopePlan& rope, const Plan& plan) {
  const std::vector<double>& scaled = rope.frequencies.inv_freq;
  const auto effects = scalings::effects_of(rope.trained, scaled, rope.planned.scaling);
  const auto trained_length = static_cast<double>(plan.start.trained_length),
             context = static_cast<double>(plan.context);
  OrderedJson pairs, largest_pair;
  std::vector<double> steps;  // for each pair that rotates
  double largest = 0;
  int fresh = 0;
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    constexpr double slack = 1e-9;  // for rounding errors of the factor
    const double step = std::abs(scaled[i]), seen = trained_length * std::abs(rope.trained[i]);
    const double angle = (context - 1) * step;
    const bool is_new = step != 0 && seen < circle && angle > seen * (1 + slack);
    pairs["inv_freq"].push_back(scaled[i]);
    pairs["wavelength"].push_back(files::finite_or_null(circle / scaled[i]));  // null if it does not rotate, or hardly
    pairs["stretch"].push_back(step != 0 ? files::finite_or_null(effects[i].stretch) : OrderedJson());
    pairs["effect"].push_back(effects[i].name);
    pairs["turns_in_training"].push_back(trained_length * rope.trained[i] / circle);
    pairs["turns_in_context"].push_back(context * scaled[i] / circle);
    pairs["sees_new_angles"].push_back(is_new);
    if (step != 0) steps.push_back(step);
    fresh += is_new ? 1 : 0;
    if (!is_new || std::min(angle, circle) <= largest) continue;
    largest = std::min(angle, circle);
    largest_pair = i;
  }
  OrderedJson json = {{"rope", rope.rope},
                      {"attention_factor", rope.frequencies.attention_factor},
                      {"pairs",
                       {{"kept", rope.kept},
                        {"blended", rope.blended},
                        {"stretched", rope.stretched},
                        {"still", scaled.size() - steps.size()}}},
                      {"largest_unseen_angle", largest},
                      {"pair_of_largest_unseen_angle", largest_pair},
                      {"pairs_with_new_angles", fresh},
                      {"smallest_step", steps.empty() ? 0.0 : std::ranges::min(steps)},
                      {"largest_step", steps.empty() ? 0.0 : std::ranges::max(steps)}};
  json.update(pairs);
  return json;
}

OrderedJson object_of(const MethodPlan& method, const Plan& plan) {
  if (!method.refused.empty()) return {{"method", method.method}, {"refused", method.refused}};
  OrderedJson json = {{"method", method.method},
                      {"factor", method.factor},
                      {"from", method.from},
                      {"rope_parameters", parsed(method.rope_parameters)},
                      {"rope_scaling", parsed(method.rope_scaling)},
                      {"rope_theta", method.ropes.front().planned.base},
                      {"max_position_embeddings", method.max_position_embeddings},
                      {"changes", OrderedJson::array()},
                      {"overrides", parsed(method.overrides)},
                      {"vllm", text_or_null(method.vllm)},
                      {"sglang", text_or_null(method.sglang)}};
  for (const auto& [key, before, after] : method.changes)
    json["changes"].push_back(
        {{"key", key}, {"before", parsed(before.value_or(""))}, {"after", parsed(after.value_or(""))}});
  json.update(object_of(method.ropes.front(), plan));
  json["more_ropes"] = OrderedJson::array();
  for (std::size_t i = 1; i < method.ropes.size(); ++i) json["more_ropes"].push_back(object_of(method.ropes[i], plan));
  json["warnings"] = method.warnings;
  return json;
}

OrderedJson object_of(const Publication& published) {
  return {{"publisher", published.publisher},
          {"models", published.models},
          {"method", published.method},
          {"factor", published.factor},
          {"trained_length", published.trained_length},
          {"context", published.context},
          {"source", published.source},
          {"applies", published.applies},
          {"weights_known", published.weights_known},
          {"other_weights", text_or_null(published.other_weights)},
          {"caution", text_or_null(published.caution)}};
}

}  // namespace

Cache cache_of(const Situation& situation) {
  const std::int64_t context = situation.request.context, window = situation.window();
  const ModelRope& first = situation.first();
  const ModelPart& part = part_of(situation.request.model, situation.part());
  const std::vector<std::string>& types = part.layer_types;
  const std::int64_t latent = part.latent;
  // MLA without the latents' width, and layers that cache compressed tokens, are not counted.
  if (first.kv_heads == 0 || (first.first > 0 && latent == 0) || std::ranges::count(types, "compress") != 0) return {};
  std::size_t whole = 0, sliding = 0;
  double elements = 0;
  const auto add = [&](const ModelRope& used, int layer) {
    const auto i = static_cast<std::size_t>(layer);
    const std::string type = i < types.size() ? types[i] : "";
    if (!files::attends(type)) return;
    const bool slides = window > 0 && window < context && (type.empty() || files::slides(type));
    const std::int64_t of_token =
        latent > 0 ? latent + used.rope.rotary_dim : std::int64_t{2} * used.kv_heads * used.rope.head_dim;
    elements += static_cast<double>(of_token) * static_cast<double>(slides ? window : context);
    ++(slides ? sliding : whole);
  };
  for (const ModelRope& used : situation.ropes()) {
    if (used.part != first.part) continue;
    for (const int layer : used.layers) add(used, layer);
  }
  for (const int layer : layers_without_rope(situation.request.model, first.part)) add(first, layer);
  std::string text = sentence_of("bf16, ", whole + sliding, whole + sliding == 1 ? " layer" : " layers");
  if (sliding > 0) text += sentence_of(" (", sliding, " of the last ", window, " tokens)");
  text += latent > 0 ? sentence_of(", latents of ", latent, " + ", first.rope.rotary_dim)
                     : sentence_of(", keys and values of ", first.kv_heads, " heads of ", first.rope.head_dim);
  constexpr double bytes_each = 2;  // bytes of bf16
  return {static_cast<std::int64_t>(std::min(elements * bytes_each, 9e18)), text};
}

void add_serving(const Situation& situation, MethodPlan& plan) {
  if (plan.rope_parameters.empty()) return;
  OrderedJson members = OrderedJson::object();
  bool turns_otherwise = plan.changes.empty();  // a rope that stays needs no override
  for (const Change& change : plan.changes) {
    const std::string key = change.key.substr(change.key.rfind('.') + 1);
    const bool beside = key == length_key(situation) || key == "original_max_position_embeddings" || key == "head_dim";
    if (beside && change.after) members[key] = OrderedJson::parse(*change.after);
    turns_otherwise = turns_otherwise || !beside;
  }
  if (turns_otherwise) members["rope_parameters"] = OrderedJson::parse(plan.rope_parameters);
  const std::vector<std::string_view> keys = files::words(situation.part(), '.');
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) members = OrderedJson{{std::string(*key), members}};
  plan.overrides = one_line(members);
  // vLLM derives the length from the factor for these two methods, and refuses a longer one.
  const bool derives = plan.method == "yarn" || plan.method == "linear";
  const bool refuses = derives && plan.factor < situation.smallest_factor();
  plan.vllm = sentence_of(refuses ? "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 " : "", "vllm serve MODEL --max-model-len ",
                          situation.request.context, " --hf-overrides \"$ROPE\"");
  plan.sglang = sentence_of("python -m sglang.launch_server --model-path MODEL --context-length ",
                            situation.request.context, " --json-model-override-args \"$ROPE\"");
}

std::string to_json(const Plan& plan) {
  OrderedJson json = {{"config", plan.name},
                      {"model_type", plan.model.model_type},
                      {"context", plan.context},
                      {"trained_length", plan.start.trained_length},
                      {"trained_length_from", plan.start.trained_length_from},
                      {"smallest_factor", plan.smallest_factor},
                      {"kv_cache_bytes", plan.cache.bytes == 0 ? OrderedJson() : OrderedJson(plan.cache.bytes)},
                      {"kv_cache_assumes", text_or_null(plan.cache.assumes)},
                      {"family_publishes", plan.published ? object_of(*plan.published) : OrderedJson()},
                      {"ropes", OrderedJson::array()},
                      {"methods", OrderedJson::array()},
                      {"recommended", plan.recommended},
                      {"why", plan.why},
                      {"otherwise", text_or_null(plan.otherwise)},
                      {"warnings", plan.warnings},
                      {"written", text_or_null(plan.written)}};
  for (std::size_t i = 0; i < plan.model.ropes.size(); ++i) {
    const ModelRope& used = plan.model.ropes[i];
    json["ropes"].push_back({{"rope", i},
                             {"part", used.part},
                             {"layers", used.layers},
                             {"layer_types", layer_types_of(plan.model, used)},
                             {"head_dim", used.rope.head_dim},
                             {"rotary_dim", used.rope.rotary_dim},
                             {"base", used.rope.base},
                             {"scaling", name(used.rope.scaling)},
                             {"extended", std::ranges::count(plan.extended, i) != 0}});
  }
  for (const MethodPlan& method : plan.methods) json["methods"].push_back(object_of(method, plan));
  return files::json_text(json);
}

std::string write(const Plan& plan, const std::string& name) {
  const auto method = std::ranges::find_if(
      plan.methods, [&](const MethodPlan& one) { return plan.methods.size() == 1 || one.method == plan.recommended; });
  if (method == plan.methods.end())
    fail(Code::FILE, "extend", "--output needs --scaling where no method is recommended: ", plan.why);
  const std::filesystem::path folder = files::path_of(name), config = folder / "config.json";
  std::error_code error;
  if (std::filesystem::symlink_status(config, error).type() != std::filesystem::file_type::not_found) {
    fail(Code::FILE, "extend", "--output must name a folder without config.json but ",
         files::in_quotes(files::path_text(config)), " is there, and nothing is replaced");
  }
  std::filesystem::create_directories(folder, error);
  if (!std::filesystem::is_directory(folder, error)) {
    fail(Code::FILE, "extend", "--output must be a folder, or a name at which one can be made, but got ",
         files::in_quotes(name));
  }
  files::write_whole("extend", config, method->config);
  return files::path_text(config);
}

}  // namespace rotary::extend
