// rotary extend --json.
#include <algorithm>
#include <utility>

#include "apps/shared/text.h"
#include "page.h"

namespace rotary::cli {

namespace {

using Json = nlohmann::ordered_json;

Json parsed(const std::string& text) { return text.empty() ? Json(nullptr) : Json::parse(text); }

// One rope under one method: its numbers, then its pairs one by one.
Json json_of(const extend::RopePlan& rope, const extend::Plan& plan) {
  Json inv_freq = Json::array(), wavelength = Json::array(), stretch = Json::array(), effect = Json::array();
  Json trained = Json::array(), turns = Json::array(), unseen = Json::array();
  for (const extend::PairPlan& pair : rope.pairs) {
    inv_freq.push_back(pair.inv_freq);
    wavelength.push_back(finite_or_null(circle / pair.inv_freq));  // null: does not turn, or hardly
    stretch.push_back(pair.inv_freq != 0 ? finite_or_null(pair.stretch) : Json(nullptr));
    effect.push_back(pair.effect);
    trained.push_back(static_cast<double>(plan.trained_length) * pair.unscaled / circle);
    turns.push_back(static_cast<double>(plan.context) * pair.inv_freq / circle);
    unseen.push_back(pair.sees_new_angles);
  }
  return {
      {"rope", rope.rope},
      {"attention_factor", rope.frequencies.attention_factor},
      {"pairs", {{"kept", rope.kept}, {"blended", rope.blended}, {"stretched", rope.stretched}, {"still", rope.still}}},
      {"largest_unseen_angle", rope.largest_unseen_angle},
      {"pair_of_largest_unseen_angle",
       rope.pair_of_largest_unseen_angle < 0 ? Json(nullptr) : Json(rope.pair_of_largest_unseen_angle)},
      {"pairs_with_new_angles", rope.pairs_with_new_angles},
      {"smallest_step", rope.smallest_step},
      {"largest_step", rope.largest_step},
      {"inv_freq", std::move(inv_freq)},
      {"wavelength", std::move(wavelength)},
      {"stretch", std::move(stretch)},
      {"effect", std::move(effect)},
      {"turns_in_training", std::move(trained)},
      {"turns_in_context", std::move(turns)},
      {"sees_new_angles", std::move(unseen)}};
}

Json json_of(const extend::MethodPlan& method, const extend::Plan& plan) {
  if (!method.refused.empty()) return {{"method", method.method}, {"refused", method.refused}};
  Json changes = Json::array();
  for (const extend::Change& change : method.changes) {
    changes.push_back({{"key", change.key},
                       {"before", change.before ? parsed(*change.before) : Json(nullptr)},
                       {"after", change.after ? parsed(*change.after) : Json(nullptr)}});
  }
  Json json = {{"method", method.method},
               {"factor", method.factor},
               {"from", method.from},
               {"rope_parameters", parsed(method.rope_parameters)},
               {"rope_scaling", parsed(method.rope_scaling)},
               {"rope_theta", method.rope_theta},
               {"max_position_embeddings", method.max_position_embeddings},
               {"unsaid", method.unsaid.empty() ? Json(nullptr) : Json(method.unsaid)},
               {"llama_cpp", method.llama_cpp.empty() ? Json(nullptr) : Json(method.llama_cpp)},
               {"changes", std::move(changes)}};
  json.update(json_of(method.ropes.front(), plan));
  Json more = Json::array();
  for (std::size_t i = 1; i < method.ropes.size(); ++i) more.push_back(json_of(method.ropes[i], plan));
  json["more_ropes"] = std::move(more);
  json["warnings"] = method.warnings;
  return json;
}

Json json_of(const std::optional<extend::Publication>& published) {
  if (!published) return nullptr;
  return {{"publisher", published->publisher},
          {"models", published->models},
          {"method", published->method},
          {"factor", published->factor},
          {"trained_length", published->trained_length},
          {"context", published->context},
          {"source", published->source},
          {"applies", published->applies}};
}

}  // namespace

Json json_of(const ExtendAsked& asked, const Model& model, const extend::Plan& plan) {
  Json ropes = Json::array();
  for (std::size_t i = 0; i < model.ropes.size(); ++i) {
    const ModelRope& used = model.ropes[i];
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
  Json methods = Json::array();
  for (const extend::MethodPlan& method : plan.methods) methods.push_back(json_of(method, plan));
  return {{"config", asked.config},
          {"model_type", model.model_type},
          {"context", plan.context},
          {"trained_length", plan.trained_length},
          {"trained_length_from", plan.trained_length_from},
          {"smallest_factor", plan.smallest_factor},
          {"family_publishes", json_of(plan.published)},
          {"ropes", std::move(ropes)},
          {"methods", std::move(methods)},
          {"recommended", plan.recommended},
          {"why", plan.why},
          {"warnings", plan.warnings},
          {"written", asked.written.empty() ? Json(nullptr) : Json(asked.written)}};
}

}  // namespace rotary::cli
