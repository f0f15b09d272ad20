#include "page.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include "apps/rotary/inspect/effects.h"
#include "apps/rotary/inspect/summary.h"
#include "apps/shared/columns.h"
#include "apps/shared/terminal.h"
#include "apps/shared/text.h"

namespace rotary::cli {

namespace {

std::string new_angles(const extend::RopePlan& rope) {
  if (rope.pairs_with_new_angles == 0) return "none";
  return counted(static_cast<std::size_t>(rope.pairs_with_new_angles), "pair") + ", to " +
         significant(rope.largest_unseen_angle, 4);
}

Cells cells_of(const extend::MethodPlan& method) {
  if (!method.refused.empty()) return {method.method, "-"};
  const extend::RopePlan& rope = method.ropes.front();
  return {method.method,
          significant(method.factor, 6),
          std::to_string(rope.kept),
          std::to_string(rope.blended),
          std::to_string(rope.stretched),
          significant(rope.frequencies.attention_factor, 6),
          significant(rope.largest_step, 4),
          significant(rope.smallest_step, 4),
          new_angles(rope)};
}

void print_methods(const extend::Plan& plan) {
  std::vector<Cells> rows = {
      {"method", "factor", "kept", "blended", "stretched", "attention", "first step", "last step", "new angles"}};
  for (const extend::MethodPlan& method : plan.methods) rows.push_back(cells_of(method));
  const Columns aligned = Columns({{}, {true}, {true}, {true}, {true}, {true}, {true}, {true}, {}}, 2, "  ").fit(rows);
  std::cout << '\n';
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool best = i > 0 && plan.methods[i - 1].method == plan.recommended;
    std::cout << painted(aligned.line(rows[i]), best ? Colour::green : Colour::none) << '\n';
  }
  for (const extend::MethodPlan& method : plan.methods) {
    if (!method.refused.empty()) std::cout << "  " << method.method << ": " << in_locale(method.refused) << '\n';
  }
}

void print_pairs(const extend::Plan& plan, const extend::RopePlan& rope) {
  std::vector<Cells> rows = {{"pair", "wavelength", "turns trained", "wavelength", "turns", "step", "new angle"}};
  for (std::size_t i = 0; i < rope.pairs.size(); ++i) {
    const extend::PairPlan& pair = rope.pairs[i];
    const bool moves = pair.inv_freq != 0;
    rows.push_back({std::to_string(i), moves ? significant(circle / pair.unscaled, 6) : "-",
                    significant(static_cast<double>(plan.trained_length) * pair.unscaled / circle, 4),
                    moves ? significant(circle / pair.inv_freq, 6) : "-",
                    significant(static_cast<double>(plan.context) * pair.inv_freq / circle, 4),
                    significant(pair.inv_freq, 4),
                    pair.sees_new_angles ? significant(std::min(pair.angle, circle), 4) : "-"});
  }
  const Columns aligned = Columns({{true}, {true}, {true}, {true}, {true}, {true}, {true}}, 2, "  ").fit(rows);
  std::cout << "\n" << aligned.line(rows.front()) << "  scaling\n";
  for (std::size_t i = 0; i < rope.pairs.size(); ++i) {
    const extend::PairPlan& pair = rope.pairs[i];
    const bool changed = pair.inv_freq != 0 && std::string_view(pair.effect) != "kept";
    const std::string effect = pair.effect + (changed ? " x " + significant(pair.stretch, 6) : std::string());
    std::cout << aligned.line(rows[i + 1]) << "  " << painted(effect, colour_of(pair.effect)) << '\n';
  }
}

std::string rope_text(const ModelRope& used) {
  std::string text = used.part.empty() ? "" : used.part + ", ";
  text += counted(used.layers.size(), "layer") + ", ";
  text += counted(static_cast<std::size_t>(used.rope.rotary_dim / 2), "pair") + " of heads of " +
          std::to_string(used.rope.head_dim);
  return text + ", base " + significant(used.rope.base, 10);
}

void print_head(const Model& model, const extend::Plan& plan) {
  std::cout << (model.model_type.empty() ? "model_type not stated"
                                         : "model_type " + in_locale(printable(model.model_type)))
            << '\n';
  for (const std::size_t i : plan.extended) {
    std::cout << "rope " << i << "       " << rope_text(model.ropes[i]) << '\n';
  }
  std::cout << "lengths      " << plan.trained_length << " tokens trained (" << plan.trained_length_from << "), "
            << plan.context << " wanted: " << significant(plan.smallest_factor, 6) << " times as long\n";
  std::cout << "published    " << (plan.published ? in_locale(text_of(*plan.published)) : "nothing known") << '\n';
  if (!plan.recommended.empty()) {
    std::cout << "recommended  " << painted(plan.recommended, Colour::green) << ": " << in_locale(plan.why) << '\n';
  }
}

void print_config(const extend::MethodPlan& method, bool whole) {
  const auto shown = [whole](const std::string& text) { return whole ? one_line(text) : short_value(text); };
  std::cout << '\n'
            << painted(method.method, Colour::bold) << ", factor " << significant(method.factor, 10) << ", "
            << in_locale(method.from) << '\n';
  for (const extend::Change& change : method.changes) {
    std::cout << "  " << in_locale(change.key) << ": "
              << (change.before ? in_locale(short_value(*change.before)) : "(none)") << " -> "
              << (change.after ? in_locale(shown(*change.after)) : "(none)") << '\n';
  }
  if (!method.unsaid.empty()) std::cout << "  params.json cannot say it: " << in_locale(method.unsaid) << '\n';
  if (method.changes.empty() && !method.config.empty()) std::cout << "  nothing changes: the file says it already\n";
  std::cout << "  for transformers 5: \"rope_parameters\": "
            << (method.rope_parameters.empty() ? "cannot say it for this model"
                                               : in_locale(shown(method.rope_parameters)))
            << '\n';
  if (method.file.empty()) {
    std::cout << "  for llama.cpp:      " << (method.llama_cpp.empty() ? "no options say it" : method.llama_cpp)
              << '\n';
  }
  if (method.changes.empty() || method.rope_scaling.empty()) return;
  std::cout << "  for older readers:  \"rope_theta\": " << significant(method.rope_theta, 17)
            << ", \"rope_scaling\": " << in_locale(shown(method.rope_scaling)) << '\n';
}

}  // namespace

