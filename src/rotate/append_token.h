// rotate_append of one token: what decoding a single sequence asks for.
#pragma once

#include "job.h"
#include "rotary/cache.h"

namespace rotary::detail {

// Whether one_token() does it: heads of q and of k, of one type, whose bytes are too few for threads.
bool is_one_token(const Job& q, const ConstHeads& k, const RotateOptions&) noexcept;
// By q's job. All is checked.
void append_one_token(const Job& q, const ConstHeads& k, const ConstHeads& v, const Cache&, const Slots&);

}  // namespace rotary::detail
