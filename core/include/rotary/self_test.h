// Whether this build of the library computes the bits that it promises.
#pragma once

#include "rotary/error.h"
#include "rotary/export.h"

namespace rotary {

// Computes frequencies, and tables and rotations with every target that this machine runs, and compares hashes of their
// bits with the hashes of every correct build. Takes some milliseconds. Call it once if the build is not this project's
// own: compiler and linker flags can change floating-point arithmetic silently. It changes nothing, not even the chosen
// target, and several threads may call it at the same time.
// Throws CHECK; the sentence says what differs and what to do.
ROTARY_API void self_test();

}  // namespace rotary
