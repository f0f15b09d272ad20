// Models that turn one head of the whole width, before the heads are cut or beside the layers.
#include "files/config/stages.h"
#include "rotary/error.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

// The width of the sub-config inner, else the part's own.
HeadShape one_head(const Part& part, const char* inner) {
  HeadShape shape;
  for (const char* value : {"heads", "kv_heads"}) part.by_default(value);
  shape.heads = shape.kv_heads = 1;
  const auto below = inner != nullptr ? part.keys.object(inner) : std::nullopt;
  const auto width =
      below ? read_whole(part, {.value = "head_dim", .keys = hidden_keys, .most = max_head_dim, .in = &*below})
            : std::nullopt;
  shape.head_dim = shape.block = width ? *width : read_head_dim(part, 1);
  return shape;
}

// ---- EfficientLoFTR: q and k turn before the heads are cut ----

HeadShape hidden_as_head(const Part& part) { return one_head(part, nullptr); }

// The fraction of an attention head must make half of the width, a run for each axis.
void require_half(const Part& part, double partial, int width) {
  const auto heads = part.keys.integer("num_attention_heads", 1, max_heads).value_or(part.family.shape.heads);
  const auto run = static_cast<int>(static_cast<double>(width / static_cast<int>(heads)) * partial);
  if (2 * run == width) return;
  fail(Code::CONFIG_VALUE, "read_config",
       part.keys.path_of(part.family.partial_key) + " of a head must make half of the " + std::to_string(width) +
           " elements but makes " + std::to_string(run));
}

void rows_and_columns(const Part& part, const RopeKeys& keys, Rope& rope) {
  require_quarters(part, rope.head_dim);
  require_half(part, partial_of(part, keys), rope.head_dim);
  lay_out_two_axes(rope, true, true);
}

// ---- Music Flamingo: the audio encoder's hidden states turn once ----

int once(const Part& part) {
  part.by_default("layers");
  return 1;
}

HeadShape audio_width_as_head(const Part& part) { return one_head(part, "audio_config"); }

void window_and_frame(const Part& part, const RopeKeys& keys, Rope& rope) {
  const auto run = static_cast<int>(rope.head_dim * partial_of(part, keys));
  if (run < 2 || run % 2 != 0 || 2 * run > rope.head_dim) {
    fail(Code::CONFIG_VALUE, "read_config",
         "partial_rotary_factor * " + part.keys.path_of("head_dim") +
             " must be even and twice fit into the head but got " + std::to_string(run));
  }
  rope.rotary_dim = 2 * run;
  rope.exponent_dim = run;
  for (int i = 0; i < run; ++i) {
    rope.index.push_back(i % (run / 2));
    rope.axis.push_back(static_cast<std::uint8_t>(i / (run / 2)));
  }
}

constexpr Quirk quirk_rows[] = {
    {.name = "efficientloftr", .head_shape = hidden_as_head},
    {.name = "music_flamingo", .layer_count = once, .head_shape = audio_width_as_head},
};

constexpr Tower tower_rows[] = {
    {.name = "efficientloftr",
     .words = "axis 0 is the row, axis 1 the column: pair by pair, rows first",
     .axes = "height width",
     .width = "head_dim",
     .lay_out = rows_and_columns},
    {.name = "music_flamingo",
     .words = "axis 0 is the window, axis 1 the frame in it; frequencies restart",
     .axes = "window frame",
     .width = "2 * head_dim * partial_rotary_factor",
     .lay_out = window_and_frame},
};

}  // namespace

constexpr std::span<const Quirk> quirks::one_head = quirk_rows;
constexpr std::span<const Tower> towers::one_head = tower_rows;

}  // namespace rotary::files
