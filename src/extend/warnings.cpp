#include "steps.h"

#include <algorithm>

#include "files/models/quirks/quirk.h"
#include "values/number_text.h"
#include "values/scaling_fields.h"

namespace rotary::extend {
namespace {

using detail::spelled;

std::string text(std::int64_t tokens) { return std::to_string(tokens); }

class Warnings {
 public:
  Warnings(const Situation& situation, const MethodPlan& plan) : situation_(situation), plan_(plan) {}

  std::vector<std::string> all() {
    about_the_factor();
    if (plan_.method == "linear") linear();
    if (plan_.method == "ntk") ntk();
    if (plan_.method == "dynamic") dynamic();
    if (plan_.method == "yarn") yarn();
    if (plan_.method == "llama3") llama3();
    if (plan_.method == "longrope") longrope();
    return warnings_;
  }

 private:
  void add(const std::string& sentence) { warnings_.push_back(sentence); }

  void about_the_factor() {
    if (plan_.method == "dynamic" || plan_.factor >= plan_.smallest_factor) return;
    const std::int64_t reach = reached(situation_.trained, plan_.factor);
    add("factor " + spelled(plan_.factor) + " reaches " + text(reach) + " tokens (factor * trained_length), not " +
        text(situation_.request.context) + ": the smallest factor that does is " + spelled(plan_.smallest_factor) +
        (is_published() ? "; this one is what " + std::string(situation_.published->publisher) + " published, " +
                              std::string(situation_.published->why_less)
                        : ""));
  }

  // The method and the factor are those of the published recipe, made for this length and context.
  bool is_published() const {
    if (!situation_.is_published_context()) return false;
    const Scaling& scaling = situation_.published->scaling;
    const auto* factor = scalings::value_of<double>(scaling, "factor");
    return plan_.method == method_of(scaling) && factor != nullptr && plan_.factor == *factor;
  }

  void linear() {
    if (std::holds_alternative<Proportional>(situation_.first().rope.scaling)) return;
    add("linear draws all neighbours together, by the whole factor: without fine-tuning the model loses on texts of "
        "every length");
  }

  void ntk() {
    if (plan_.ropes.empty() || plan_.ropes.front().pairs_with_new_angles == 0) return;
    const int pairs = plan_.ropes.front().pairs_with_new_angles;
    add(std::to_string(pairs) + (pairs == 1 ? " pair goes" : " pairs go") +
        " beyond the angles of training: ntk stretches the slowest pair alone by the whole factor, and reaches less "
        "than context tokens in practice");
  }

  void dynamic() {
    const double ratio = static_cast<double>(situation_.request.context) / static_cast<double>(situation_.trained);
    const double alpha = plan_.factor * ratio - (plan_.factor - 1);
    add("dynamic changes the frequencies with the length at run time: keys in a cache keep the angles of the length at "
        "which they were written, and are inconsistent with later ones");
    add("max_position_embeddings stays " + text(situation_.trained) +
        ": transformers takes it for the trained length. Frameworks that stop there must be told the context; vLLM "
        "fixes the base once, from max_position_embeddings");
    add("at " + text(situation_.request.context) + " tokens the slowest pair is stretched by " +
        detail::significant(alpha, 6) + " = factor * length / trained_length - (factor - 1)");
  }

  void yarn() {
    add("static YaRN changes short texts too: every length turns by the stretched frequencies. Use it only where texts "
        "are long");
    const Yarn& planned = std::get<Yarn>(plan_.ropes.front().planned.scaling);
    if (situation_.first().first > 0 && planned.mscale_all_dim.value_or(0) != 0) {
      add("the temperature of YaRN is in the softmax scale of this family, (0.1 * mscale_all_dim * ln(factor) + 1)^2, "
          "where its code applies it; the attention factor is mscale against mscale_all_dim");
    }
    if (plan_.file == "config.json" && plan_.max_position_embeddings != situation_.first().context) {
      add("max_position_embeddings becomes " + text(plan_.max_position_embeddings) +
          ": old versions of transformers (4.43) took YaRN's trained length from it; there it must stay " +
          text(situation_.trained));
    }
  }

  void llama3() {
    add("llama3 is static: short texts turn by the stretched frequencies too. Meta trained Llama 3.1 further with it; "
        "without training, YaRN keeps more");
  }

  void longrope() {
    const files::Family* family = situation_.family;
    if (plan_.starting_list) {
      add("long_factor is a start for a search or for fine-tuning, not a published list: LongRoPE's lists come from a "
          "search on the model itself");
    }
    add("longrope changes from short_factor to long_factor where a text passes " + text(situation_.trained) +
        " tokens: keys in a cache keep the angles of the list in use when they were written");
    if (turns_by_short_factor_only(situation_)) {
      add("transformers turns " + std::string(family->type) + " by short_factor at every length: long_factor works " +
          "only where another framework reads it");
    }
  }

  const Situation& situation_;
  const MethodPlan& plan_;
  std::vector<std::string> warnings_;
};

bool all_slide(const Situation& situation) {
  return std::all_of(situation.targets.begin(), situation.targets.end(),
                     [&](std::size_t i) { return only_slides(situation.rope(i)); });
}

std::string published_window(const Situation& situation) {
  if (!situation.is_published_exactly() || situation.published->sliding_window == 0) return "";
  return "; " + std::string(situation.published->source) + " has " + text(situation.published->sliding_window);
}

}  // namespace

std::vector<std::string> warnings_of(const Situation& situation, const MethodPlan& plan) {
  return Warnings(situation, plan).all();
}

std::vector<std::string> warnings_of_all(const Situation& situation) {
  std::vector<std::string> warnings;
  if (all_slide(situation)) {
    warnings.push_back(
        "only sliding layers have a rope: no two of their tokens are further apart than the window, whatever the "
        "length "
        "of the text");
  }
  const files::Json* window = situation.value("sliding_window");
  const files::Json* uses = situation.value("use_sliding_window");
  const bool on = uses == nullptr || (uses->is_boolean() && uses->get<bool>());
  const bool typed = !situation.first().layer_types.empty();
  if (!typed && on && window != nullptr && window->is_number_integer() &&
      window->get<std::int64_t>() < situation.request.context && window->get<std::int64_t>() > 0) {
    warnings.push_back("sliding_window is " + window->dump() +
                       ": where the code uses it, no token looks further back, whatever the rope reaches" +
                       published_window(situation));
  }
  for (const std::size_t i : situation.targets) {
    if (situation.splits(situation.rope(i))) {
      warnings.push_back(
          "rope " + text(static_cast<std::int64_t>(i)) +
          " is extended for the layers that attend to everything: those that look back over a window keep "
          "it as it is");
    }
  }
  for (const std::size_t i : situation.left) {
    if (situation.rope(i).part == situation.first().part) {
      warnings.push_back("rope " + text(static_cast<std::int64_t>(i)) +
                         " stays as it is: its layers look back over a window only");
    }
  }
  return warnings;
}

}  // namespace rotary::extend