std::string text_of(const extend::Publication& published) {
  return published.publisher + ": " + published.method + ", factor " + significant(published.factor, 6) + " over " +
         std::to_string(published.trained_length) + " tokens, for " + std::to_string(published.context) + " (" +
         published.source + ")" + (published.applies ? ": this very case" : "");
}

std::string one_line(const std::string& raw) {
  std::string text;
  for (const char c : raw) {
    const bool blank = c == ' ' || c == '\n' || c == '\r' || c == '\t';
    const char before = text.empty() ? '{' : text.back();
    if (blank && (before == ' ' || before == '{' || before == '[')) continue;
    if ((c == '}' || c == ']') && before == ' ') text.pop_back();
    text += blank ? ' ' : c;
  }
  return text;
}

std::string short_value(const std::string& raw) {
  std::string text = one_line(raw);
  for (std::size_t open = text.find('['); open != std::string::npos; open = text.find('[', open + 1)) {
    const std::size_t close = text.find(']', open);
    if (close == std::string::npos) break;
    const auto commas = std::count(text.begin() + static_cast<std::ptrdiff_t>(open),
                                   text.begin() + static_cast<std::ptrdiff_t>(close), ',');
    if (commas < 8) continue;
    const std::string first = text.substr(open + 1, text.find(',', open) - open - 1);
    const std::size_t last = text.rfind(',', close);
    const std::string list =
        "[" + first + ", ..." + text.substr(last, close - last) + " (" + std::to_string(commas + 1) + " numbers)]";
    text.replace(open, close - open + 1, list);
  }
  return text;
}

void print_plan(const ExtendAsked& asked, const Model& model, const extend::Plan& plan, bool in_depth) {
  print_head(model, plan);
  print_methods(plan);
  const auto shown = std::find_if(plan.methods.begin(), plan.methods.end(), [&](const extend::MethodPlan& method) {
    return in_depth || method.method == plan.recommended;
  });
  if (shown == plan.methods.end()) return;
  if (in_depth) {
    for (const extend::RopePlan& rope : shown->ropes) print_pairs(plan, rope);
  }
  print_config(*shown, in_depth);
  std::vector<std::string> warnings = plan.warnings;
  warnings.insert(warnings.end(), shown->warnings.begin(), shown->warnings.end());
  print_sentences("warnings", warnings);
  if (!asked.written.empty()) std::cout << "\nwritten: " << in_locale(asked.written) << '\n';
}

}  // namespace rotary::cli
