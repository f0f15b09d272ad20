// rotate_qk by a rope instead of a table, shared by rotary.h and config.h.
#pragma once

#include "rotary/rotary.h"

namespace rotary::detail {

// Elements [first, first + rotary_dim) of every head of q and k rotate, in place. Throws what rotate_qk by Rope throws.
ROTARY_API void rotate_qk_by(const char* operation, const Heads& q, const Heads& k, const Rope&, int first,
                             std::int64_t first_position, const RotateOptions&);

}  // namespace rotary::detail
