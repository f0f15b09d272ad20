// The oracle: the same verbs, scalar, slow and obvious. It shares no code with the kernels.
#pragma once

#include <cstdint>

#include "rotary/rotary.h"

namespace rotary {

enum class Rounding : std::uint8_t {
  once,       // what rotate does: f32 arithmetic, one rounding to the storage type at the end
  each_step,  // what a framework running in the storage type does: cos, sin, each product and the sum rounded
};

namespace reference {

void rotate(const ConstHeads& x, const Heads& out, const Table&, Rounding = Rounding::once);
void rotate_backward(const ConstHeads& x, const Heads& out, const Table&, Rounding = Rounding::once);

}  // namespace reference
}  // namespace rotary
