// A plan as JSON, and the folder that holds its config.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numbers>
#include <system_error>

#include "files/text/io.h"
#include "files/text/paths.h"
#include "steps.h"
#include "values/effects.h"
#include "values/fail.h"

namespace rotary::extend {
namespace {

constexpr double circle = 2 * std::numbers::pi;

// JSON text as a value; null for "".
OrderedJson parsed(const std::string& text) { return text.empty() ? OrderedJson() : OrderedJson::parse(text); }
OrderedJson text_or_null(const std::string& text) { return text.empty() ? OrderedJson() : OrderedJson(text); }

// One rope under one method: its numbers, then its pairs one by one. A pair meets new angles where the angles of
// training were less than a turn and those of the context go beyond them.
OrderedJson json_of(const RopePlan& rope, const Plan& plan) {
  OrderedJson json = {{"rope", rope.rope},
                      {"attention_factor", rope.frequencies.attention_factor},
                      {"pairs",
                       {{"kept", rope.kept},
                        {"blended", rope.blended},
                        {"stretched", rope.stretched},
                        {"still", std::ranges::count(rope.frequencies.inv_freq, 0.0)}}},
                      {"largest_unseen_angle", 0.0},
                      {"pair_of_largest_unseen_angle", nullptr},
                      {"pairs_with_new_angles", 0},
                      {"smallest_step", 0.0},
                      {"largest_step", 0.0}};
  const std::vector<double>& scaled = rope.frequencies.inv_freq;
  const auto effects = scalings::effects_of(rope.trained, scaled, rope.planned.scaling);
  double slowest = 0, fastest = 0, largest = 0;
  int fresh = 0;
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    constexpr double slack = 1e-9;  // for rounding errors of the factor
    const double step = std::abs(scaled[i]);
    const double seen = static_cast<double>(plan.trained_length) * std::abs(rope.trained[i]);
    const double angle = static_cast<double>(plan.context - 1) * step;
    const bool is_new = step != 0 && seen < circle && angle > seen * (1 + slack);
    json["inv_freq"].push_back(scaled[i]);
    json["wavelength"].push_back(files::finite_or_null(circle / scaled[i]));  // null: does not turn, or hardly
    json["stretch"].push_back(step != 0 ? files::finite_or_null(effects[i].stretch) : OrderedJson());
    json["effect"].push_back(effects[i].name);
    json["turns_in_training"].push_back(static_cast<double>(plan.trained_length) * rope.trained[i] / circle);
    json["turns_in_context"].push_back(static_cast<double>(plan.context) * scaled[i] / circle);
    json["sees_new_angles"].push_back(is_new);
    if (step != 0) slowest = slowest == 0 ? step : std::min(slowest, step);
    fastest = std::max(fastest, step);
    if (!is_new) continue;
    ++fresh;
    if (std::min(angle, circle) <= largest) continue;
    json["largest_unseen_angle"] = largest = std::min(angle, circle);
    json["pair_of_largest_unseen_angle"] = i;
  }
  json["pairs_with_new_angles"] = fresh;
  json["smallest_step"] = slowest;
  json["largest_step"] = fastest;
  return json;
}

OrderedJson json_of(const MethodPlan& method, const Plan& plan) {
  if (!method.refused.empty()) return {{"method", method.method}, {"refused", method.refused}};
  OrderedJson json = {{"method", method.method},
                      {"factor", method.factor},
                      {"from", method.from},
                      {"rope_parameters", parsed(method.rope_parameters)},
                      {"rope_scaling", parsed(method.rope_scaling)},
                      {"rope_theta", method.rope_theta},
                      {"max_position_embeddings", method.max_position_embeddings},
                      {"changes", OrderedJson::array()},
                      {"overrides", parsed(method.overrides)},
                      {"vllm", text_or_null(method.vllm)},
                      {"sglang", text_or_null(method.sglang)}};
  for (const Change& change : method.changes) {
    json["changes"].push_back({{"key", change.key},
                               {"before", parsed(change.before.value_or(""))},
                               {"after", parsed(change.after.value_or(""))}});
  }
  json.update(json_of(method.ropes.front(), plan));
  json["more_ropes"] = OrderedJson::array();
  for (std::size_t i = 1; i < method.ropes.size(); ++i) json["more_ropes"].push_back(json_of(method.ropes[i], plan));
  json["warnings"] = method.warnings;
  return json;
}

OrderedJson json_of(const Publication& published) {
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

std::string to_json(const Plan& plan) {
  OrderedJson json = {{"config", plan.name},
                      {"model_type", plan.model.model_type},
                      {"context", plan.context},
                      {"trained_length", plan.trained_length},
                      {"trained_length_from", plan.trained_length_from},
                      {"smallest_factor", plan.smallest_factor},
                      {"kv_cache_bytes", plan.cache.bytes == 0 ? OrderedJson() : OrderedJson(plan.cache.bytes)},
                      {"kv_cache_assumes", text_or_null(plan.cache.assumes)},
                      {"family_publishes", plan.published ? json_of(*plan.published) : OrderedJson()},
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
  for (const MethodPlan& method : plan.methods) json["methods"].push_back(json_of(method, plan));
  return files::json_text(json);
}

std::string write(const Plan& plan, const std::string& name) {
  namespace fs = std::filesystem;
  const auto refuse = [](const auto&... sentence) { fail(Code::FILE, "extend", sentence...); };
  const auto method = std::ranges::find_if(
      plan.methods, [&](const MethodPlan& one) { return plan.methods.size() == 1 || one.method == plan.recommended; });
  if (method == plan.methods.end()) refuse("--output needs --scaling where no method is recommended: ", plan.why);
  const fs::path folder = files::path_of(name), config = folder / "config.json";
  std::error_code error;
  if (fs::exists(fs::symlink_status(config, error))) {
    refuse("--output must name a folder without config.json but ", files::in_quotes(files::path_text(config)),
           " is there, and nothing is replaced");
  }
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder, error))
    refuse("--output must be a folder, or a name at which one can be made, but got ", files::in_quotes(name));
  files::write_whole("extend", config, method->config);
  return files::path_text(config);
}

}  // namespace rotary::extend
