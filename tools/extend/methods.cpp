// The rope that each method makes, its warnings, and the plan with the method that is recommended.
#include <algorithm>

#include "steps.h"
#include "values/effects.h"

namespace rotary::extend {
namespace {

constexpr std::string_view names[] = {"linear", "yarn", "llama3", "longrope", "default"};

// Static NTK (Hunyuan's alpha) is the trained base, and p-RoPE determines the pairs that rotate: no method replaces
// them.
bool is_trained_so(const Scaling& scaling) {
  return std::holds_alternative<Ntk>(scaling) || std::holds_alternative<Proportional>(scaling);
}

Rope unscaled(Rope rope) {
  if (!is_trained_so(rope.scaling)) rope.scaling = Unscaled{};
  return rope;
}

// The parameters beside factor and length: those of the file, the published ones, or the method's defaults.
struct Pattern {
  Scaling scaling;        // the requested kind
  std::string from = {};  // their source; "": the method's defaults
  bool fits = false;      // made for this context, so that its factor is right
};

// Whether the file's scaling, which has a factor, is for the wanted context.
bool is_for_context(const Situation& situation) {
  const std::int64_t context = situation.request.context;
  return situation.stated_context() == context ||
         reached(situation.trained(), *factor_of(situation.scaling())) == context;
}

// LongRoPE's lists are found by a search on the weights: lists in the file precede published ones.
bool has_own_lists(const Situation& situation) {
  return std::holds_alternative<LongRope>(situation.scaling()) && is_for_context(situation);
}

Pattern pattern_of(const Situation& situation, std::string_view method) {
  Pattern pattern{parse_scaling(method)};
  const Recipe* known = situation.published;
  const auto is_of_the_kind = [&](const Scaling& scaling) { return scaling.index() == pattern.scaling.index(); };
  const bool has_published = known != nullptr && is_of_the_kind(known->scaling);
  const bool is_made_for = has_published && situation.is_published_context();
  if (situation.is_scaled() && is_of_the_kind(situation.scaling())) {
    const std::int64_t* length = length_of(situation.scaling());
    const bool is_same = is_made_for && situation.is_published_scaling();
    if (!is_made_for || is_same || has_own_lists(situation)) {
      return {situation.scaling(), "the file's own scaling",
              is_same || (is_for_context(situation) && (length == nullptr || *length == situation.trained()))};
    }
  }
  // MLA rotates the last part of its heads, and its families have YaRN's temperature in the softmax scale.
  Yarn* yarn = std::get_if<Yarn>(&pattern.scaling);
  if (yarn != nullptr && situation.first().first > 0) yarn->mscale = yarn->mscale_all_dim = 1;
  if (!has_published) return pattern;
  // If other models have such a file, the factor must be requested.
  const bool is_taken = situation.are_published_weights() || known->says.other_weights.empty() ||
                        situation.request.factor == known->says.factor;
  return {known->scaling, known->says.source, is_made_for && is_taken};
}

// The pattern with the factor and the length of this plan: the user's factor, the factor of a pattern for this context,
// or the ratio of the lengths.
Scaling scaling_of(const Situation& situation, MethodPlan& plan) {
  const Pattern pattern = pattern_of(situation, plan.method);
  const double* known = factor_of(pattern.scaling);
  plan.factor =
      situation.request.factor.value_or(pattern.fits && known != nullptr ? *known : situation.smallest_factor());
  const std::string rest = pattern.from.empty() ? "" : ", the rest as in " + pattern.from;
  plan.from = situation.request.factor ? "--factor" : pattern.fits ? pattern.from : "context / trained_length" + rest;
  Scaling scaling = pattern.scaling;
  std::visit(
      [&]([[maybe_unused]] auto& held) {
        if constexpr (requires { held.factor = 1.0; }) held.factor = plan.factor;
        if constexpr (requires { held.trained_length; }) held.trained_length = situation.trained();
      },
      scaling);
  Yarn* yarn = std::get_if<Yarn>(&scaling);
  if (yarn != nullptr && yarn->factor != *known) yarn->attention_factor.reset();
  return scaling;
}

// Why the method cannot be used on these ropes; "" if it can.
std::string reason_against(const Situation& situation, std::string_view method) {
  if (method == "default") return "";
  if (situation.is_within()) return "the model reads such texts without another scaling";
  if (situation.family != nullptr) {
    for (const files::Unusable& known : situation.family->unusable)
      if (std::ranges::find(known.methods, method) != known.methods.end()) return std::string(known.why);
  }
  if (is_trained_so(situation.scaling()))
    return std::string("the file's ") + name(situation.scaling()) + " is part of the training and stays";
  if (method != "longrope") return "";
  // LongRoPE's lists come from a search on the model itself: use those of the file or publisher, for this context only.
  const Pattern pattern = pattern_of(situation, method);
  const LongRope& lists = std::get<LongRope>(pattern.scaling);
  if (pattern.from.empty()) return "no lists are published for this model, and only a search on the model finds them";
  const bool is_right = pattern.fits && situation.request.factor.value_or(lists.factor) == lists.factor &&
                        static_cast<int>(lists.long_factor.size()) == situation.first().rope.rotary_dim / 2;
  return is_right ? "" : "the known lists are for another context or factor";
}

Sentences warnings_of(const Situation& situation, const MethodPlan& plan) {
  Sentences warnings;
  const double smallest = situation.smallest_factor();
  if (plan.method != "default" && plan.factor < smallest) {
    const Recipe* known = situation.is_published_context() ? situation.published : nullptr;
    const bool published = known != nullptr && plan.method == known->says.method && plan.factor == known->says.factor;
    warnings.push_back(sentence_of("factor ", spelled(plan.factor), " reaches ",
                                   reached(situation.trained(), plan.factor), " tokens (factor * trained_length), not ",
                                   situation.request.context, ": the smallest factor that does is ", spelled(smallest),
                                   published ? "; this one is what " + known->says.publisher + " published" : ""));
  }
  const Json& faults = published().at("faults");
  if (faults.contains(plan.method)) warnings.push_back(faults.at(plan.method));
  return warnings;
}

// Sets the planned ropes, their factor and its source; or the reason why the method is refused.
void propose(const Situation& situation, MethodPlan& plan) {
  plan.refused = reason_against(situation, plan.method);
  if (!plan.refused.empty()) return;
  for (const std::size_t i : situation.targets) {
    Rope rope = situation.ropes()[i].rope;
    if (plan.method != "default" || situation.is_scaled()) rope = unscaled(rope);
    if (plan.method != "default") rope.scaling = scaling_of(situation, plan);
    plan.ropes.push_back({.rope = i, .planned = rope});
  }
  if (plan.method == "default") plan.from = "no scaling";
}

MethodPlan plan_by(const Situation& situation, std::string_view method) {
  MethodPlan plan{.method = std::string(method)};
  const std::int64_t context = situation.request.context;
  plan.max_position_embeddings = method == "default" ? std::max(context, situation.stated_context()) : context;
  propose(situation, plan);
  if (plan.refused.empty()) write_config(situation, plan);
  if (!plan.refused.empty()) return plan;
  for (RopePlan& rope : plan.ropes) {
    rope.frequencies = frequencies(rope.planned, context);
    rope.trained = frequencies(unscaled(situation.ropes()[rope.rope].rope), 0).inv_freq;
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

// Sets the recommended method and the reason, and `otherwise` if other weights have the same config.
void choose(const Situation& situation, Plan& plan) {
  const auto take = [&](std::string_view method, const std::string& why) {
    plan.recommended = method;
    plan.why = why;
  };
  const Recipe* known = situation.published;
  const std::string paper = "does best without training in the measurements of its paper, and most frameworks read it";
  if (known != nullptr && known->row.contains("instead") && situation.is_published_length() &&
      situation.request.context <= known->says.context)
    return take(known->row.value("elsewhere", false) ? "" : "default", known->row.at("instead"));
  if (situation.is_within()) {
    return take("default", sentence_of("the weights take ", situation.trained(), " tokens (",
                                       situation.start.trained_length_from, "), more than the config states"));
  }
  if (known != nullptr && known->says.method != "default" && situation.is_published_length()) {
    const Publication& says = known->says;
    const char* elsewhere =
        says.method == "linear" ? ", but at another length, which needs fine-tuning" : ", at another length";
    const std::string publishes = "as " + says.publisher + " publishes it for " + says.models +
                                  (situation.is_published_context() ? "" : elsewhere);
    if (situation.are_published_weights()) return take(says.method, publishes);
    if (says.other_weights.empty()) return take(says.method, publishes + ", if these are its weights");
    if (!has_own_lists(situation))
      plan.otherwise = "if these are the weights of " + says.models + ": --scaling " + says.method +
                       (situation.is_published_context() ? " --factor " + spelled(says.factor) : "") + " (" +
                       says.source + ")";
    if (!situation.is_scaled()) return take("yarn", "for the weights of " + says.other_weights + ": " + paper);
  }
  const std::string own = name(situation.scaling());
  if (situation.is_scaled() && std::ranges::count(methods(), own) != 0)
    return take(own, "the method that the file has already");
  take("yarn", paper + (known == nullptr ? "; no recipe of this model's publisher is known"
                                         : sentence_of("; what ", known->says.publisher, " publishes ends at ",
                                                       known->says.context, " tokens")));
}

void check_request(const Request& request) {
  const auto& factor = request.factor;
  if (factor && !(*factor >= 1 && *factor <= 1e15))
    fail(Code::VALUE, "extend", "--factor must be from 1 to 1e15 but got ", spelled(*factor));
  if (!request.method.empty() && std::ranges::count(methods(), request.method) == 0)
    fail(Code::VALUE, "extend", "a method must be linear, yarn, llama3, longrope or default but got ", request.method);
}

}  // namespace

std::span<const std::string_view> methods() noexcept { return names; }

Plan plan(const Request& request) {
  check_request(request);
  const Situation situation = situation_of(request);
  Plan plan{.name = request.name,
            .model = request.model,
            .context = request.context,
            .start = situation.start,
            .smallest_factor = situation.smallest_factor(),
            .extended = situation.targets,
            .warnings = situation.warnings,
            .cache = cache_of(situation)};
  if (situation.published != nullptr) {
    plan.published = situation.published->says;
    plan.published->weights_known = situation.are_published_weights();
    plan.published->applies = plan.published->weights_known && situation.is_published_length() &&
                              situation.published->is_made_for(situation.request.context);
    if (plan.published->applies) plan.published->context = request.context;
  }
  // All methods, whichever is requested: the recommendation depends on which of them can be used.
  for (const std::string_view method : methods()) plan.methods.push_back(plan_by(situation, method));
  choose(situation, plan);
  const auto best = std::ranges::find(plan.methods, plan.recommended, &MethodPlan::method);
  if (!plan.recommended.empty() && (best == plan.methods.end() || !best->refused.empty())) {
    plan.why = plan.recommended + ", " + plan.why + ", but it cannot be planned here";
    plan.recommended.clear();
  }
  if (request.method.empty()) return plan;
  std::erase_if(plan.methods, [&](const MethodPlan& one) { return one.method != request.method; });
  const MethodPlan& first = plan.methods.front();
  if (!first.refused.empty())
    fail(Code::ROPE, "extend", first.method, " must be a method that this model can use but is not: ", first.refused);
  return plan;
}

}  // namespace rotary::extend
