#include "towers.h"

#include "files/config/stages.h"
#include "rotary/error.h"
#include "values/fail.h"

namespace rotary::files {

void require_quarters(const Part& part, int head_dim) {
  if (head_dim % 4 == 0) return;
  fail(Code::CONFIG_VALUE, "read_config",
       part.keys.path_of("head_dim") + " must be a multiple of 4 for a rope of two axes but got " +
           std::to_string(head_dim));
}

void lay_out_two_axes(Rope& rope, bool rows_first, bool by_turns) {
  const int quarter = rope.head_dim / 4;
  rope.rotary_dim = rope.head_dim;
  rope.exponent_dim = rope.head_dim / 2;
  for (int i = 0; i < 2 * quarter; ++i) {
    const int run = by_turns ? i % 2 : i / quarter;
    rope.index.push_back(by_turns ? i / 2 : i % quarter);
    rope.axis.push_back(static_cast<std::uint8_t>(rows_first ? run : 1 - run));
  }
}

double partial_of(const Part& part, const RopeKeys& keys) {
  if (keys.partial) return *keys.partial;
  return part.keys.number(part.family.partial_key).value_or(part.family.partial);
}

namespace towers {
namespace {

template <bool rows_first, bool by_turns>
void two_axes(Reading&, const Part& part, const RopeKeys&, Rope& rope) {
  require_quarters(part, rope.head_dim);
  lay_out_two_axes(rope, rows_first, by_turns);
}

// One run b^(-2j/D); rows take the even j, columns the odd ones.
void even_and_odd(Reading&, const Part& part, const RopeKeys&, Rope& rope) {
  require_quarters(part, rope.head_dim);
  const int quarter = rope.head_dim / 4;
  rope.rotary_dim = rope.exponent_dim = rope.head_dim;
  for (int axis = 0; axis < 2; ++axis) {
    for (int k = 0; k < quarter; ++k) {
      rope.index.push_back(2 * k + axis);
      rope.axis.push_back(static_cast<std::uint8_t>(axis));
    }
  }
}

// The head's pairs in three equal runs of even width; what is left over stands still.
void three_axes(Reading&, const Part&, const RopeKeys&, Rope& rope) {
  const int run = 2 * (2 * (rope.head_dim / 2) / 3 / 2);
  rope.rotary_dim = 3 * run;
  rope.exponent_dim = run;
  for (int axis = 0; axis < 3; ++axis) {
    for (int k = 0; k < run / 2; ++k) {
      rope.index.push_back(k);
      rope.axis.push_back(static_cast<std::uint8_t>(axis));
    }
  }
}

}  // namespace

constexpr Tower row_column = {
    .words = "axis 0 is the row, axis 1 the column: rows first, frequencies restart",
    .axes = "height width",
    .width = "head_dim",
    .lay_out = two_axes<true, false>,
};
constexpr Tower column_row = {
    .words = "axis 0 is the row, axis 1 the column: columns first, frequencies restart",
    .axes = "height width",
    .width = "head_dim",
    .lay_out = two_axes<false, false>,
};
constexpr Tower column_row_by_turns = {
    .words = "axis 0 is the row, axis 1 the column: pair by pair, columns first",
    .axes = "height width",
    .width = "head_dim",
    .lay_out = two_axes<false, true>,
};
constexpr Tower minimax_m3 = {
    .words = "axes are time, row and column; frequencies restart",
    .axes = "time height width",
    .width = "6 * floor(head_dim / 6)",
    .lay_out = three_axes,
};
constexpr Tower pixtral = {
    .words = "axis 0 is the row (even frequencies), axis 1 the column (odd ones)",
    .axes = "height width",
    .width = "head_dim",
    .lay_out = even_and_odd,
};

}  // namespace towers
}  // namespace rotary::files
