// The reference implementation of rotate: scalar, slow and simple. It shares no code with the kernels.
#pragma once

#include <cstdint>

#include "rotary/rotary.h"

namespace rotary::reference {

enum class Arithmetic : std::uint8_t {
  f32,        // what rotary::rotate does: f32 arithmetic, one rounding to the storage type at the end
  each_step,  // what a framework running in the storage type does: cos, sin, each product and the sum rounded
};

// Same as rotary::rotate out of place or, if x and out are the same, in place. Throws the same errors.
ROTARY_API void rotate(const ConstHeads& x, const Heads& out, const Table&, Direction = Direction::forward,
                       Arithmetic = Arithmetic::f32);

}  // namespace rotary::reference
