// A plan as JSON, and the folder that holds it.
#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "files/text/io.h"
#include "files/text/json.h"
#include "files/text/paths.h"
#include "steps.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::extend {
namespace {

// ---- JSON ----

using files::OrderedJson;

OrderedJson parsed(const std::string& text) { return text.empty() ? OrderedJson(nullptr) : OrderedJson::parse(text); }

// One rope under one method: its numbers, then its pairs one by one.
OrderedJson json_of(const RopePlan& rope, const Plan& plan) {
  const int pair = rope.pair_of_largest_unseen_angle;
  OrderedJson counts;
  for (const char* effect : {"kept", "blended", "stretched", "still"}) counts[effect] = rope.count(effect);
  OrderedJson json = {{"rope", rope.rope},
                      {"attention_factor", rope.frequencies.attention_factor},
                      {"pairs", std::move(counts)},
                      {"largest_unseen_angle", rope.largest_unseen_angle},
                      {"pair_of_largest_unseen_angle", pair < 0 ? OrderedJson(nullptr) : OrderedJson(pair)},
                      {"pairs_with_new_angles", rope.pairs_with_new_angles},
                      {"smallest_step", rope.smallest_step},
                      {"largest_step", rope.largest_step}};
  for (const PairPlan& one : rope.pairs) {
    json["inv_freq"].push_back(one.inv_freq);
    json["wavelength"].push_back(files::finite_or_null(circle / one.inv_freq));  // null: does not turn, or hardly
    json["stretch"].push_back(one.inv_freq != 0 ? files::finite_or_null(one.stretch) : OrderedJson(nullptr));
    json["effect"].push_back(one.effect);
    json["turns_in_training"].push_back(static_cast<double>(plan.trained_length) * one.unscaled / circle);
    json["turns_in_context"].push_back(static_cast<double>(plan.context) * one.inv_freq / circle);
    json["sees_new_angles"].push_back(one.sees_new_angles);
  }
  return json;
}

OrderedJson json_of(const MethodPlan& method, const Plan& plan) {
  if (!method.refused.empty()) return {{"method", method.method}, {"refused", method.refused}};
  OrderedJson changes = OrderedJson::array();
  for (const Change& change : method.changes) {
    changes.push_back({{"key", change.key},
                       {"before", change.before ? parsed(*change.before) : OrderedJson(nullptr)},
                       {"after", change.after ? parsed(*change.after) : OrderedJson(nullptr)}});
  }
  OrderedJson json = {{"method", method.method},
                      {"factor", method.factor},
                      {"from", method.from},
                      {"rope_parameters", parsed(method.rope_parameters)},
                      {"rope_scaling", parsed(method.rope_scaling)},
                      {"rope_theta", method.rope_theta},
                      {"max_position_embeddings", method.max_position_embeddings},
                      {"unsaid", method.unsaid.empty() ? OrderedJson(nullptr) : OrderedJson(method.unsaid)},
                      {"llama_cpp", method.llama_cpp.empty() ? OrderedJson(nullptr) : OrderedJson(method.llama_cpp)},
                      {"changes", std::move(changes)},
                      {"overrides", parsed(method.overrides)},
                      {"vllm", method.vllm.empty() ? OrderedJson(nullptr) : OrderedJson(method.vllm)},
                      {"sglang", method.sglang.empty() ? OrderedJson(nullptr) : OrderedJson(method.sglang)}};
  json.update(json_of(method.ropes.front(), plan));
  OrderedJson more = OrderedJson::array();
  for (std::size_t i = 1; i < method.ropes.size(); ++i) more.push_back(json_of(method.ropes[i], plan));
  json["more_ropes"] = std::move(more);
  json["warnings"] = method.warnings;
  return json;
}

OrderedJson json_of(const std::optional<Publication>& published) {
  if (!published) return nullptr;
  return {{"publisher", published->publisher},
          {"models", published->models},
          {"method", published->method},
          {"factor", published->factor},
          {"trained_length", published->trained_length},
          {"context", published->context},
          {"source", published->source},
          {"applies", published->applies},
          {"weights_known", published->weights_known},
          {"other_weights",
           published->other_weights.empty() ? OrderedJson(nullptr) : OrderedJson(published->other_weights)},
          {"caution", published->caution.empty() ? OrderedJson(nullptr) : OrderedJson(published->caution)}};
}

// ---- the folder ----

template <class... Parts>
[[noreturn]] void refuse_file(const Parts&... sentence) {
  fail(Code::FILE, "extend", sentence...);
}

const MethodPlan& method_to_write(const Plan& plan) {
  const auto found = std::find_if(plan.methods.begin(), plan.methods.end(), [&](const MethodPlan& method) {
    return plan.methods.size() == 1 || method.method == plan.recommended;
  });
  if (found == plan.methods.end()) refuse_file("--output needs --scaling where no method is recommended: ", plan.why);
  if (!found->unsaid.empty()) {
    refuse_file("--output must name a method that params.json can say but got ", found->method, ": ", found->unsaid);
  }
  if (found->config.empty()) {
    refuse_file(
        "--output needs a config.json or params.json to start from but CONFIG is a GGUF file: llama.cpp takes a plan "
        "as options, which are shown without --output");
  }
  return *found;
}

}  // namespace

