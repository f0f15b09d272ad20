// From the words of gpu.h to the plain jobs of kernels.h.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>

#include "gpu/kernels/kernels.h"
#include "rotate/refuse.h"

namespace rotary::gpu {

// The fewest digits that say which float it is.
inline std::string number(float x) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, x).ptr};
}

// Those that have moved away have no pairs. Throws SHAPE.
inline void check_pairs(const char* verb, const Frequencies& f) {
  if (f.pairs() == 0) fail("SHAPE", verb, "inv_freq must have at least one pair but is empty");
}

// Throws SHAPE.
inline TableShape checked_shape(const char* verb, const Rotation& by) {
  if (by.table == nullptr) check_pairs(verb, *by.frequencies);
  return {by.pairing(), by.pairs(), by.batch(), by.tokens()};
}

// Of interleaved_to_half in place a kernel takes a head no longer than this. Throws SHAPE.
inline constexpr int largest_reordered = 2048;
inline void check_reordered(const char* verb, int rotary_dim) {
  if (rotary_dim <= largest_reordered) return;
  fail("SHAPE", verb,
       "interleaved_to_half in place takes a rotary_dim of at most " + text(largest_reordered) + " but got " +
           text(rotary_dim));
}

// Positions as their constructors leave them: of one kind, aligned. Throws SHAPE.
inline void check_unchanged(const char* verb, const Positions& p) {
  const int kinds = (p.i64 != nullptr ? 1 : 0) + (p.i32 != nullptr ? 1 : 0) + (p.f64 != nullptr ? 1 : 0);
  const auto of_eight = reinterpret_cast<std::uintptr_t>(p.i64) | reinterpret_cast<std::uintptr_t>(p.f64);
  const bool sized = p.axes >= 1 && p.batch >= 1 && p.tokens >= 0;
  const bool aligned = of_eight % 8 == 0 && reinterpret_cast<std::uintptr_t>(p.i32) % 4 == 0;
  if (sized && (p.tokens == 0 || (kinds == 1 && aligned))) return;
  fail("SHAPE", verb, "positions must be as their constructors make them but were changed");
}

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
