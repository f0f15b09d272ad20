// Whether this build of the library computes the bits that it promises.
#pragma once

#include "rotary/error.h"
#include "rotary/export.h"

namespace rotary {

// Computes frequencies, and with every target that this machine runs tables and rotations, and compares hashes of their
// bits with those that every build has. Takes some milliseconds. Call it once where a build is not this project's own:
// compiler and linker flags can change floating-point arithmetic in silence. Changes nothing and does not touch the
// chosen target; several threads may call it at a time.
// Throws CHECK, with what differs and what to do.
ROTARY_API void self_test();

}  // namespace rotary
