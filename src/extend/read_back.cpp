#include "steps.h"

#include <algorithm>

#include "files/models/quirks/quirk.h"
#include "rotary/error.h"
#include "values/number_text.h"
#include "values/scaling_fields.h"

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
  const bool own = std::holds_alternative<Yarn>(planned)       ? situation.family->quirk->yarn != nullptr
                   : std::holds_alternative<LongRope>(planned) ? situation.family->quirk->longrope != nullptr
                                                               : false;
  return own && *scalings::value_of<double>(planned, "factor") == *scalings::value_of<double>(read, "factor");
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
  if (!(rest == planned)) {
    return "the pairs that turn change: " + std::to_string(read.rotary_dim) + " of " + std::to_string(read.head_dim) +
           " elements instead of " + std::to_string(planned.rotary_dim);
  }
  return "";
}

}  // namespace

std::string without_operation(const Error& error) {
  const std::string sentence = error.what();
  const std::size_t begin = sentence.find("] ");
  return begin == std::string::npos ? sentence : sentence.substr(begin + 2);
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

ReadBack read_back(const Situation& situation, const Wanted& wanted, const std::string& config) {
  ReadBack answer;
  try {
    answer.model = parse_config(config, situation.request.options);
  } catch (const Error& error) {
    answer.wrong = "its config is refused: " + without_operation(error);
    return answer;
  }
  for (std::size_t i = 0; i < situation.request.model.ropes.size(); ++i) {
    const ModelRope& before = situation.rope(i);
    const auto planned = wanted.ropes.find(i);
    const bool splits = situation.splits(before);
    for (const int layer : before.layers) {
      const auto read = std::find_if(answer.model.ropes.begin(), answer.model.ropes.end(),
                                     [&](const ModelRope& used) { return has_layer(used, before, layer); });
      if (read == answer.model.ropes.end()) {
        answer.wrong = "layer " + std::to_string(layer) + " would have no rope";
        return answer;
      }
      const bool stays = planned == wanted.ropes.end() || (splits && only_slides(*read));
      answer.wrong = difference(situation, stays ? before.rope : planned->second.rope, read->rope);
      if (splits && situation.splits(*read)) answer.wrong = "layers that slide would be scaled too";
      if (answer.wrong.empty()) continue;
      if (planned == wanted.ropes.end())
        answer.wrong = "rope " + std::to_string(i) + ", which stays, changes: " + answer.wrong;
      return answer;
    }
  }
  return answer;
}

}  // namespace rotary::extend
