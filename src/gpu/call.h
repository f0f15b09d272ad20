// From the words of gpu.h to the plain jobs of kernels.h.
#pragma once

#include "kernels.h"
#include "refuse.h"

namespace rotary::gpu {

inline TableShape shape_of(const Rotation& by) noexcept { return {by.pairing(), by.pairs(), by.batch(), by.tokens()}; }

inline PositionArrays arrays_of(const Positions& p) noexcept {
  PositionArrays arrays;
  arrays.i64 = p.i64;
  arrays.i32 = p.i32;
  arrays.f64 = p.f64;
  arrays.rows = p.batch * p.tokens;
  arrays.one_axis = p.axes == 1;
  return arrays;
}

inline Turning turning(const Rotation& by) noexcept {
  Turning result;
  result.batch_rows = by.batch() == 1 ? 0 : by.tokens();
  if (by.table != nullptr) {
    result.cos = by.table->cos();
    result.sin = by.table->sin();
  } else {
    result.frequencies = by.frequencies->arrays();
    result.positions = arrays_of(*by.positions);
  }
  return result;
}

inline bool has_elements(const Layout& l) noexcept {
  return l.batch > 0 && l.tokens > 0 && l.heads > 0 && l.head_dim > 0;
}

// The stride of a size of one does not matter: 0, so that it spoils no alignment.
inline void set_strides(std::int64_t (&strides)[3], const Layout& l) noexcept {
  strides[0] = l.batch > 1 ? l.batch_stride : 0;
  strides[1] = l.tokens > 1 ? l.token_stride : 0;
  strides[2] = l.heads > 1 ? l.head_stride : 0;
}

// in's heads, written with out's strides.
inline Side side(const ConstHeads& in, void* out, const Layout& to, int rest) noexcept {
  Side result;
  result.in = in.data;
  result.out = out;
  result.heads = in.layout.heads;
  set_strides(result.in_stride, in.layout);
  set_strides(result.out_stride, to);
  result.rest = rest;
  return result;
}

}  // namespace rotary::gpu
