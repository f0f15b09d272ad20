// The note that rotary extend --write puts beside the new config.json.
#include <algorithm>

#include "apps/shared/text.h"
#include "page.h"

namespace rotary::cli {

namespace {

std::string code(const std::string& text) { return "`" + text + "`"; }

}  // namespace

std::string note_text(const ExtendAsked& asked, const Model& model, const extend::Plan& plan,
                      const extend::MethodPlan& method) {
  std::string text = "# A longer context, planned by rotary extend\n\n";
  text += "From " + code(asked.config) + (model.model_type.empty() ? "" : " (model_type " + model.model_type + ")") +
          ", trained on " + std::to_string(plan.trained_length) + " tokens (" + plan.trained_length_from + "), to " +
          std::to_string(plan.context) + " tokens.\n\n";
  text += "    " + asked.command + "\n\n";
  text += "Method " + method.method + ", factor " + shortest(method.factor) + " (" + method.from + ").\n";
  if (method.method == plan.recommended) text += "It is the recommended one: " + plan.why + ".\n";
  if (plan.published) text += "Published by " + text_of(*plan.published) + ".\n";
  text += "\n## What changed in " + method.file + "\n\n";
  for (const extend::Change& change : method.changes) {
    text += "- " + code(change.key) + ": " + (change.before ? code(short_value(*change.before)) : "not there") +
            " became " + (change.after ? code(short_value(*change.after)) : "nothing") + "\n";
  }
  if (method.changes.empty()) text += "Nothing: the file says it already.\n";
  text +=
      "\nEverything else is as it was. The weights are the same: no training is part of this.\n\n## What it does\n\n";
  for (const extend::RopePlan& rope : method.ropes) {
    text += "- rope " + std::to_string(rope.rope) + ": of its pairs " + std::to_string(rope.kept) + " kept, " +
            std::to_string(rope.blended) + " blended, " + std::to_string(rope.stretched) +
            " stretched; attention factor " + significant(rope.frequencies.attention_factor, 10) + "; ";
    text += rope.pairs_with_new_angles == 0
                ? "no angle that training never saw\n"
                : "angles beyond those of training for " + std::to_string(rope.pairs_with_new_angles) +
                      " of them, to " + significant(rope.largest_unseen_angle, 6) + " radians\n";
  }
  std::vector<std::string> warnings = plan.warnings;
  warnings.insert(warnings.end(), method.warnings.begin(), method.warnings.end());
  if (!warnings.empty()) text += "\n## Warnings\n\n";
  for (const std::string& warning : warnings) text += "- " + warning + ".\n";
  return text;
}

}  // namespace rotary::cli
