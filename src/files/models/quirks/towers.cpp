#include "quirk.h"

#include <cmath>

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

namespace {

template <bool rows_first, bool by_turns>
void two_axes(const Part& part, const RopeKeys&, Rope& rope) {
  require_quarters(part, rope.head_dim);
  lay_out_two_axes(rope, rows_first, by_turns);
}

// One run b^(-2j/D); rows take the even j, columns the odd ones.
void even_and_odd(const Part& part, const RopeKeys&, Rope& rope) {
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
void three_axes(const Part&, const RopeKeys&, Rope& rope) {
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

// ESMFold 2: its atoms turn by x, y, z and the token's number, each with its own run; the spatial ones have a base of
// their own. What is left of the head stands still.
void space_and_token(const Part& part, const RopeKeys&, Rope& rope) {
  const Object& keys = part.keys;
  const auto each = static_cast<int>(keys.integer("num_spatial_rope_pairs_per_axis", 0, max_head_dim).value_or(2));
  const auto token = static_cast<int>(keys.integer("num_uid_rope_pairs", 0, max_head_dim).value_or(10));
  const double spatial_base = keys.number("spatial_rope_base_frequency").value_or(20);
  if (!(spatial_base > 1) || !std::isfinite(spatial_base)) {
    keys.refuse("spatial_rope_base_frequency", "must be above 1");
  }
  const int pairs = rope.head_dim / 2;
  if (3 * each + token > pairs) {
    keys.refuse("num_uid_rope_pairs", "and three times num_spatial_rope_pairs_per_axis must fit into the " +
                                          std::to_string(pairs) + " pairs of a head");
  }
  rope.rotary_dim = 2 * pairs;
  rope.axis.assign(static_cast<std::size_t>(pairs), 3);
  rope.inv_freq.assign(static_cast<std::size_t>(pairs), 0);
  part.derived("inv_freq", "spatial_rope_base_frequency^(-i / n) in space, base^(-i / n) of the token");
  for (int i = 0; i < 3 * each + token; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool spatial = i < 3 * each;
    const double exponent = spatial ? double(i % each) / each : double(i - 3 * each) / token;
    rope.inv_freq[at] = std::pow(spatial ? spatial_base : rope.base, -exponent);
    if (spatial) rope.axis[at] = static_cast<std::uint8_t>(i / each);
  }
  part.note("the spatial axes have base " + spelled(spatial_base) + ", the token's axis " + spelled(rope.base));
}

// ---- Gemma 4: two blocks of a head ----

void half_of_head(const Part& part, const RopeKeys&, Rope& rope) {
  require_quarters(part, rope.head_dim);
  rope.rotary_dim = rope.head_dim / 2;
}

// Columns first, then rows.
std::vector<ModelRope> two_blocks(const ModelRope& model) {
  std::vector<ModelRope> blocks(2, model);
  const auto pairs = static_cast<std::size_t>(model.rope.rotary_dim / 2);
  blocks[0].rope.axis.assign(pairs, 1);
  blocks[1].rope.axis.assign(pairs, 0);
  blocks[1].first = model.rope.rotary_dim;
  return blocks;
}

constexpr Tower rows[] = {
    // The first half of the pairs rows, the rest columns (Qwen-VL).
    {.name = "row_column",
     .words = "axis 0 is the row, axis 1 the column: rows first, frequencies restart",
     .axes = "height width",
     .width = "head_dim",
     .lay_out = two_axes<true, false>},
    {.name = "column_row",
     .words = "axis 0 is the row, axis 1 the column: columns first, frequencies restart",
     .axes = "height width",
     .width = "head_dim",
     .lay_out = two_axes<false, false>},
    // Pair by pair, frequencies restart (Kimi).
    {.name = "column_row_by_turns",
     .words = "axis 0 is the row, axis 1 the column: pair by pair, columns first",
     .axes = "height width",
     .width = "head_dim",
     .lay_out = two_axes<false, true>},
    {.name = "minimax_m3",
     .words = "axes are time, row and column; frequencies restart",
     .axes = "time height width",
     .width = "6 * floor(head_dim / 6)",
     .lay_out = three_axes},
    // Rows take b^(-2i/D) of even i, columns of odd i.
    {.name = "pixtral",
     .words = "axis 0 is the row (even frequencies), axis 1 the column (odd ones)",
     .axes = "height width",
     .width = "head_dim",
     .lay_out = even_and_odd},
    {.name = "esmfold2",
     .words = "axes 0 to 2 are x, y and z, axis 3 the token",
     .axes = "x y z token",
     .width = "head_dim",
     .lay_out = space_and_token},
    {.name = "gemma4",
     .words = "axis 0 is the row, axis 1 the column: each turns its own half of the head, columns first",
     .axes = "height width",
     .width = "head_dim / 2",
     .lay_out = half_of_head,
     .blocks = two_blocks},
};

template <class Row>
const Row* find_row(std::initializer_list<std::span<const Row>> tables, std::string_view name) noexcept {
  for (const std::span<const Row> table : tables) {
    for (const Row& row : table) {
      if (row.name == name) return &row;
    }
  }
  return nullptr;
}

}  // namespace

constexpr Quirk quirks::none = {};

const Quirk* find_quirk(std::string_view name) noexcept {
  return find_row<Quirk>({quirks::heads, quirks::layers, quirks::parameters, quirks::one_head}, name);
}

const Tower* find_tower(std::string_view name) noexcept { return find_row<Tower>({rows, towers::one_head}, name); }

}  // namespace rotary::files
