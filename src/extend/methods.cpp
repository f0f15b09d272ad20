#include <algorithm>
#include <cmath>

#include "steps.h"
#include "values/effects.h"
#include "values/number_text.h"

namespace rotary::extend {
namespace {

using detail::spelled;

constexpr std::string_view names[] = {"linear", "yarn", "llama3", "longrope", "default"};

// ---- a rope as a method makes it ----

// The parameters beside factor and length: the file's own, the published ones, or the method's defaults.
struct Pattern {
  Scaling scaling;  // of the kind that was asked for
  bool is_own = false, is_published = false;
  bool fits = false;  // made for this very context: its factor is right
};

Pattern pattern_of(const Situation& situation, const Scaling& by_default) {
  const auto is_of_the_kind = [&](const Scaling& scaling) { return scaling.index() == by_default.index(); };
  const bool has_own = situation.is_scaled() && is_of_the_kind(situation.scaling());
  const bool has_published = situation.published != nullptr && is_of_the_kind(situation.published->scaling);
  const bool is_made_for = has_published && situation.is_published_context();
  if (has_own && (!is_made_for || situation.is_published_scaling())) {  // the same in the file's own words
    return {situation.scaling(), true, false, is_made_for || situation.is_own_context()};
  }
  if (!has_published) return {by_default};
  const bool asked = situation.request.factor == situation.published->says.factor;
  return {situation.published->scaling, false, true, is_made_for && (asked || situation.may_take_published())};
}

// The scaling that a method starts from, before factor and length. MLA turns the last part of its heads, and its
// families put YaRN's temperature into the softmax scale.
Scaling default_scaling(const Situation& situation, std::string_view method) {
  if (method == "linear") return Linear{};
  if (method == "llama3") return Llama3{};
  if (method == "longrope") return LongRope{};
  return situation.first().first > 0 ? Yarn{.mscale = 1, .mscale_all_dim = 1} : Yarn{};
}

// The user's factor, that of the pattern where it was made for this context, or the ratio of the lengths.
void set_factor(const Situation& situation, const Pattern& pattern, MethodPlan& plan) {
  const double* factor = factor_of(pattern.scaling);
  const std::string by_context = "context / trained_length";
  if (situation.request.factor) {
    plan.from = "--factor";
  } else if (pattern.is_published || pattern.is_own) {
    plan.from = (pattern.fits ? "" : by_context + ", the rest as in ") +
                (pattern.is_published ? situation.published->says.source : "the file's own scaling");
  } else {
    plan.from = by_context;
  }
  const double otherwise = pattern.fits && factor != nullptr ? *factor : situation.smallest_factor();
  plan.factor = situation.request.factor.value_or(otherwise);
}

// The method's pattern with the factor and the length of this plan.
Scaling scaling_of(const Situation& situation, MethodPlan& plan) {
  const Pattern pattern = pattern_of(situation, default_scaling(situation, plan.method));
  set_factor(situation, pattern, plan);
  if (const auto* part = std::get_if<Proportional>(&situation.scaling()))
    return Proportional{.fraction = part->fraction, .factor = plan.factor};
  Scaling scaling = pattern.scaling;
  std::visit(
      [&]([[maybe_unused]] auto& held) {
        if constexpr (requires { held.factor = 1.0; }) held.factor = plan.factor;
        if constexpr (requires { held.trained_length; }) held.trained_length = situation.trained;
      },
      scaling);
  Yarn* yarn = std::get_if<Yarn>(&scaling);
  if (yarn != nullptr && yarn->factor != *factor_of(pattern.scaling)) yarn->attention_factor.reset();
  return scaling;
}

// ---- refusals ----

// LongRoPE's lists come from a search on the model itself: those of the file or of its makers, for this very context.
std::string reason_against_lists(const Situation& situation) {
  const Pattern pattern = pattern_of(situation, LongRope{});
  const LongRope& lists = std::get<LongRope>(pattern.scaling);
  const bool has_lists = pattern.is_own || pattern.is_published;
  const bool other = situation.request.factor.value_or(lists.factor) != lists.factor;
  const auto pairs = static_cast<std::size_t>(situation.first().rope.rotary_dim / 2);
  if (has_lists && pattern.fits && !other && lists.long_factor.size() == pairs) return "";
  return has_lists ? "the lists that are known were found for another context or factor"
                   : "no lists are published for it, and only a search on the model itself finds them";
}

// Why the method cannot be used on these ropes; "" where it can.
std::string reason_against(const Situation& situation, std::string_view method) {
  if (method == "default") return "";
  if (situation.is_within()) return "the weights take such texts without another scaling";
  if (situation.family != nullptr) {
    for (const files::Unusable& known : situation.family->unusable)
      if (files::is_listed(method, known.methods)) return std::string(known.why);
  }
  for (const std::size_t i : situation.targets) {
    if (std::holds_alternative<Proportional>(situation.rope(i).rope.scaling) && method != "linear")
      return "the rope turns a share of its pairs by rope_type proportional, which takes a factor and no other method";
  }
  return method == "longrope" ? reason_against_lists(situation) : "";
}

// ---- warnings ----

using Sentences = std::vector<std::string>;

std::string text(std::int64_t tokens) { return std::to_string(tokens); }

void warn_of_the_factor(const Situation& situation, const MethodPlan& plan, Sentences& warnings) {
  const double smallest = situation.smallest_factor();
  if (plan.method == "default" || plan.factor >= smallest) return;
  std::string published;
  if (situation.is_published_context()) {
    const Recipe& known = *situation.published;
    const bool same = plan.method == known.says.method && factor_of(known.scaling) != nullptr;
    if (same && plan.factor == known.says.factor)
      published = "; this one is what " + known.says.publisher + " published, " +
                  known.row.value("why_less", "with weights trained on such lengths");
  }
  warnings.push_back("factor " + spelled(plan.factor) + " reaches " + text(reached(situation.trained, plan.factor)) +
                     " tokens (factor * trained_length), not " + text(situation.request.context) +
                     ": the smallest factor that does is " + spelled(smallest) + published);
}

void warn_of_yarn(const Situation& situation, const MethodPlan& plan, Sentences& warnings) {
  warnings.emplace_back(
      "static YaRN changes short texts too: every length turns by the stretched frequencies. Use it only where texts "
      "are long");
  if (situation.published == nullptr && !situation.first().axis_names.empty()) {
    warnings.emplace_back(
        "positions have several axes: of YaRN on Qwen2.5-VL, Qwen says \"a significant impact on the performance of "
        "temporal and spatial localization tasks\"");
  }
  const Yarn& planned = std::get<Yarn>(plan.ropes.front().planned.scaling);
  if (situation.first().first > 0 && planned.mscale_all_dim.value_or(0) != 0) {
    warnings.emplace_back(
        "the temperature of YaRN is in the softmax scale of this family, (0.1 * mscale_all_dim * ln(factor) + 1)^2, "
        "where its code applies it; the attention factor is mscale against mscale_all_dim");
  }
  if (plan.max_position_embeddings != situation.stated_context()) {
    warnings.push_back("max_position_embeddings becomes " + text(plan.max_position_embeddings) +
                       ": old versions of transformers (4.43) took YaRN's trained length from it; there it must stay " +
                       text(situation.trained));
  }
}

void warn_of_longrope(const Situation& situation, const MethodPlan& plan, Sentences& warnings) {
  const LongRope& lists = std::get<LongRope>(plan.ropes.front().planned.scaling);
  if (lists.short_factor != lists.long_factor)
    warnings.push_back("longrope changes from short_factor to long_factor where a text passes " +
                       text(situation.trained) +
                       " tokens: keys in a cache keep the angles of the list in use when they were written");
  if (situation.turns_by_short_factor_only()) {
    warnings.push_back("transformers turns " + situation.family_type() +
                       " by short_factor at every length: long_factor works only where another framework reads it");
  }
}

}  // namespace

std::span<const std::string_view> methods() noexcept { return names; }

Rope unscaled(const Rope& rope) {
  Rope plain = rope;
  plain.scaling = Unscaled{};
  if (const auto* ntk = std::get_if<Ntk>(&rope.scaling)) {
    const double r = rope.exponent_dim == 0 ? rope.rotary_dim : rope.exponent_dim;
    if (r > 2) plain.base = rope.base * std::pow(ntk->factor, r / (r - 2));
  }
  if (const auto* part = std::get_if<Proportional>(&rope.scaling))
    plain.scaling = Proportional{.fraction = part->fraction};
  return plain;
}

std::string method_of(const Scaling& scaling) {
  if (std::holds_alternative<Proportional>(scaling)) return "linear";
  const std::string word = name(scaling);
  return std::find(std::begin(names), std::end(names), word) != std::end(names) ? word : "";
}

bool states_betas(const Situation& situation) {
  const Pattern pattern = pattern_of(situation, Yarn{});
  if (pattern.is_published) return situation.published->row.value("states_betas", false) && !situation.request.factor;
  const auto states = [&](const char* key) {
    const Json* object = situation.dict(key);
    return object != nullptr && object->contains("beta_fast");
  };
  return pattern.is_own && (states("rope_parameters") || states("rope_scaling"));
}

void propose(const Situation& situation, MethodPlan& plan) {
  plan.refused = reason_against(situation, plan.method);
  if (!plan.refused.empty()) return;
  for (const std::size_t i : situation.targets) {
    Rope rope = situation.rope(i).rope;
    if (plan.method != "default") {
      rope = unscaled(rope);
      rope.scaling = scaling_of(situation, plan);
    } else {
      plan.from = "no scaling";
      if (situation.is_scaled()) rope = unscaled(rope);
    }
    plan.ropes.push_back({.rope = i, .planned = rope, .frequencies = {}});
  }
  plan.rope_theta = plan.ropes.front().planned.base;
}

Sentences warnings_of(const Situation& situation, const MethodPlan& plan) {
  Sentences warnings;
  warn_of_the_factor(situation, plan, warnings);
  if (plan.method == "linear" && !std::holds_alternative<Proportional>(situation.scaling())) {
    warnings.emplace_back(
        "linear draws all neighbours together, by the whole factor: without fine-tuning the model loses on texts of "
        "every length");
  }
  if (plan.method == "yarn") warn_of_yarn(situation, plan, warnings);
  if (plan.method == "llama3") {
    warnings.emplace_back(
        "llama3 is static: short texts turn by the stretched frequencies too. Meta trained Llama 3.1 further with it; "
        "without training, YaRN keeps more");
  }
  if (plan.method == "longrope") warn_of_longrope(situation, plan, warnings);
  return warnings;
}

void warn_of_every_method(Situation& situation) {
  Sentences& warnings = situation.warnings;
  if (situation.all_slide()) {
    warnings.emplace_back(
        "only sliding layers have a rope: no two of their tokens are further apart than the window, whatever the "
        "length of the text");
  }
  const std::int64_t window = situation.window();
  if (layer_types_of(situation.request.model, situation.first()).empty() && window > 0 &&
      window < situation.request.context) {
    const bool published = situation.is_published_exactly() && situation.published->row.contains("sliding_window");
    warnings.push_back("sliding_window is " + text(window) +
                       ": where the code uses it, no token looks further back, whatever the rope reaches" +
                       (published ? "; " + situation.published->says.source + " has " +
                                        situation.published->row.at("sliding_window").dump()
                                  : ""));
  }
  for (const std::size_t i : situation.targets) {
    if (!situation.splits(situation.request.model, situation.rope(i))) continue;
    warnings.push_back("rope " + std::to_string(i) +
                       " is extended for the layers that attend to everything: those that look back over a window "
                       "keep it as it is");
  }
  for (const std::size_t i : situation.left) {
    if (situation.rope(i).part != situation.part()) continue;
    warnings.push_back("rope " + std::to_string(i) + " stays as it is: its layers look back over a window only");
  }
}

}  // namespace rotary::extend
