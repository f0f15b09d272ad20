// A simple loop: the measure of what the compiler does alone.
#pragma once

#include <cstdint>
#include <string_view>

#include "rotary/heads.h"

namespace rotary::cli::bench {

// One tensor [tokens, heads, head_dim], every element of which rotates. cos and sin are [tokens, head_dim / 2].
// in == out rotates in place.
struct PlainJob {
  const void* in;
  void* out;
  const float* cos;
  const float* sin;
  std::int64_t heads;
  std::int64_t head_dim;
  bool interleaved;
};

// Rotates tokens [begin, end) with the instructions of the target, a name of chosen_target(); for any other name, with
// those that this file is compiled for. Returns false if the compiler has no type for f16 (clang before 15).
bool rotate_plainly(std::string_view target, DType, const PlainJob&, std::int64_t begin, std::int64_t end);

}  // namespace rotary::cli::bench
