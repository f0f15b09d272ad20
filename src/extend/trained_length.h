// The length that a model was trained on before any scaling.
#pragma once

#include "situation.h"

namespace rotary::extend {

// That max_position_embeddings of such originals is not the trained length.
bool states_more(const Published&, std::int64_t context);
// The file's linear scaling, which says no length, is the published one.
bool is_published_linear(const Situation&);
// Sets trained and trained_from, with warnings. Throws CONFIG_MISSING, VALUE.
void set_trained_length(Situation&);

}  // namespace rotary::extend
