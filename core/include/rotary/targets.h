// The instruction sets of this build, those that this machine runs, and the one in use.
#pragma once

#include <string_view>
#include <vector>

#include "rotary/export.h"

namespace rotary {

struct Target {
  std::string_view name;  // "scalar", "portable", "sse2", "avx2", "avx512", "avx512bf16", "neon"
  bool runs;              // this machine has it
};

// In rising order of preference.
ROTARY_API std::vector<Target> targets();
// The target in use: the best that runs, unless ROTARY_TARGET or use_target names another. Throws TARGET if
// ROTARY_TARGET names one that does not run.
ROTARY_API std::string_view chosen_target();
// Sets the target of the whole process; "" restores the best. Throws TARGET for a name that is unknown or does not run.
ROTARY_API void use_target(std::string_view name);

}  // namespace rotary
