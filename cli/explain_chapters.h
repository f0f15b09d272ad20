// The chapters of `rotary explain`, without their titles, in reading order.
#pragma once

#include "explain_page.h"

namespace rotary::cli {

// explain_turning.cpp
Page explain_turn();
Page explain_distance();
Page explain_pairs();
Page explain_angles();
// explain_forms.cpp
Page explain_matrix();
Page explain_complex();
Page explain_pairing();
// explain_models.cpp
Page explain_frequencies();
Page explain_partial();
Page explain_cache();
// explain_lengths.cpp
Page explain_scaling();
Page explain_precision();

}  // namespace rotary::cli
