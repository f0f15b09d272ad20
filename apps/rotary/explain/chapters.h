// The chapters of `rotary explain`, without their titles, in reading order.
#pragma once

#include "page.h"

namespace rotary::cli {

// explain/turning.cpp
Page explain_turn();
Page explain_distance();
Page explain_pairs();
Page explain_angles();
// explain/forms.cpp
Page explain_matrix();
Page explain_complex();
Page explain_pairing();
// explain/models.cpp
Page explain_frequencies();
Page explain_partial();
Page explain_cache();
// explain/lengths.cpp
Page explain_scaling();
Page explain_precision();
// explain/axes.cpp
Page explain_axes();
// explain/latent.cpp
Page explain_latent();
// explain/growing.cpp
Page explain_growing();

}  // namespace rotary::cli
