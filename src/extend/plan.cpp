#include <algorithm>
#include <cmath>

#include "steps.h"
#include "values/effects.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::extend {
namespace {

// ---- what a method does to a rope ----

// What the frequencies of the planned rope do to each pair.
void measure(RopePlan& plan, const Situation& situation, double factor) {
  plan.frequencies = frequencies(plan.planned, situation.request.context);
  const std::vector<double> trained_with = frequencies(unscaled(situation.rope(plan.rope).rope), 0).inv_freq;
  const std::vector<double>& scaled = plan.frequencies.inv_freq;
  // A larger base without a scaling is the NTK of that factor.
  const Scaling& scaling = plan.planned.scaling;
  const auto effects = scalings::effects_of(
      trained_with, scaled, std::holds_alternative<Unscaled>(scaling) ? Ntk{.factor = factor} : scaling);
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    const auto& [stretch, effect] = effects[i];
    PairPlan& pair = plan.pairs.emplace_back(PairPlan{trained_with[i], scaled[i], stretch, effect});
    const double step = std::fabs(pair.inv_freq);
    if (step == 0) continue;
    constexpr double slack = 1e-9;  // for rounding errors of the factor
    pair.trained_angle = static_cast<double>(situation.trained) * std::fabs(pair.unscaled);
    pair.angle = static_cast<double>(situation.request.context - 1) * step;
    pair.sees_new_angles = pair.trained_angle < circle && pair.angle > pair.trained_angle * (1 + slack);
    plan.smallest_step = plan.smallest_step == 0 ? step : std::min(plan.smallest_step, step);
    plan.largest_step = std::max(plan.largest_step, step);
    if (!pair.sees_new_angles) continue;
    ++plan.pairs_with_new_angles;
    if (std::min(pair.angle, circle) <= plan.largest_unseen_angle) continue;
    plan.largest_unseen_angle = std::min(pair.angle, circle);
    plan.pair_of_largest_unseen_angle = static_cast<int>(i);
  }
}

// ---- one method ----

std::vector<Change> changes_between(const Situation& situation, const std::string& after) {
  const files::JsonText before(situation.request.config), now(after);
  const files::Json root = files::parse_json(after);
  const files::Json &old = *situation.object(), &fresh = *files::object_at(root, situation.part);
  std::vector<std::string> keys;
  for (const auto& item : old.items()) keys.push_back(item.key());
  for (const auto& item : fresh.items()) {
    if (!old.contains(item.key())) keys.push_back(item.key());
  }
  const std::string part = situation.first().part;
  std::vector<Change> changes;
  for (const std::string& key : keys) {
    const files::JsonPath path = situation.path(key);
    Change change{part.empty() ? key : part + "." + key, before.raw(path), now.raw(path)};
    if (change.before != change.after) changes.push_back(std::move(change));
  }
  return changes;
}

void take(const Situation& situation, const Written& written, MethodPlan& plan) {
  plan.config = written.config;
  plan.changes = changes_between(situation, plan.config);
}

// Both forms are made and read back; the file's own is the one that is kept, where it can say what is planned.
void write_config(const Situation& situation, MethodPlan& plan) {
  const Written parameters = in_config(situation, plan, Form::rope_parameters);
  const Written scaling = in_config(situation, plan, Form::rope_scaling);
  if (parameters.wrong.empty()) plan.rope_parameters = parameters.object;
  if (scaling.wrong.empty()) plan.rope_scaling = scaling.object;
  const bool old = own_form(situation) == Form::rope_scaling;
  const Written& own = old ? scaling : parameters;
  const Written& other = old ? parameters : scaling;
  const Written& taken = own.wrong.empty() ? own : other;
  if (!taken.wrong.empty()) {
    const std::string type = situation.family == nullptr ? "this model" : situation.family_type();
    plan.refused = "the config of " + type + " cannot say it: " + own.wrong;
    return;
  }
  plan.file = "config.json";
  take(situation, taken, plan);
  for (RopePlan& rope : plan.ropes) rope.planned = extended_rope(taken.model, situation.rope(rope.rope))->rope;
}

// Without a config.json the rope_parameters stand alone.
void write_elsewhere(const Situation& situation, MethodPlan& plan) {
  plan.rope_parameters = parameters_alone(situation, plan);
  if (!situation.editable()) {
    plan.llama_cpp = llama_cpp_options(situation, plan);
    return;
  }
  const Written written = in_params(situation, plan);
  plan.file = "params.json";
  plan.unsaid = written.wrong;
  if (written.wrong.empty()) take(situation, written, plan);
}

