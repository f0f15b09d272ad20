// The instruction sets that this library was built with, which of them this machine runs, and which is used.
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
// The one in use: the best that runs, unless ROTARY_TARGET or use_target named another. Throws TARGET if
// ROTARY_TARGET names one that does not run.
ROTARY_API std::string_view chosen_target();
// Sets it for the whole process; "" restores the best. Throws TARGET for an unknown name or one that does not run.
ROTARY_API void use_target(std::string_view name);

}  // namespace rotary
