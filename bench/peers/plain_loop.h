// The loop that anyone would write, as the measure of what the compiler does alone: -O3 -march=native, its own
// contraction, the caller's thread or OpenMP's.
#pragma once

#include <cstdint>

namespace peers {

// One tensor of [tokens, heads, head_dim], or by_head of [heads, tokens, head_dim]; every element turns. cos and sin:
// [tokens, head_dim / 2]. in == out: in place.
struct PlainJob {
  const void* in;
  void* out;
  const float* cos;
  const float* sin;
  std::int64_t tokens;
  std::int64_t heads;
  std::int64_t head_dim;
  bool interleaved;
  int threads;
  bool by_head = false;
};

enum class Storage : std::uint8_t { f32, f16, bf16 };  // the order of rotary::DType

// False: the compiler has no type for this storage (f16 before clang 15).
bool plain_rotate(Storage storage, const PlainJob& job);

}  // namespace peers
