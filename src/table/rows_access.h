// What tables keep that is not public.
#pragma once

#include "rotary/table.h"

namespace rotary::detail {

struct RowsAccess {
  // A call by Rows is one by a Table of their shape that has no rows itself.
  static const Rows* of(const Table& table) noexcept { return table.numbered_; }
  static void set(Table& table, const Rows& rows) noexcept {
    table.pairing_ = rows.pairing;
    table.pairs_ = rows.pairs;
    table.batch_ = rows.numbers.batch();
    table.tokens_ = rows.numbers.tokens();
    table.numbered_ = &rows;
  }
  static void set_xpos(Table& table, bool xpos) noexcept { table.xpos_ = xpos; }
};

}  // namespace rotary::detail
