#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numbers>

#include "steps.h"
#include "values/number_text.h"

namespace rotary::extend {
namespace {

using detail::spelled;

int exponent_of(const Rope& rope) { return rope.exponent_dim == 0 ? rope.rotary_dim : rope.exponent_dim; }

// Of NTK; more than one pair must turn.
double grown_base(const Rope& rope, double factor) {
  const double r = exponent_of(rope);
  return r > 2 ? rope.base * std::pow(factor, r / (r - 2)) : rope.base;
}

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

// The user's factor, that of the pattern where it was made for this context, or what the context asks for.
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

// By the pattern of that kind, with the factor and the length of this plan. Returns the pattern.
Pattern scale(const Situation& situation, const Scaling& by_default, MethodPlan& plan, Rope& rope) {
  const Pattern pattern = pattern_of(situation, by_default);
  set_factor(situation, pattern, plan);
  rope.scaling = pattern.scaling;
  std::visit(
      [&]([[maybe_unused]] auto& held) {
        if constexpr (requires { held.factor = 1.0; }) held.factor = plan.factor;
        if constexpr (requires { held.trained_length; }) held.trained_length = situation.trained;
      },
      rope.scaling);
  return pattern;
}

void scale_linear(const Situation& situation, MethodPlan& plan, Rope& rope) {
  const Scaling before = rope.scaling;
  scale(situation, Linear{}, plan, rope);
  if (const auto* part = std::get_if<Proportional>(&before))
    rope.scaling = Proportional{.fraction = part->fraction, .factor = plan.factor};
}

// As a larger base, which every framework reads: no published rope_type means it.
void grow_base(const Situation& situation, MethodPlan& plan, Rope& rope) {
  set_factor(situation, {Unscaled{}}, plan);
  rope.base = grown_base(rope, plan.factor);
}

void leave(const Situation&, MethodPlan& plan, Rope&) { plan.from = "no scaling"; }

template <class Kind>
void scale_as(const Situation& situation, MethodPlan& plan, Rope& rope) {
  scale(situation, Kind{}, plan, rope);
}

void scale_yarn(const Situation& situation, MethodPlan& plan, Rope& rope) {
  // An MLA turns the last part of its heads. Its family puts the temperature into the softmax scale.
  const bool mla = rope.rotary_dim != 0 && situation.first().first > 0;
  const Pattern pattern = scale(situation, mla ? Yarn{.mscale = 1, .mscale_all_dim = 1} : Yarn{}, plan, rope);
  Yarn& planned = std::get<Yarn>(rope.scaling);
  if (planned.factor != *factor_of(pattern.scaling)) planned.attention_factor.reset();
}

void scale_by_lists(const Situation& situation, MethodPlan& plan, Rope& rope) {
  const Pattern pattern = pattern_of(situation, LongRope{});
  const std::vector<double> inv_freq = rotary::frequencies(rope).inv_freq;
  LongRope scaling = std::get<LongRope>(pattern.scaling);
  set_factor(situation, pattern, plan);
  const bool other = situation.request.factor.value_or(scaling.factor) != scaling.factor;
  if (!pattern.fits || scaling.long_factor.size() != inv_freq.size() || other) {
    const bool needs_mscale = scaling.short_mscale.has_value();  // the family's config must have both
    scaling = {};
    plan.factor = situation.request.factor.value_or(situation.smallest_factor());
    plan.starting_list = true;
    plan.from = "a start, not a published list: YaRN's ramp as factors";
    scaling.short_factor.assign(inv_freq.size(), 1.0);
    scaling.long_factor = starting_long_factor(inv_freq, situation.trained, plan.factor);
    if (needs_mscale) {
      scaling.short_mscale = scaling.long_mscale =
          std::sqrt(1 + std::log(plan.factor) / std::log(static_cast<double>(situation.trained)));
    }
  }
  scaling.factor = plan.factor;
  scaling.trained_length = situation.trained;
  rope.scaling = scaling;
}

double with_six_digits(double value) {
  const std::string text = detail::significant(value, 6);
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// ---- refusals ----

// Why the method cannot be used on these ropes; "" where it can.
std::string reason_against(const Situation& situation, std::string_view method) {
  if (method == "default") return "";
  if (situation.is_within()) return "the weights take such texts without another scaling";
  if (const files::Family* family = situation.family) {
    if (!family->reads_scaling && method != "ntk") {
      return "the code of " + situation.family_type() +
             " reads no scaling from its config: only the base can change, which is ntk";
    }
    for (const files::Unusable& known : family->unusable) {
      if (files::is_listed(method, known.methods)) return std::string(known.why);
    }
  }
  const bool grows_base = method == "ntk" || method == "dynamic";
  for (const std::size_t i : situation.targets) {
    const Rope& rope = situation.rope(i).rope;
    if (std::holds_alternative<Proportional>(rope.scaling) && method != "linear") {
      return "the rope turns a share of its pairs by rope_type proportional, which takes a factor and no other method";
    }
    if (grows_base && exponent_of(rope) <= 2) return "a base can grow only where more than one pair turns";
  }
  return "";
}

// ---- warnings ----

using Sentences = std::vector<std::string>;

std::string text(std::int64_t tokens) { return std::to_string(tokens); }

void warn_of_the_factor(const Situation& situation, const MethodPlan& plan, Sentences& warnings) {
  if (plan.method == "dynamic" || plan.method == "default" || plan.factor >= plan.smallest_factor) return;
  std::string published;
  if (situation.is_published_context()) {
    const Recipe& known = *situation.published;
    const bool same = plan.method == known.says.method && factor_of(known.scaling) != nullptr;
    if (same && plan.factor == known.says.factor) {
      published = "; this one is what " + known.says.publisher + " published, " + known.why_less;
    }
  }
  warnings.push_back("factor " + spelled(plan.factor) + " reaches " + text(reached(situation.trained, plan.factor)) +
                     " tokens (factor * trained_length), not " + text(situation.request.context) +
                     ": the smallest factor that does is " + spelled(plan.smallest_factor) + published);
}

void warn_of_new_angles(const MethodPlan& plan, Sentences& warnings) {
  const int pairs = plan.ropes.front().pairs_with_new_angles;
  if (pairs == 0) return;
  warnings.push_back(std::to_string(pairs) + (pairs == 1 ? " pair goes" : " pairs go") +
                     " beyond the angles of training" +
                     (plan.method == "default" ? ""
                                               : ": ntk stretches the slowest pair alone by the whole factor, and "
                                                 "reaches less than context tokens in practice"));
}

void warn_of_dynamic(const Situation& situation, const MethodPlan& plan, Sentences& warnings) {
  const double ratio = static_cast<double>(situation.request.context) / static_cast<double>(situation.trained);
  const double alpha = plan.factor * ratio - (plan.factor - 1);
  warnings.insert(
      warnings.end(),
      {"dynamic changes the frequencies with the length at run time: keys in a cache keep the angles of the length at "
       "which they were written, and are inconsistent with later ones",
       "max_position_embeddings stays " + text(situation.trained) +
           ": transformers takes it for the trained length. Frameworks that stop there must be told the context; vLLM "
           "fixes the base once, from max_position_embeddings",
       "at " + text(situation.request.context) + " tokens the slowest pair is stretched by " +
           detail::significant(alpha, 6) + " = factor * length / trained_length - (factor - 1)"});
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
  if (plan.file == "config.json" && plan.max_position_embeddings != situation.first().context) {
    warnings.push_back("max_position_embeddings becomes " + text(plan.max_position_embeddings) +
                       ": old versions of transformers (4.43) took YaRN's trained length from it; there it must stay " +
                       text(situation.trained));
  }
}

void warn_of_longrope(const Situation& situation, const MethodPlan& plan, Sentences& warnings) {
  if (plan.starting_list) {
    warnings.emplace_back(
        "long_factor is a start for a search or for fine-tuning, not a published list: LongRoPE's lists come from a "
        "search on the model itself");
  }
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

// ---- the methods ----

struct Method {
  std::string_view name;
  // Scales a rope as the model was trained; sets the plan's factor and where it comes from.
  void (*scale)(const Situation&, MethodPlan&, Rope&);
};
constexpr Method method_rows[] = {
    {"linear", scale_linear}, {"ntk", grow_base},           {"dynamic", scale_as<Dynamic>},
    {"yarn", scale_yarn},     {"llama3", scale_as<Llama3>}, {"longrope", scale_by_lists},
    {"default", leave}};

}  // namespace

Rope unscaled(const Rope& rope) {
  Rope plain = rope;
  plain.scaling = Unscaled{};
  if (const auto* ntk = std::get_if<Ntk>(&rope.scaling)) plain.base = grown_base(rope, ntk->factor);
  if (const auto* part = std::get_if<Proportional>(&rope.scaling)) {
    plain.scaling = Proportional{.fraction = part->fraction};
  }
  return plain;
}

std::vector<double> starting_long_factor(const std::vector<double>& inv_freq, std::int64_t trained, double factor) {
  std::vector<double> list;
  for (const double w : inv_freq) {
    const double turns = static_cast<double>(trained) * w / (2 * std::numbers::pi);
    const double ramp = turns > 0 ? std::clamp(1 - std::log(turns) / std::log(32.0), 0.0, 1.0) : 0.0;
    const double whole = 1 / (1 - ramp + ramp / factor);
    // Six digits, so that the list can be read; a pair that is stretched by the whole factor keeps it.
    list.push_back(ramp == 1 ? factor : std::min(factor, with_six_digits(whole)));
  }
  return list;
}

std::span<const std::string_view> methods() noexcept {
  static constexpr auto names = [] {
    std::array<std::string_view, std::size(method_rows)> all;
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = method_rows[i].name;
    return all;
  }();
  return names;
}

std::string method_of(const Scaling& scaling) {
  if (std::holds_alternative<Proportional>(scaling)) return "linear";
  if (std::holds_alternative<NtkFixed>(scaling)) return "ntk";
  const std::string word = name(scaling);
  const auto all = methods();
  return std::find(all.begin(), all.end(), word) != all.end() ? word : "";
}

bool states_betas(const Situation& situation) {
  const Pattern pattern = pattern_of(situation, Yarn{});
  if (pattern.is_published) return situation.published->states_betas && !situation.request.factor;
  return pattern.is_own && std::any_of(std::begin(form_keys), std::end(form_keys), [&](const char* key) {
           const files::Json* object = situation.dict(key);
           return object != nullptr && object->contains("beta_fast");
         });
}

void propose(const Situation& situation, MethodPlan& plan) {
  plan.refused = reason_against(situation, plan.method);
  if (!plan.refused.empty()) return;
  try {
    for (const std::size_t i : situation.targets) {
      RopePlan& rope = plan.ropes.emplace_back();
      rope.rope = i;
      rope.planned = situation.rope(i).rope;
      if (plan.method != "default" || situation.is_scaled()) rope.planned = unscaled(rope.planned);
      for (const Method& row : method_rows)
        if (row.name == plan.method) row.scale(situation, plan, rope.planned);
      frequencies(rope.planned, situation.request.context);  // throws where they overflow
    }
    plan.rope_theta = plan.ropes.front().planned.base;
  } catch (const Error& error) {
    plan.refused = "its frequencies cannot be computed: " + without_operation(error);
    plan.ropes.clear();
  }
}

Sentences warnings_of(const Situation& situation, const MethodPlan& plan) {
  Sentences warnings;
  warn_of_the_factor(situation, plan, warnings);
  if (plan.method == "linear" && !std::holds_alternative<Proportional>(situation.scaling())) {
    warnings.emplace_back(
        "linear draws all neighbours together, by the whole factor: without fine-tuning the model loses on texts of "
        "every length");
  }
  if (plan.method == "ntk" || plan.method == "default") warn_of_new_angles(plan, warnings);
  if (plan.method == "dynamic") warn_of_dynamic(situation, plan, warnings);
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
  if (situation.first().layer_types.empty() && window > 0 && window < situation.request.context) {
    const bool published = situation.is_published_exactly() && situation.published->sliding_window != 0;
    warnings.push_back(
        "sliding_window is " + text(window) +
        ": where the code uses it, no token looks further back, whatever the rope reaches" +
        (published ? "; " + situation.published->says.source + " has " + text(situation.published->sliding_window)
                   : ""));
  }
  for (const std::size_t i : situation.targets) {
    if (!situation.splits(situation.rope(i))) continue;
    warnings.push_back("rope " + std::to_string(i) +
                       " is extended for the layers that attend to everything: those that look back over a window "
                       "keep it as it is");
  }
  for (const std::size_t i : situation.left) {
    if (situation.rope(i).part != situation.first().part) continue;
    warnings.push_back("rope " + std::to_string(i) + " stays as it is: its layers look back over a window only");
  }
}

}  // namespace rotary::extend
