// Access to the private members of Positions and Table.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::detail {

// The values, [axes, batch, tokens]. If there are any, exactly one of the two pointers is not null.
struct PositionValues {
  const std::int64_t* integers = nullptr;
  const double* reals = nullptr;
};

struct PositionsAccess {
  // Converts int32 values and runs to int64 in `converted`, reusing its memory.
  ROTARY_API static PositionValues values(const Positions&, std::vector<std::int64_t>& converted);
  static bool are_real(const Positions& p) noexcept {
    return p.kind_ == Positions::Kind::real || p.kind_ == Positions::Kind::one_real;
  }
  // Value i of positions that are integers.
  static std::int64_t integer(const Positions& p, std::int64_t i) noexcept {
    return p.kind_ == Positions::Kind::run     ? p.first_ + i
           : p.kind_ == Positions::Kind::int64 ? static_cast<const std::int64_t*>(p.data_)[i]
                                               : static_cast<const std::int32_t*>(p.data_)[i];
  }
};

struct RowsAccess {
  // A call with Rows becomes a call with a Table of their shape that has no rows itself.
  static const Rows* of(const Table& table) noexcept { return table.numbered_; }
  static void set(Table& table, const Rows& rows) noexcept {
    table.shape_ = {rows.pairing, rows.pairs, rows.numbers.batch(), rows.numbers.tokens(), 1, rows.xpos};
    table.numbered_ = &rows;
  }
  static const TableShape& shape(const Table& table) noexcept { return table.shape_; }
};
inline const TableShape& shape_of(const Table& table) noexcept { return RowsAccess::shape(table); }

}  // namespace rotary::detail
