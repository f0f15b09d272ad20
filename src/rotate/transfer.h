// Heads on their way to a cache: what a kernel copies or converts. Checked before it is made.
#pragma once

#include <cstdint>

#include "rotary/heads.h"

namespace rotary::detail {

// The type of keys, or of values, in a cache: a storage type, or e4m3.
struct ElementType {
  bool f8 = false;
  DType dtype = DType::f32;  // unless f8
};

// Element (t, h, d) goes from in + t * in_token + h * in_head + d to out + t * out_token + h * out_head + d. Strides
// are in elements, of their own side. `from` is also the type written (a copy of bits), unless `to` differs.
struct Transfer {
  const void* in;
  void* out;
  DType from;
  ElementType to;
  bool stream;  // write past the caches
  float scale;  // of e4m3: the divisor
  std::int64_t tokens, heads, head_dim;
  std::int64_t in_token, in_head;
  std::int64_t out_token, out_head;
};

}  // namespace rotary::detail
