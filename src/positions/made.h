// How position ids are made: the functions that model_positions() chooses between.
#pragma once

#include <string>
#include <string_view>

#include "files/models/families.h"
#include "files/text/json.h"
#include "rotary/positions.h"

namespace rotary::made {

// The arguments of a variant or a tower: the config of the model or of its part, the facts of data/models.json about
// its type, and the inputs, whose sizes match and whose grids are at least 1 (checked before).
struct Call {
  const files::Object& config;
  const files::PositionFacts& facts;
  const ModelInputs& inputs;
};
using Way = ModelPositions (*)(const Call&);

inline double real(std::int64_t value) { return static_cast<double>(value); }

// Returns the variant of that name in data/models.json, or nullptr.
Way find_variant(std::string_view name);
// Positions of the patches of a tower, [axes, patches].
ModelPositions tower_positions(const Call&);

// Position ids of a model that has only words, [batch, tokens].
ModelPositions counted(files::Counts, const ModelInputs&);

// Throws POSITION for an input that is given but not among `takes`, words of "ids mask images films seconds sounds
// publisher".
void take_only(const ModelInputs&, std::string_view takes);

// Throws "[positions] rule but got got".
[[noreturn]] void refuse(Code, const std::string& rule, const std::string& got);

}  // namespace rotary::made
