#include <algorithm>

#include "files/models/quirks/quirk.h"
#include "steps.h"
#include "values/number_text.h"

namespace rotary::extend {
namespace {

using detail::spelled;

// A tower may turn several blocks of one head: each is a rope of its own.
bool has_layer(const ModelRope& used, const ModelRope& other, int layer) {
  return used.part == other.part && used.first == other.first &&
         std::find(used.layers.begin(), used.layers.end(), layer) != used.layers.end();
}

// Equal but for what the family's own code makes of the parameters.
bool means(const Situation& situation, const Scaling& planned, const Scaling& read) {
  if (planned == read) return true;
  if (planned.index() != read.index() || situation.family == nullptr) return false;
  const files::Quirk& quirk = *situation.family->quirk;
  const bool own = (std::holds_alternative<Yarn>(planned) && quirk.yarn != nullptr) ||
                   (std::holds_alternative<LongRope>(planned) && quirk.longrope != nullptr);
  return own && *factor_of(planned) == *factor_of(read);
}

std::string difference(const Situation& situation, const Rope& planned, const Rope& read) {
  if (read.base != planned.base) {
    return "the base is read as " + spelled(read.base) + " instead of " + spelled(planned.base);
  }
  if (!means(situation, planned.scaling, read.scaling)) {
    const bool same_kind = read.scaling.index() == planned.scaling.index();
    return std::string("the scaling is read as ") + name(read.scaling) +
           (same_kind ? " of other parameters" : std::string(" instead of ") + name(planned.scaling));
  }
  Rope rest = read;
  rest.scaling = planned.scaling;
  if (rest == planned) return "";
  return "the pairs that turn change: " + std::to_string(read.rotary_dim) + " of " + std::to_string(read.head_dim) +
         " elements instead of " + std::to_string(planned.rotary_dim);
}

// How the layer's rope, which was rope i, differs from the plan.
std::string difference_of_layer(const Situation& situation, const MethodPlan& plan, std::size_t i, int layer,
                                const Model& model) {
  const ModelRope& before = situation.rope(i);
  const auto read = std::find_if(model.ropes.begin(), model.ropes.end(),
                                 [&](const ModelRope& used) { return has_layer(used, before, layer); });
  if (read == model.ropes.end()) return "layer " + std::to_string(layer) + " would have no rope";
  const bool splits = situation.splits(before);
  const Rope* planned = planned_rope(plan, i);
  const bool stays = planned == nullptr || (splits && only_slides(*read));
  const std::string found = splits && situation.splits(*read)
                                ? "layers that slide would be scaled too"
                                : difference(situation, stays ? before.rope : *planned, read->rope);
  if (found.empty() || planned != nullptr) return found;
  return "rope " + std::to_string(i) + ", which stays, changes: " + found;
}

}  // namespace

std::string without_operation(const Error& error) {
  const std::string sentence = error.what();
  const std::size_t begin = sentence.find("] ");
  return begin == std::string::npos ? sentence : sentence.substr(begin + 2);
}

const Rope* planned_rope(const MethodPlan& plan, std::size_t rope) {
  const auto found =
      std::find_if(plan.ropes.begin(), plan.ropes.end(), [&](const RopePlan& one) { return one.rope == rope; });
  return found == plan.ropes.end() ? nullptr : &found->planned;
}

const ModelRope* extended_rope(const Model& model, const ModelRope& used) {
  const ModelRope* found = nullptr;
  for (const ModelRope& read : model.ropes) {
    const bool shares =
        std::any_of(used.layers.begin(), used.layers.end(), [&](int layer) { return has_layer(read, used, layer); });
    if (shares && (found == nullptr || only_slides(*found))) found = &read;
  }
  return found;
}

void read_back(const Situation& situation, const MethodPlan& plan, Written& written) {
  try {
    written.model = parse_config(written.config, situation.request.options);
  } catch (const Error& error) {
    written.wrong = "its config is refused: " + without_operation(error);
    return;
  }
  for (std::size_t i = 0; i < situation.request.model.ropes.size(); ++i) {
    for (const int layer : situation.rope(i).layers) {
      written.wrong = difference_of_layer(situation, plan, i, layer, written.model);
      if (!written.wrong.empty()) return;
    }
  }
}

}  // namespace rotary::extend
