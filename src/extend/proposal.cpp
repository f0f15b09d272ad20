#include "steps.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

#include "files/models/quirks/quirk.h"
#include "values/number_text.h"
#include "values/scaling_fields.h"

namespace rotary::extend {
namespace {

using detail::spelled;

int exponent_of(const Rope& rope) { return rope.exponent_dim == 0 ? rope.rotary_dim : rope.exponent_dim; }

// Of NTK; more than one pair must turn.
double grown_base(const Rope& rope, double factor) {
  const double r = exponent_of(rope);
  return r > 2 ? rope.base * std::pow(factor, r / (r - 2)) : rope.base;
}

// The parameters beside factor and length: the file's own, the published ones, or the method's defaults.
struct Pattern {
  Scaling scaling;  // of the kind that was asked for
  bool is_own = false, is_published = false;
  bool fits = false;  // made for this very context: its factor is right
};

Pattern pattern_of(const Situation& situation, const Scaling& by_default) {
  const auto is_of_the_kind = [&](const Scaling& scaling) { return scaling.index() == by_default.index(); };
  const Scaling& own = situation.first().rope.scaling;
  const bool has_own = situation.is_scaled() && is_of_the_kind(own);
  const bool has_published = situation.published != nullptr && is_of_the_kind(situation.published->scaling);
  const bool is_made_for = has_published && situation.is_published_context();
  if (has_own && !is_made_for) return {own, true, false, situation.is_own_context()};
  if (has_published) return {situation.published->scaling, false, true, is_made_for};
  return {by_default};
}

template <class Value>
void set(Scaling& scaling, std::string_view name, const Value& value) {
  std::visit(
      [&](auto& held) {
        scalings::for_each_field(held, [&](const auto& field, auto& member) {
          if constexpr (std::is_same_v<std::decay_t<decltype(member)>, Value>) {
            if (name == field.name) member = value;
          }
        });
      },
      scaling);
}

class Proposer {
 public:
  Proposer(const Situation& situation, const ModelRope& used) : situation_(situation) {
    proposal_.rope = unscaled(used.rope);
  }

  Proposal of(std::string_view method) {
    if (method == "linear") linear();
    if (method == "ntk") ntk();
    if (method == "dynamic") scale(Dynamic{});
    if (method == "yarn") yarn(proposal_.rope.rotary_dim != 0 && situation_.first().first > 0);
    if (method == "llama3") scale(Llama3{});
    if (method == "longrope") longrope();
    return proposal_;
  }

 private:
  // The user's, that of the pattern where it was made for this context, or what the context asks for.
  double factor_of(const Pattern& pattern) {
    if (situation_.request.factor) {
      proposal_.from = "--factor";
      return *situation_.request.factor;
    }
    if (pattern.is_published) proposal_.states_betas = situation_.published->states_betas;
    const std::string whose = pattern.is_published ? situation_.published->source : "the file's own scaling";
    if (!pattern.is_published && !pattern.is_own) {
      proposal_.from = "context / trained_length";
    } else {
      proposal_.from = (pattern.fits ? "" : "context / trained_length, the rest as in ") + whose;
    }
    const double* factor = scalings::value_of<double>(pattern.scaling, "factor");
    return pattern.fits && factor != nullptr ? *factor : situation_.smallest_factor();
  }

  // By the pattern of that kind, with the factor and the length of this plan.
  void scale(const Scaling& by_default) {
    const Pattern pattern = pattern_of(situation_, by_default);
    proposal_.factor = factor_of(pattern);
    proposal_.rope.scaling = pattern.scaling;
    set(proposal_.rope.scaling, "factor", proposal_.factor);
    set(proposal_.rope.scaling, "trained_length", situation_.trained);
  }

  void linear() {
    const Scaling before = proposal_.rope.scaling;
    scale(Linear{});
    if (const auto* part = std::get_if<Proportional>(&before)) {
      proposal_.rope.scaling = Proportional{.fraction = part->fraction, .factor = proposal_.factor};
    }
  }

  // As a larger base, which every framework reads: no published rope_type means it.
  void ntk() {
    proposal_.factor = factor_of({Unscaled{}});
    proposal_.rope.base = grown_base(proposal_.rope, proposal_.factor);
  }

  // mla: the model turns the last part of its heads. Its family puts the temperature into the softmax scale.
  void yarn(bool mla) {
    const Pattern pattern = pattern_of(situation_, Yarn{});
    scale(mla ? Yarn{.mscale = 1, .mscale_all_dim = 1} : Yarn{});
    if (pattern.is_own) proposal_.states_betas = file_states_betas();
    Yarn& planned = std::get<Yarn>(proposal_.rope.scaling);
    if (planned.factor != std::get<Yarn>(pattern.scaling).factor) planned.attention_factor.reset();
  }

