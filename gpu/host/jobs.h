// Makes the jobs of kernels.h from the arguments of gpu.h, and Parts of the memory that a call reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kernels/kernels.h"
#include "rotate/overlap.h"
#include "rotate/refuse.h"
#include "values/pairings.h"

namespace rotary::detail {

// Access to the arrays of gpu::Positions and gpu::Frequencies.
struct DeviceAccess {
  static gpu::PositionArrays arrays(const gpu::Positions& p) noexcept {
    gpu::PositionArrays arrays;
    arrays.i64 = p.int64_;
    arrays.i32 = p.int32_;
    arrays.f64 = p.real_;
    arrays.rows = p.batch() * p.tokens();
    arrays.one_axis = p.axes() == 1;
    return arrays;
  }
  static const gpu::FrequencyArrays& arrays(const gpu::Frequencies&) noexcept;  // in frequencies.cpp
};

}  // namespace rotary::detail

namespace rotary::gpu {

// Refuses moved-from frequencies, which have no pairs. Throws SHAPE.
inline void check_pairs(const char* operation, const Frequencies& f) {
  if (f.pairs() == 0) fail(Code::SHAPE, operation, "inv_freq must have at least one pair but is empty");
}

// Throws SHAPE.
inline TableShape checked_shape(const char* operation, const Rotation& by) {
  if (const Table* t = by.table())
    return {t->pairing(), t->pairs(), t->batch(), t->tokens(), t->head_rows(), t->xpos()};
  check_pairs(operation, *by.frequencies());
  return {by.pairing(), by.pairs(), by.batch(), by.tokens()};
}

// The largest rotary_dim whose heads a kernel can reorder in place (interleaved_to_half). check_reordered throws SHAPE.
inline constexpr int largest_reordered = 2048;
inline void check_reordered(const char* operation, int rotary_dim) {
  if (rotary_dim <= largest_reordered) return;
  fail(Code::SHAPE, operation,
       "interleaved_to_half in place takes a rotary_dim of at most " + std::to_string(largest_reordered) + " but got " +
           std::to_string(rotary_dim));
}

inline PositionArrays arrays_of(const Positions& p) noexcept { return rotary::detail::DeviceAccess::arrays(p); }

inline RotationArrays arrays_of(const Rotation& by) noexcept {
  RotationArrays arrays;
  arrays.batch_rows = by.batch() == 1 ? 0 : by.tokens();
  if (by.table() != nullptr) {
    arrays.cos = by.table()->cos();
    arrays.sin = by.table()->sin();
    arrays.heads = by.table()->head_rows();
  } else {
    arrays.frequencies = rotary::detail::DeviceAccess::arrays(*by.frequencies());
    arrays.positions = arrays_of(*by.positions());
  }
  return arrays;
}

// Sets the fields of a RotateJob or StepJob that come from a rotation.
template <class Job>
void set_rotation(Job& job, const Rotation& by, Direction direction) noexcept {
  const rotary::detail::Order order = rotary::detail::order_of(by.pairing(), direction);
  job.by = arrays_of(by);
  job.pairs = by.pairs();
  job.read_interleaved = order.read_interleaved;
  job.write_interleaved = order.write_interleaved;
}

// The Side that reads the heads of `in` and writes with the strides of `to`.
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

// ---- the memory that a call reads ----

using rotary::detail::check_disjoint;
using rotary::detail::values;

inline NamedMemory values(const char* name, const Positions& p) noexcept {
  const std::int64_t count = product(p.axes(), product(p.batch(), p.tokens()));
  const PositionArrays arrays = arrays_of(p);
  if (arrays.i64 != nullptr) return values(name, arrays.i64, count);
  return arrays.i32 != nullptr ? values(name, arrays.i32, count) : values(name, arrays.f64, count);
}

// Checks that outputs do not overlap the table or the positions of a rotation.
inline void check_disjoint(const char* operation, std::span<const NamedMemory> written, const Rotation& by) {
  if (by.table() == nullptr) return check_disjoint(operation, written, values("the positions", *by.positions()));
  const Table& table = *by.table();
  const std::int64_t count = table.batch() * table.tokens() * table.head_rows() * table.pairs();
  check_disjoint(operation, written, values("the table's cos", table.cos(), count));
  check_disjoint(operation, written, values("the table's sin", table.sin(), count));
}

}  // namespace rotary::gpu
