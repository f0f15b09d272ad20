// rotate_qk by a rope instead of a table: what rotary.h and config.h share.
#pragma once

#include "rotary/rotary.h"

namespace rotary::detail {

// Elements [first, first + rotary_dim) of every head of q and k rotate, in place. Throws as rotate_qk by a Rope does.
ROTARY_API void rotate_qk_by(const char* operation, const Heads& q, const Heads& k, const Rope&, int first,
                             std::int64_t first_position, const RotateOptions&);

}  // namespace rotary::detail
