// How position ids are made: the functions that model_positions() chooses between.
#pragma once

#include <string>
#include <string_view>

#include "files/models/families.h"
#include "files/text/json.h"
#include "rotary/positions.h"

namespace rotary::made {

// What a variant or a tower is given: the config of the model, or of its part, and what the data says of its type.
// inputs have the sizes that they say, and grids of at least 1.
struct Call {
  const files::Object& config;
  const files::PositionFacts& facts;
  const ModelInputs& inputs;
};
using Way = ModelPositions (*)(const Call&);

inline double real(std::int64_t value) { return static_cast<double>(value); }

// Of a model that makes ids of its own, by the name in data/models.json; nullptr: there is none.
Way find_variant(std::string_view name);
// Of the patches of a tower, [axes, patches].
ModelPositions tower_positions(const Call&);

// As a model counts that has only words: [batch, tokens].
ModelPositions counted(files::Counts, const ModelInputs&);

// Throws POSITION for an input that is given but not among `takes`, words of "ids mask images films seconds sounds
// publisher".
void take_only(const ModelInputs&, std::string_view takes);

// Throws "[positions] rule but got got".
[[noreturn]] void refuse(Code, const std::string& rule, const std::string& got);

}  // namespace rotary::made