  bool file_states_betas() const {
    for (const char* key : {"rope_scaling", "rope_parameters"}) {
      const files::Json* object = situation_.value(key);
      if (object != nullptr && object->is_object() && object->contains("beta_fast")) return true;
    }
    return false;
  }

  void longrope() {
    const Pattern pattern = pattern_of(situation_, LongRope{});
    const std::vector<double> inv_freq = rotary::frequencies(proposal_.rope).inv_freq;
    LongRope scaling = std::get<LongRope>(pattern.scaling);
    if (pattern.fits && scaling.long_factor.size() == inv_freq.size() && !situation_.request.factor) {
      proposal_.factor = factor_of(pattern);
    } else {
      const bool needs_mscale = scaling.short_mscale.has_value();  // the family's config must have both
      scaling = {};
      proposal_.factor = situation_.request.factor.value_or(situation_.smallest_factor());
      proposal_.starting_list = true;
      proposal_.from = "a start, not a published list: YaRN's ramp as factors";
      scaling.short_factor.assign(inv_freq.size(), 1.0);
      scaling.long_factor = starting_long_factor(inv_freq, situation_.trained, proposal_.factor);
      if (needs_mscale) {
        scaling.short_mscale = scaling.long_mscale =
            std::sqrt(1 + std::log(proposal_.factor) / std::log(static_cast<double>(situation_.trained)));
      }
    }
    scaling.factor = proposal_.factor;
    scaling.trained_length = situation_.trained;
    proposal_.rope.scaling = scaling;
  }

  const Situation& situation_;
  Proposal proposal_;
};

bool holds(std::string_view list, std::string_view word) {
  const std::vector<std::string_view> words = files::words(list);
  return std::find(words.begin(), words.end(), word) != words.end();
}

double with_six_digits(double value) {
  const std::string text = detail::significant(value, 6);
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

Rope unscaled(const Rope& rope) {
  Rope plain = rope;
  if (const auto* ntk = std::get_if<Ntk>(&rope.scaling)) plain.base = grown_base(rope, ntk->factor);
  if (const auto* part = std::get_if<Proportional>(&rope.scaling)) {
    plain.scaling = Proportional{.fraction = part->fraction};
  } else {
    plain.scaling = Unscaled{};
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

std::string method_of(const Scaling& scaling) {
  if (std::holds_alternative<Proportional>(scaling)) return "linear";
  if (std::holds_alternative<NtkFixed>(scaling)) return "ntk";
  const std::string word = name(scaling);
  const auto all = methods();
  return std::find(all.begin(), all.end(), word) != all.end() ? word : "";
}

std::string reason_against(const Situation& situation, std::string_view method) {
  const files::Family* family = situation.family;
  if (family != nullptr && !family->reads_scaling && method != "ntk") {
    return "the code of " + std::string(family->type) +
           " reads no scaling from its config: only the base can change, "
           "which is ntk";
  }
  if (family != nullptr) {
    for (const files::Unusable& known : family->unusable) {
      if (holds(known.methods, method)) return std::string(known.why);
    }
  }
  for (const std::size_t i : situation.targets) {
    const Rope& rope = situation.rope(i).rope;
    if (std::holds_alternative<Proportional>(rope.scaling) && method != "linear") {
      return "the rope turns a share of its pairs by rope_type proportional, which takes a factor and no other method";
    }
    const bool grows_base = method == "ntk" || method == "dynamic";
    if (grows_base && exponent_of(rope) <= 2) return "a base can grow only where more than one pair turns";
  }
  return "";
}

Proposal propose(const Situation& situation, const ModelRope& used, std::string_view method) {
  return Proposer(situation, used).of(method);
}

bool turns_by_short_factor_only(const Situation& situation) {
  return situation.family != nullptr && situation.family->quirk->longrope != nullptr;
}

Recommendation recommend(const Situation& situation) {
  if (const Published* known = situation.published; known != nullptr && known->trained_length == situation.trained) {
    const std::string who(known->publisher);
    return {method_of(known->scaling), "what " + who + " publishes for " + std::string(known->models) +
                                           (situation.is_published_exactly() ? "" : ", at another length")};
  }
  if (situation.is_scaled()) {
    const std::string own = method_of(situation.first().rope.scaling);
    if (!own.empty()) return {own, "the method that the file has already"};
  }
  if (std::holds_alternative<Proportional>(situation.first().rope.scaling)) {
    return {"linear", "the only method that rope_type proportional takes"};
  }
  const Published* known = situation.published;
  return {"yarn", "does best without training in the measurements of its paper, and most frameworks read it; what " +
                      (known == nullptr ? "the makers of this model publish is not known"
                                        : std::string(known->publisher) + " publishes starts from " +
                                              std::to_string(known->trained_length) + " tokens")};
}

}  // namespace rotary::extend
