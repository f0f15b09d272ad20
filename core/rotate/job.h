// The requests that kernels receive. Calls are checked before a request is made.
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
  void* out = nullptr;  // == in: in place, with equal strides
  const float* cos = nullptr;
  const float* sin = nullptr;
  DType dtype = DType::f32;
  bool read_interleaved = false;  // pair i is (2i, 2i + 1) of the block, else (i, i + pairs)
  bool write_interleaved = false;
  bool backward = false;        // sin negated
  bool stream = false;          // out of place: write past the caches
  int pairs = 0;
  int rest = 0;                 // elements after the block, to copy; 0 in place
  std::int64_t call_bytes = 0;  // bytes read by the whole call, of which this is a part; 0: this is the whole
  std::int64_t count[3];  // not set before they are known: clearing a Job first would cost a call as much as the
                          // checks
  std::int64_t in_stride[3];
  std::int64_t out_stride[3];
  std::int64_t table_stride[3];

  std::int64_t rows() const noexcept { return count[0] * count[1] * count[2]; }
  std::int64_t element_bytes() const noexcept { return bytes_of(dtype); }
  // The bytes that a row reads, which equal the bytes that it writes.
  std::int64_t row_bytes() const noexcept { return (std::int64_t{2} * pairs + rest) * element_bytes(); }
  std::int64_t bytes_read() const noexcept { return rows() * row_bytes(); }
};

// ---- copies of heads to a cache ----

// The type of keys or values in a cache: a storage type, or e4m3.
struct CachedType {
  bool f8 = false;
  DType dtype = DType::f32;  // unless f8
};

// Element (t, h, d) goes from in + t * in_token + h * in_head + d to out + t * out_token + h * out_head + d. Strides
// are in elements of their side. Elements of type `from` are written as `to`; if both are equal, bits are copied.
struct Transfer {
  const void* in;
  void* out;
  DType from;
  CachedType to;
  bool stream;  // write past the caches
  float scale;  // the divisor of e4m3
  std::int64_t tokens, heads, head_dim;
  std::int64_t in_token, in_head;
  std::int64_t out_token, out_head;
};

}  // namespace rotary::detail
