// dots3.note: its sliding layers have MLA heads of their own. A file with per_layer_config says them there.
#include "files/config/stages.h"

namespace rotary::files {
namespace {

void sliding_heads(Reading& reading, const Part& part, const std::string& layer_type, HeadShape& shape) {
  if (!slides(layer_type) || part.keys.has("per_layer_config")) return;
  const auto read = [&](const char* value, const char* key, int most, int otherwise) {
    return read_or_default(reading, part, value, key, most, otherwise);
  };
  shape.heads = read("heads", "swa_num_attention_heads", max_heads, 64);
  shape.kv_heads = read("kv_heads", "swa_num_key_value_heads", max_heads, 64);
  shape.head_dim = read("head_dim", "swa_head_dim", max_head_dim, 256);
  shape.first = read("first", "swa_qk_nope_head_dim", max_head_dim, 192);
  shape.block = shape.head_dim - shape.first;
  shape.block_from = {Origin::derived, "swa_head_dim - swa_qk_nope_head_dim"};
  constexpr const char* own_key = "swa_qk_rope_head_dim";
  if (const auto own = first_of(reading, nullptr, part.keys, {own_key}, max_head_dim)) {
    shape.block = *own;
    shape.block_from = from_key(part.keys, own_key);
    shape.head_dim = shape.first + shape.block;
  }
  if (shape.block < 2) part.keys.refuse("swa_head_dim", "must leave elements beside swa_qk_nope_head_dim");
}

}  // namespace

constexpr Quirk quirks::dots3_note = {.heads_of_type = sliding_heads, .fraction = Fraction::nothing};

}  // namespace rotary::files
