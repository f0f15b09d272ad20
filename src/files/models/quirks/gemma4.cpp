// Gemma 4 and the models after it: the full_attention layers have a head_dim of their own, and the tower turns two
// blocks of a head.
#include "files/config/stages.h"

namespace rotary::files {
namespace {

// global_head_dim, and fewer key heads where the keys serve as values too; others have no such switch.
void full_heads(Reading& reading, const Part& part, HeadShape& shape, int default_kv_heads) {
  const Object& keys = part.keys;
  if (keys.has("per_layer_config")) return;
  shape.head_dim = shape.block = read_or_default(reading, part, "head_dim", "global_head_dim", max_head_dim, 512);
  if (!keys.boolean("attention_k_eq_v").value_or(!keys.has("attention_k_eq_v"))) return;
  if (default_kv_heads != 0) shape.kv_heads = default_kv_heads;
  const auto kv_heads = first_of(reading, "kv_heads", keys, {"num_global_key_value_heads"}, max_heads);
  shape.kv_heads = kv_heads.value_or(shape.kv_heads);
}

template <int default_kv_heads>
void heads_of_type(Reading& reading, const Part& part, const std::string& layer_type, HeadShape& shape) {
  if (layer_type == "full_attention") full_heads(reading, part, shape, default_kv_heads);
  read_heads_of_type(reading, part, layer_type, shape);
}

void half_of_head(Reading&, const Part& part, const RopeKeys&, Rope& rope) {
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

}  // namespace

constexpr Quirk quirks::gemma4 = {.heads_of_type = heads_of_type<0>};
constexpr Quirk quirks::embedding_gemma2 = {.heads_of_type = heads_of_type<1>};
constexpr Tower towers::gemma4 = {
    .words = "axis 0 is the row, axis 1 the column: each turns its own half of the head, columns first",
    .axes = "height width",
    .width = "head_dim / 2",
    .lay_out = half_of_head,
    .blocks = two_blocks,
};

}  // namespace rotary::files
