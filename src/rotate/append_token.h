// rotate_append of one token of each sequence, as decoding asks for it.
#pragma once

#include "job.h"
#include "rotary/cache.h"

namespace rotary::detail {

// Does it, where all is checked, if q and k have one type and the call is too small to write past the caches; else
// returns false. q_job is the whole call's job of q.
bool append_token(Job& q_job, const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const ConstHeads& v,
                  const Table&, const Cache&, const Slots&, const RotateOptions&);

}  // namespace rotary::detail
