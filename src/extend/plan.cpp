#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "steps.h"
#include "values/effects.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::extend {
namespace {

constexpr std::array<std::string_view, 6> all_methods = {"linear", "ntk", "dynamic", "yarn", "llama3", "longrope"};
constexpr double circle = 2 * std::numbers::pi;

// ---- what a method does to a rope ----

void add_angles(RopePlan& plan, std::int64_t trained, std::int64_t context) {
  constexpr double slack = 1e-9;  // for rounding errors of the factor
  for (std::size_t i = 0; i < plan.pairs.size(); ++i) {
    PairPlan& pair = plan.pairs[i];
    if (pair.inv_freq == 0) continue;
    pair.trained_angle = static_cast<double>(trained) * std::fabs(pair.unscaled);
    pair.angle = static_cast<double>(context - 1) * std::fabs(pair.inv_freq);
    pair.sees_new_angles = pair.trained_angle < circle && pair.angle > pair.trained_angle * (1 + slack);
    const double step = std::fabs(pair.inv_freq);
    plan.smallest_step = plan.smallest_step == 0 ? step : std::min(plan.smallest_step, step);
    plan.largest_step = std::max(plan.largest_step, step);
    if (!pair.sees_new_angles) continue;
    ++plan.pairs_with_new_angles;
    const double angle = std::min(pair.angle, circle);
    if (angle > plan.largest_unseen_angle) {
      plan.largest_unseen_angle = angle;
      plan.pair_of_largest_unseen_angle = static_cast<int>(i);
    }
  }
}

RopePlan rope_plan(std::size_t index, const ModelRope& before, const Rope& planned, double factor, std::int64_t trained,
                   std::int64_t context) {
  RopePlan plan;
  plan.rope = index;
  plan.planned = planned;
  plan.frequencies = frequencies(planned, context);
  const std::vector<double> trained_with = frequencies(unscaled(before.rope), 0).inv_freq;
  const std::vector<double>& scaled = plan.frequencies.inv_freq;
  // A larger base without a scaling is the NTK of that factor.
  const Scaling stretches = std::holds_alternative<Unscaled>(planned.scaling) ? Ntk{.factor = factor} : planned.scaling;
  const auto effects = scalings::effects_of(trained_with, scaled, stretches);
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    PairPlan& pair = plan.pairs.emplace_back();
    pair.unscaled = trained_with[i];
    pair.inv_freq = scaled[i];
    pair.stretch = effects[i].stretch;
    pair.effect = effects[i].name;
    const std::string_view effect = pair.effect;
    plan.kept += effect == "kept" ? 1 : 0;
    plan.blended += effect == "blended" ? 1 : 0;
    plan.stretched += effect == "stretched" ? 1 : 0;
    plan.still += effect == "still" ? 1 : 0;
  }
  add_angles(plan, trained, context);
  return plan;
}

// ---- one method ----

std::vector<Change> changes_between(const Situation& situation, const std::string& after) {
  const files::JsonText before(situation.request.config), now(after);
  const files::Json root = files::parse_json(after);
  const files::Json* object = &root;
  for (const std::string& key : situation.part) object = &object->at(key);
  std::vector<std::string> keys;
  for (const auto& item : situation.object()->items()) keys.push_back(item.key());
  for (const auto& item : object->items()) {
    if (!situation.object()->contains(item.key())) keys.push_back(item.key());
  }
  std::vector<Change> changes;
  for (const std::string& key : keys) {
    const files::JsonPath path = situation.path(key);
    const auto old = before.raw(path), fresh = now.raw(path);
    if (old == fresh) continue;
    const std::string part = situation.first().part;
    changes.push_back({part.empty() ? key : part + "." + key, old, fresh});
  }
  return changes;
}

class Planner {
 public:
  Planner(const Situation& situation, std::string_view method) : situation_(situation) {
    plan_.method = method;
    plan_.smallest_factor = situation.smallest_factor();
  }

  MethodPlan plan() {
    plan_.refused = reason_against(situation_, plan_.method);
    if (!plan_.refused.empty()) return plan_;
    wanted_.method = plan_.method;
    propose_ropes();
    if (!plan_.refused.empty()) return plan_;
    const Proposal& first = wanted_.ropes.at(situation_.targets.front());
    plan_.factor = first.factor;
    plan_.from = first.from;
    plan_.starting_list = first.starting_list;
    wanted_.context = plan_.method == "dynamic" ? situation_.trained : situation_.request.context;
    plan_.max_position_embeddings = wanted_.context;
    plan_.rope_theta = first.rope.base;
    if (situation_.editable() && !is_params(situation_)) {
      write();
    } else {
      plan_.rope_parameters = parameters_alone(situation_.first(), first);
      for (const auto& [i, proposal] : wanted_.ropes) add_rope(i, proposal.rope);
      if (situation_.editable()) {
        write_params();
      } else {
        plan_.llama_cpp = llama_cpp_options(situation_, first);
      }
    }
    if (plan_.refused.empty()) plan_.warnings = warnings_of(situation_, plan_);
    return plan_;
  }

 private:
  // A base or a factor may be too large for the formulas of a method.
  void propose_ropes() {
    try {
      for (const std::size_t i : situation_.targets) {
        const Proposal proposal = propose(situation_, situation_.rope(i), plan_.method);
        frequencies(proposal.rope, situation_.request.context);
        wanted_.ropes.emplace(i, proposal);
      }
    } catch (const Error& error) {
      plan_.refused = "its frequencies cannot be computed: " + without_operation(error);
    }
  }

  void add_rope(std::size_t i, const Rope& rope) {
    plan_.ropes.push_back(
        rope_plan(i, situation_.rope(i), rope, plan_.factor, situation_.trained, situation_.request.context));
  }

