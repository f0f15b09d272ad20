// Ropes of which the ways make tables.
#pragma once

#include <utility>
#include <vector>

#include "accuracy/ways.h"
#include "rotary/rotary.h"

namespace rotary::accuracy {

inline Subject subject_of(const Rope& rope) { return {rope, frequencies(rope)}; }

inline Rope half_rope(int head_dim, double base, Scaling scaling = Unscaled{}) {
  Rope rope;
  rope.head_dim = head_dim;
  rope.base = base;
  rope.pairing = Pairing::half;
  rope.scaling = std::move(scaling);
  return rope;
}

inline Subject plain(int head_dim = 128, double base = 10000) { return subject_of(half_rope(head_dim, base)); }

}  // namespace rotary::accuracy
