// Positions and rotations as memory that a call reads.
#pragma once

#include <cstdint>
#include <span>

#include "jobs.h"
#include "rotate/overlap.h"

namespace rotary::gpu {

using rotary::detail::check_disjoint;
using rotary::detail::values;

inline Part values(const char* name, const Positions& p) noexcept {
  const std::int64_t count = product(p.axes(), product(p.batch(), p.tokens()));
  const PositionArrays arrays = arrays_of(p);
  if (arrays.i64 != nullptr) return values(name, arrays.i64, count);
  return arrays.i32 != nullptr ? values(name, arrays.i32, count) : values(name, arrays.f64, count);
}

// What is written must not overlap the table, or the positions, of a rotation.
inline void check_disjoint(const char* operation, std::span<const Part> written, const Rotation& by) {
  if (by.table() == nullptr) return check_disjoint(operation, written, values("the positions", *by.positions()));
  const Table& table = *by.table();
  const std::int64_t count = table.batch() * table.tokens() * table.pairs();
  check_disjoint(operation, written, values("the table's cos", table.cos(), count));
  check_disjoint(operation, written, values("the table's sin", table.sin(), count));
}

}  // namespace rotary::gpu
