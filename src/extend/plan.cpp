// The plan by every method, and the one that is recommended.
#include <algorithm>

#include "steps.h"
#include "values/effects.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::extend {
namespace {

MethodPlan plan_by(const Situation& situation, std::string_view method) {
  MethodPlan plan{.method = std::string(method)};
  const std::int64_t context = situation.request.context;
  plan.max_position_embeddings = method == "default" ? std::max(context, situation.stated_context()) : context;
  propose(situation, plan);
  if (plan.refused.empty()) write_config(situation, plan);
  if (!plan.refused.empty()) return plan;
  for (RopePlan& rope : plan.ropes) {
    rope.frequencies = frequencies(rope.planned, context);
    rope.trained = frequencies(unscaled(situation.rope(rope.rope).rope), 0).inv_freq;
    for (const auto& pair : scalings::effects_of(rope.trained, rope.frequencies.inv_freq, rope.planned.scaling)) {
      const std::string_view effect = pair.name;
      rope.kept += effect == "kept" ? 1 : 0;
      rope.blended += effect == "blended" ? 1 : 0;
      rope.stretched += effect == "stretched" ? 1 : 0;
    }
  }
  plan.warnings = warnings_of(situation, plan);
  add_serving(situation, plan);
  return plan;
}

// ---- the recommendation ----

struct Advice {
  std::string method = {};  // "": none
  std::string why = {};
};

// The method that would be taken. Sets Plan::otherwise where other weights have the same config.
Advice best_method(const Situation& situation, Plan& plan) {
  const Recipe* known = situation.published;
  const std::string trained_alone =
      "does best without training in the measurements of its paper, and most frameworks read it";
  const bool has_scaling = known != nullptr && known->says.method != "default";
  if (known != nullptr && known->row.contains("instead") && situation.is_published_length() &&
      situation.request.context <= known->says.context) {
    return {known->row.value("elsewhere", false) ? "" : "default", known->row.at("instead")};
  }
  if (situation.is_within()) {
    return {"default", "the weights take " + std::to_string(situation.trained) + " tokens (" + situation.trained_from +
                           "), more than the config states"};
  }
  if (has_scaling && situation.is_published_length()) {
    const Publication& says = known->says;
    const std::string published = "what " + says.publisher + " publishes for " + says.models +
                                  (situation.is_published_exactly() ? "" : ", at another length");
    if (situation.are_published_weights()) return {says.method, published};
    if (says.other_weights.empty()) return {says.method, published + ", if these are its weights"};
    plan.otherwise = "if these are the weights of " + says.models + ": --scaling " + says.method +
                     (situation.is_published_context() ? " --factor " + detail::spelled(says.factor) : "") + " (" +
                     says.source + ")";
    if (!situation.is_scaled()) return {"yarn", "for the weights of " + says.other_weights + ": " + trained_alone};
  }
  if (situation.is_scaled()) {
    const std::string own = method_of(situation.scaling());
    if (!own.empty()) return {own, "the method that the file has already"};
  }
  if (std::holds_alternative<Proportional>(situation.scaling()))
    return {"linear", "the only method that rope_type proportional takes"};
  const std::string whose =
      known == nullptr ? "the makers of this model publish is not known"
                       : known->says.publisher + " publishes " + (has_scaling ? "starts from " : "ends at ") +
                             std::to_string(has_scaling ? known->says.trained_length : known->says.context) + " tokens";
  return {"yarn", trained_alone + "; what " + whose};
}

// The best method where it can be used, else the first of the others that can.
void recommend(const Situation& situation, Plan& plan) {
  const auto works = [&](std::string_view method) {
    return std::ranges::any_of(plan.methods,
                               [&](const MethodPlan& one) { return one.method == method && one.refused.empty(); });
  };
  const Advice best = best_method(situation, plan);
  plan.recommended = best.method;
  plan.why = best.why;
  if (best.method.empty() || works(best.method)) return;
  constexpr std::string_view others[] = {"yarn", "longrope", "linear", "llama3"};
  const auto other = std::ranges::find_if(others, works);
  plan.recommended = other == std::end(others) ? "" : *other;
  plan.why = best.method + ", " + best.why + ", cannot be planned here";
}

void check_request(const Request& request) {
  const auto& factor = request.factor;
  if (factor && !(*factor >= 1 && *factor <= 1e15))
    fail(Code::VALUE, "extend", "--factor must be from 1 to 1e15 but got ", detail::spelled(*factor));
  const auto all = methods();
  if (request.method.empty() || std::ranges::find(all, request.method) != all.end()) return;
  fail(Code::VALUE, "extend", "a method must be linear, yarn, llama3, longrope or default but got ", request.method);
}

}  // namespace

Plan plan(const Request& request) {
  check_request(request);
  Situation situation = situation_of(request);
  warn_of_every_method(situation);
  Plan plan{.name = request.name,
            .model = request.model,
            .context = request.context,
            .trained_length = situation.trained,
            .trained_length_from = situation.trained_from,
            .smallest_factor = situation.smallest_factor(),
            .extended = situation.targets,
            .left = situation.left,
            .warnings = situation.warnings,
            .cache = cache_of(situation)};
  if (situation.published != nullptr) {
    plan.published = situation.published->says;
    plan.published->weights_known = situation.are_published_weights();
    plan.published->applies = plan.published->weights_known && situation.is_published_exactly();
    if (plan.published->applies) plan.published->context = request.context;
  }
  // All of them, whichever is asked for: the recommendation depends on which of them can be used.
  for (const std::string_view method : methods()) plan.methods.push_back(plan_by(situation, method));
  recommend(situation, plan);
  if (request.method.empty()) return plan;
  std::erase_if(plan.methods, [&](const MethodPlan& one) { return one.method != request.method; });
  const MethodPlan& first = plan.methods.front();
  if (!first.refused.empty())
    fail(Code::ROPE, "extend", first.method, " must be a method that this model can use but is not: ", first.refused);
  return plan;
}

}  // namespace rotary::extend