  void write_params() {
    plan_.file = "params.json";
    const Native made = native(situation_, wanted_);
    plan_.unsaid = made.wrong;
    if (!made.wrong.empty()) return;
    const ReadBack read = read_back(situation_, wanted_, made.config);
    plan_.unsaid = read.wrong;
    if (!read.wrong.empty()) return;
    plan_.config = made.config;
    plan_.changes = changes_between(situation_, plan_.config);
  }

  // Both forms are made and read back; the file's own is the one that is kept, where it can say what is planned.
  void write() {
    const Written parameters = written(situation_, wanted_, Form::rope_parameters);
    const Written scaling = written(situation_, wanted_, Form::rope_scaling);
    const ReadBack read_parameters = read_back(situation_, wanted_, parameters.config);
    const ReadBack read_scaling = read_back(situation_, wanted_, scaling.config);
    if (read_parameters.wrong.empty()) plan_.rope_parameters = parameters.object;
    if (read_scaling.wrong.empty()) plan_.rope_scaling = scaling.object;
    const bool old = own_form(situation_) == Form::rope_scaling;
    const bool use_old = read_scaling.wrong.empty() && (old || !read_parameters.wrong.empty());
    if (!use_old && !read_parameters.wrong.empty()) {
      const std::string type(situation_.family == nullptr ? "this model" : situation_.family->type);
      plan_.refused = "the config of " + type + " cannot say it: " + (old ? read_scaling.wrong : read_parameters.wrong);
      return;
    }
    const ReadBack& read = use_old ? read_scaling : read_parameters;
    plan_.file = "config.json";
    plan_.config = use_old ? scaling.config : parameters.config;
    plan_.changes = changes_between(situation_, plan_.config);
    for (const std::size_t i : situation_.targets) add_rope(i, extended_rope(read.model, situation_.rope(i))->rope);
  }

  const Situation& situation_;
  Wanted wanted_;
  MethodPlan plan_;
};

// ---- all of them ----

std::optional<Publication> publication_of(const Situation& situation) {
  const Published* known = situation.published;
  if (known == nullptr) return std::nullopt;
  const Scaling& scaling = known->scaling;
  const auto* factor = scalings::value_of<double>(scaling, "factor");
  return Publication{.publisher = std::string(known->publisher),
                     .models = std::string(known->models),
                     .method = method_of(scaling),
                     .factor = factor == nullptr ? 1 : *factor,
                     .trained_length = known->trained_length,
                     .context = situation.is_published_exactly() ? situation.request.context : known->context,
                     .source = std::string(known->source),
                     .applies = situation.is_published_exactly()};
}

// The first that can be used, in the order of what is recommended otherwise.
void recommend_what_works(const Situation& situation, Plan& plan) {
  const Recommendation best = recommend(situation);
  const auto works = [&](std::string_view method) {
    return std::any_of(plan.methods.begin(), plan.methods.end(),
                       [&](const MethodPlan& one) { return one.method == method && one.refused.empty(); });
  };
  // Lists that were trained are the model's own, whatever a framework makes of them; a start is not.
  const bool trained_lists = situation.is_published_context() || situation.is_own_context();
  const bool in_vain = best.method == "longrope" && turns_by_short_factor_only(situation) && !trained_lists;
  if (works(best.method) && !in_vain) {
    plan.recommended = best.method;
    plan.why = best.why;
    return;
  }
  for (const std::string_view method : {"yarn", "longrope", "ntk", "linear", "llama3", "dynamic"}) {
    if (!works(method) || method == best.method) continue;
    plan.recommended = method;
    plan.why = in_vain ? "longrope, " + best.why + ", changes nothing for long texts in transformers, which turns " +
                             std::string(situation.family->type) +
                             " by short_factor at every length; for a framework that reads long_factor, take longrope"
                       : best.method + " cannot be used here";
    return;
  }
}

void check_request(const Request& request) {
  const auto& factor = request.factor;
  if (factor && !(*factor >= 1 && *factor <= 1e15)) {
    fail(Code::VALUE, "extend", "--factor must be from 1 to 1e15 but got " + detail::spelled(*factor));
  }
  const bool known = std::find(all_methods.begin(), all_methods.end(), request.method) != all_methods.end();
  if (!request.method.empty() && !known) {
    fail(Code::VALUE, "extend",
         "a method must be linear, ntk, dynamic, yarn, llama3 or longrope but got " + request.method);
  }
}

}  // namespace

std::span<const std::string_view> methods() noexcept { return all_methods; }

Plan plan(const Request& request) {
  check_request(request);
  const Situation situation = situation_of(request);
  Plan plan;
  plan.name = request.name;
  plan.model = request.model;
  plan.context = request.context;
  plan.trained_length = situation.trained;
  plan.trained_length_from = situation.trained_from;
  plan.smallest_factor = situation.smallest_factor();
  plan.published = publication_of(situation);
  plan.extended = situation.targets;
  plan.left = situation.left;
  plan.warnings = situation.warnings;
  for (const std::string& warning : warnings_of_all(situation)) plan.warnings.push_back(warning);
  // All of them, whichever is asked for: what is recommended depends on what can be used.
  for (const std::string_view method : all_methods) plan.methods.push_back(Planner(situation, method).plan());
  recommend_what_works(situation, plan);
  if (request.method.empty() && !plan.recommended.empty()) return plan;
  std::erase_if(plan.methods,
                [&](const MethodPlan& one) { return !request.method.empty() && one.method != request.method; });
  const MethodPlan& first = plan.methods.front();
  if (!first.refused.empty()) {
    fail(Code::ROPE, "extend", first.method + " must be a method that this model can use but is not: " + first.refused);
  }
  return plan;
}

}  // namespace rotary::extend
