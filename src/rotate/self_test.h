// The part of self_test that one target's kernels do.
#pragma once

#include "cpu/targets.h"

namespace rotary::detail {

// Throws CHECK, as rotary::self_test.
ROTARY_API void self_test_of(const cpu::Kernels&);

}  // namespace rotary::detail
