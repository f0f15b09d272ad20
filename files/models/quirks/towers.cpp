// The layouts of ropes of several axes.
#include "quirk.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "config/stages.h"
#include "models/diffusers.h"
#include "rotary/error.h"
#include "values/fail.h"

namespace rotary::files {

namespace {

// Refuses a head that does not hold a whole number of pairs for each of two axes.
void require_quarters(const Part& part, int head_dim) {
  if (head_dim % 4 == 0) return;
  fail(Code::CONFIG_VALUE, "read_config", part.keys.path_of("head_dim"),
       " must be a multiple of 4 for a rope of two axes but got ", head_dim);
}

// Adds pairs of the axis, with the frequencies b^(-2j/exponent_dim), j = first, first + step, ...
void add_run(Rope& rope, int axis, int pairs, int first = 0, int step = 1) {
  rope.axis.insert(rope.axis.end(), static_cast<std::size_t>(pairs), static_cast<std::uint8_t>(axis));
  for (int k = 0; k < pairs; ++k) rope.index.push_back(first + k * step);
}

// Each axis has a quarter of the elements as pairs, with the frequencies b^(-2k/(D/2)), k = 0, 1, ...
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

// partial_rotary_factor: the rope's own, the part's, the family's.
double partial_of(const Part& part, const RopeKeys& keys) {
  if (keys.partial) return *keys.partial;
  return part.keys.number(part.family.partial_key).value_or(part.family.partial);
}

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
  for (int axis = 0; axis < 2; ++axis) add_run(rope, axis, quarter, axis, 2);
}

// The head's pairs in three equal runs of even width; surplus pairs do not rotate.
void three_axes(const Part& part, const RopeKeys&, Rope& rope) {
  const int run = 2 * (2 * (rope.head_dim / 2) / 3 / 2);
  if (run == 0) {
    fail(Code::CONFIG_VALUE, "read_config", part.keys.path_of("head_dim"),
         " must be at least 6 for a rope of three axes but got ", rope.head_dim);
  }
  rope.rotary_dim = 3 * run;
  rope.exponent_dim = run;
  for (int axis = 0; axis < 3; ++axis) add_run(rope, axis, run / 2);
}

// ESMFold 2: its atoms rotate by x, y, z and the token's number, each with its own run; the spatial axes have their own
// base. The remaining elements of the head do not rotate.
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
    keys.refuse("num_uid_rope_pairs", "and three times num_spatial_rope_pairs_per_axis must fit into the ", pairs,
                " pairs of a head");
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
  part.note(NoteKind::axes, "the spatial axes have base ", spelled(spatial_base), ", the token's axis ",
            spelled(rope.base));
}

// ---- Gemma 4: two blocks of a head ----

void half_of_head(const Part& part, const RopeKeys&, Rope& rope) {
  require_quarters(part, rope.head_dim);
  rope.rotary_dim = rope.head_dim / 2;
}

// Columns first, then rows.
std::vector<ModelRope> two_blocks(const ModelRope& model) {
  std::vector<ModelRope> halves(2, model);
  const auto pairs = static_cast<std::size_t>(model.rope.rotary_dim / 2);
  halves[0].rope.axis.assign(pairs, 1);
  halves[1].rope.axis.assign(pairs, 0);
  halves[1].first = model.rope.rotary_dim;
  return halves;
}

// ---- EfficientLoFTR ----

// The fraction of an attention head must be half of the width, a run for each axis.
void require_half(const Part& part, double partial, int width) {
  const auto heads = part.keys.integer("num_attention_heads", 1, max_heads).value_or(part.family.shape.heads);
  const auto run = static_cast<int>(static_cast<double>(width / static_cast<int>(heads)) * partial);
  if (2 * run == width) return;
  fail(Code::CONFIG_VALUE, "read_config", part.keys.path_of(part.family.partial_key),
       " of a head must make half of the ", width, " elements but makes ", run);
}

void rows_and_columns(const Part& part, const RopeKeys& keys, Rope& rope) {
  require_quarters(part, rope.head_dim);
  require_half(part, partial_of(part, keys), rope.head_dim);
  lay_out_two_axes(rope, true, true);
}

// ---- Music Flamingo ----

void window_and_frame(const Part& part, const RopeKeys& keys, Rope& rope) {
  const auto run = static_cast<int>(rope.head_dim * partial_of(part, keys));
  if (run < 2 || run % 2 != 0 || 2 * run > rope.head_dim) {
    fail(Code::CONFIG_VALUE, "read_config", "partial_rotary_factor * ", part.keys.path_of("head_dim"),
         " must be even and twice fit into the head but got ", run);
  }
  rope.rotary_dim = 2 * run;
  rope.exponent_dim = run;
  for (int axis = 0; axis < 2; ++axis) add_run(rope, axis, run / 2);
}

constexpr TowerLayout layouts[] = {
    {"row_column", two_axes<true, false>},
    {"column_row", two_axes<false, false>},
    {"column_row_by_turns", two_axes<false, true>},
    {"minimax_m3", three_axes},
    {"pixtral", even_and_odd},
    {"esmfold2", space_and_token},
    {"gemma4", half_of_head, two_blocks},
    {"efficientloftr", rows_and_columns},
    {"music_flamingo", window_and_frame},
};

}  // namespace

const TowerLayout* find_layout(std::string_view name) noexcept {
  const TowerLayout* found =
      std::find_if(std::begin(layouts), std::end(layouts), [&](const TowerLayout& row) { return row.name == name; });
  return found == std::end(layouts) ? nullptr : found;
}

// ---- diffusers ----

std::vector<int> split_head(Split split, int head_dim, int axes) {
  const int sixth = 2 * (head_dim / 6), eighths = 3 * (head_dim / 8);
  switch (split) {
    case Split::sixths:
    case Split::thirds:
      return {head_dim - 2 * sixth, sixth, sixth};
    case Split::eighths:
      return {head_dim / 4, eighths, eighths};
    case Split::half:
      return {head_dim / 2};
    case Split::equal:
    case Split::none:
      break;
  }
  return std::vector<int>(static_cast<std::size_t>(axes), head_dim / axes);
}

void take_turns(Rope& rope, int axes) {
  const auto turns = static_cast<std::size_t>(axes);
  const std::size_t each = rope.inv_freq.size() / turns;
  const Rope by_axis = rope;
  for (std::size_t i = 0; i < rope.inv_freq.size(); ++i) {
    const std::size_t from = i % turns * each + i / turns;
    rope.inv_freq[i] = by_axis.inv_freq[from];
    rope.axis[i] = by_axis.axis[from];
  }
}

void lay_across_heads(Rope& rope, int heads, int axes) {
  const int pairs = rope.head_dim / 2, all = heads * pairs, run = all / axes, still = all - run * axes;
  rope.head_rows = heads;
  rope.summed_axes = axes;
  rope.inv_freq.assign(static_cast<std::size_t>(all) * static_cast<std::size_t>(axes), 0);
  for (int j = still; j < all; ++j) {
    const int step = (j - still) / axes, axis = (j - still) % axes;
    const double exponent = run > 1 ? static_cast<double>(step) / (run - 1) : 0;
    rope.inv_freq[static_cast<std::size_t>((j / pairs * axes + axis) * pairs + j % pairs)] =
        std::numbers::pi / 2 * std::pow(rope.base, exponent);
  }
}

}  // namespace rotary::files