std::string to_json(const Plan& plan) {
  OrderedJson ropes = OrderedJson::array();
  for (std::size_t i = 0; i < plan.model.ropes.size(); ++i) {
    const ModelRope& used = plan.model.ropes[i];
    const bool extended = std::find(plan.extended.begin(), plan.extended.end(), i) != plan.extended.end();
    ropes.push_back({{"rope", i},
                     {"part", used.part},
                     {"layers", used.layers},
                     {"layer_types", used.layer_types},
                     {"head_dim", used.rope.head_dim},
                     {"rotary_dim", used.rope.rotary_dim},
                     {"base", used.rope.base},
                     {"scaling", name(used.rope.scaling)},
                     {"extended", extended}});
  }
  OrderedJson methods = OrderedJson::array();
  for (const MethodPlan& method : plan.methods) methods.push_back(json_of(method, plan));
  return files::json_text(
      {{"config", plan.name},
       {"model_type", plan.model.model_type},
       {"context", plan.context},
       {"trained_length", plan.trained_length},
       {"trained_length_from", plan.trained_length_from},
       {"smallest_factor", plan.smallest_factor},
       {"kv_cache_bytes", plan.cache.bytes == 0 ? OrderedJson(nullptr) : OrderedJson(plan.cache.bytes)},
       {"kv_cache_assumes", plan.cache.assumes.empty() ? OrderedJson(nullptr) : OrderedJson(plan.cache.assumes)},
       {"family_publishes", json_of(plan.published)},
       {"ropes", std::move(ropes)},
       {"methods", std::move(methods)},
       {"recommended", plan.recommended},
       {"why", plan.why},
       {"otherwise", plan.otherwise.empty() ? OrderedJson(nullptr) : OrderedJson(plan.otherwise)},
       {"warnings", plan.warnings},
       {"written", plan.written.empty() ? OrderedJson(nullptr) : OrderedJson(plan.written)}});
}

std::string write(const Plan& plan, const std::string& name, const std::string& note_text) {
  namespace fs = std::filesystem;
  const MethodPlan& method = method_to_write(plan);
  const fs::path folder = files::path_of(name);
  const fs::path config = folder / method.file, note = folder / "rotary-extend.md";
  std::error_code error;
  for (const fs::path& path : {config, note}) {
    if (fs::exists(fs::symlink_status(path, error))) {
      refuse_file("--output must name a folder without ", files::path_text(path.filename()), " but ",
                  files::in_quotes(files::path_text(path)), " is there, and nothing is replaced");
    }
  }
  fs::create_directories(folder, error);
  if (!fs::is_directory(folder, error)) {
    refuse_file("--output must be a folder, or a name at which one can be made, but got ", files::in_quotes(name));
  }
  files::write_whole("extend", note, note_text);
  try {
    files::write_whole("extend", config, method.config);
  } catch (...) {
    fs::remove(note, error);
    throw;
  }
  return files::path_text(config);
}

std::string text_of(const Publication& published) {
  const bool scales = published.method != "default";
  return published.publisher + ": " +
         (scales ? published.method + ", factor " + detail::significant(published.factor, 6) + " over " +
                       std::to_string(published.trained_length) + " tokens, for "
                 : "no scaling of the rope, for ") +
         std::to_string(published.context) + (scales ? "" : " tokens") + " (" + published.source + ")" +
         (published.applies         ? ": this very case"
          : published.weights_known ? ""
                                    : ", for weights that this file does not show") +
         (published.caution.empty() ? "" : "; but " + published.caution);
}

}  // namespace rotary::extend
