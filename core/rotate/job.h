// The plain requests that every kernel receives. Checked before they are made.
#pragma once

#include <cstdint>

#include "rotary/rotary.h"
#include "values/dtypes.h"

namespace rotary::detail {

// Rows are the (batch, token, head) combinations in the order in which the output lies in memory: row index
// (i0 * count[1] + i1) * count[2] + i2 has its block at in + sum(i_k * in_stride[k]) and its cos and sin at
// sum(i_k * table_stride[k]). Strides are in elements.
struct Job {
  const void* in = nullptr;
  void* out = nullptr;  // == in: in place (the strides are then equal too)
  const float* cos = nullptr;
  const float* sin = nullptr;
  DType dtype = DType::f32;
  bool read_interleaved = false;  // pair i is (2i, 2i + 1) of the block, else (i, i + pairs)
  bool write_interleaved = false;
  bool backward = false;        // sin negated
  bool stream = false;          // out of place: write past the caches
  int pairs = 0;                // 0: nothing turns, rest is all (the heads of v in rotate_qkv)
  int rest = 0;                 // elements behind the block to copy; 0 in place
  std::int64_t call_bytes = 0;  // read by the call that this is a part of; 0: it is the whole
  std::int64_t count[3];  // not set before they are known: a call makes a Job, and clearing it first costs it as much
                          // as checking
  std::int64_t in_stride[3];
  std::int64_t out_stride[3];
  std::int64_t table_stride[3];

  std::int64_t rows() const noexcept { return count[0] * count[1] * count[2]; }
  std::int64_t element_bytes() const noexcept { return bytes_of(dtype); }
  // Bytes that a row reads, and that it writes.
  std::int64_t row_bytes() const noexcept { return (std::int64_t{2} * pairs + rest) * element_bytes(); }
  std::int64_t bytes_read() const noexcept { return rows() * row_bytes(); }
};

// ---- heads on their way to a cache ----

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
  float scale;  // e4m3's divisor
  std::int64_t tokens, heads, head_dim;
  std::int64_t in_token, in_head;
  std::int64_t out_token, out_head;
};

}  // namespace rotary::detail