MethodPlan plan_by(const Situation& situation, std::string_view method) {
  MethodPlan plan{.method = std::string(method), .smallest_factor = situation.smallest_factor()};
  const std::int64_t context = situation.request.context;
  plan.max_position_embeddings = method == "dynamic"   ? situation.trained
                                 : method == "default" ? std::max(context, situation.first().context)
                                                       : context;
  propose(situation, plan);
  if (!plan.refused.empty()) return plan;
  if (situation.editable() && !is_params(situation)) {
    write_config(situation, plan);
  } else {
    write_elsewhere(situation, plan);
  }
  if (!plan.refused.empty()) return plan;
  for (RopePlan& rope : plan.ropes) measure(rope, situation, plan.factor);
  plan.warnings = warnings_of(situation, plan);
  add_serving(situation, plan);
  return plan;
}

// ---- the recommendation ----

// The method that would be taken, and why; sets for which weights, and what to take for others.
std::pair<std::string, std::string> best_method(const Situation& situation, Plan& plan) {
  const Recipe* known = situation.published;
  const std::string trained_alone =
      "does best without training in the measurements of its paper, and most frameworks read it";
  const bool has_scaling = known != nullptr && known->says.method != "default";
  if (known != nullptr && !known->instead.empty() && situation.is_published_length() &&
      situation.request.context <= known->says.context) {
    return {known->elsewhere ? "" : "default", known->instead};
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
    if (!situation.is_scaled()) {
      plan.why = "for the weights of " + says.other_weights + ": ";
      return {"yarn", trained_alone};
    }
  }
  if (situation.is_scaled()) {
    const std::string own = method_of(situation.scaling());
    if (!own.empty()) return {own, "the method that the file has already"};
  }
  if (std::holds_alternative<Proportional>(situation.scaling())) {
    return {"linear", "the only method that rope_type proportional takes"};
  }
  const std::string whose =
      known == nullptr ? "the makers of this model publish is not known"
                       : known->says.publisher + " publishes " + (has_scaling ? "starts from " : "ends at ") +
                             std::to_string(has_scaling ? known->says.trained_length : known->says.context) + " tokens";
  return {"yarn", trained_alone + "; what " + whose};
}

// The first method that can be used, in the order of what is recommended otherwise.
void recommend(const Situation& situation, Plan& plan) {
  const auto [best, why] = best_method(situation, plan);
  const auto works = [&](std::string_view method) {
    return std::any_of(plan.methods.begin(), plan.methods.end(),
                       [&](const MethodPlan& one) { return one.method == method && one.refused.empty(); });
  };
  // Lists that were trained are the model's own, whatever a framework makes of them; a start is not.
  const bool trained_lists = situation.is_published_context() || situation.is_own_context();
  const bool in_vain = best == "longrope" && situation.turns_by_short_factor_only() && !trained_lists;
  if (best.empty() || (works(best) && !in_vain)) {
    plan.recommended = best;
    plan.why += why;
    return;
  }
  for (const std::string_view method : {"yarn", "longrope", "ntk", "linear", "llama3", "dynamic"}) {
    if (!works(method) || method == best) continue;
    plan.recommended = method;
    plan.why += in_vain
                    ? "longrope, " + why + ", changes nothing for long texts in transformers, which turns " +
                          situation.family_type() +
                          " by short_factor at every length; for a framework that reads long_factor, take longrope"
                    : best + " cannot be used here" + (method == "longrope" ? "; the list is a start by its ramp" : "");
    return;
  }
}

// ---- all of them ----

void check_request(const Request& request) {
  const auto& factor = request.factor;
  if (factor && !(*factor >= 1 && *factor <= 1e15)) {
    fail(Code::VALUE, "extend", "--factor must be from 1 to 1e15 but got ", detail::spelled(*factor));
  }
  const auto all = methods();
  const bool known = std::find(all.begin(), all.end(), request.method) != all.end();
  if (!request.method.empty() && !known) {
    fail(Code::VALUE, "extend", "a method must be linear, ntk, dynamic, yarn, llama3 or longrope but got ",
         request.method);
  }
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
  // All of them, whichever is asked for: what is recommended depends on what can be used.
  for (const std::string_view method : methods()) plan.methods.push_back(plan_by(situation, method));
  recommend(situation, plan);
  if (request.method.empty() && !plan.why.empty()) return plan;
  std::erase_if(plan.methods,
                [&](const MethodPlan& one) { return !request.method.empty() && one.method != request.method; });
  const MethodPlan& first = plan.methods.front();
  if (!first.refused.empty()) {
    fail(Code::ROPE, "extend", first.method, " must be a method that this model can use but is not: ", first.refused);
  }
  return plan;
}

}  // namespace rotary::extend
