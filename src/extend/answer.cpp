// A plan as JSON, and the folder that holds its config.
#include <algorithm>
#include <filesystem>
#include <system_error>

#include "files/text/io.h"
#include "files/text/paths.h"
#include "steps.h"
#include "values/fail.h"

namespace rotary::extend {
namespace {

// JSON text as a value; null for "".
OrderedJson parsed(const std::string& text) { return text.empty() ? OrderedJson() : OrderedJson::parse(text); }
OrderedJson text_or_null(const std::string& text) { return text.empty() ? OrderedJson() : OrderedJson(text); }

OrderedJson json_of(const RopePlan& rope) {
  return {{"rope", rope.rope},
          {"attention_factor", rope.frequencies.attention_factor},
          {"kept", rope.kept},
          {"blended", rope.blended},
          {"stretched", rope.stretched},
          {"inv_freq", rope.frequencies.inv_freq}};
}

OrderedJson json_of(const MethodPlan& method) {
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
                      {"sglang", text_or_null(method.sglang)},
                      {"ropes", OrderedJson::array()},
                      {"warnings", method.warnings}};
  for (const Change& change : method.changes) {
    json["changes"].push_back({{"key", change.key},
                               {"before", parsed(change.before.value_or(""))},
                               {"after", parsed(change.after.value_or(""))}});
  }
  for (const RopePlan& rope : method.ropes) json["ropes"].push_back(json_of(rope));
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
                      {"extended", plan.extended},
                      {"left", plan.left},
                      {"methods", OrderedJson::array()},
                      {"recommended", plan.recommended},
                      {"why", plan.why},
                      {"otherwise", text_or_null(plan.otherwise)},
                      {"warnings", plan.warnings},
                      {"written", text_or_null(plan.written)}};
  for (const MethodPlan& method : plan.methods) json["methods"].push_back(json_of(method));
  return files::json_text(json);
}

std::string write(const Plan& plan, const std::string& name) {
  namespace fs = std::filesystem;
  const auto refuse = [](const auto&... sentence) { fail(Code::FILE, "extend", sentence...); };
  const auto method = std::ranges::find_if(plan.methods, [&](const MethodPlan& one) {
    return plan.methods.size() == 1 || one.method == plan.recommended;
  });
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
