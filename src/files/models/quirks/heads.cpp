// How many heads, and how wide, where the usual keys do not say it.
#include "files/config/stages.h"

namespace rotary::files {
namespace {

// Falcon: multi_query is true where the file has none. Its num_kv_heads is not read then.
std::optional<int> one_for_all(Reading& reading, const Part& part) {
  const bool grouped = part.keys.boolean("new_decoder_architecture", false);
  if (grouped || part.keys.has("multi_query")) return std::nullopt;
  reading.origins.by_default("kv_heads", part.name());
  return 1;
}

// MiMo-V2-Flash: twice the key heads in the sliding layers.
void sliding_kv_twice(Reading& reading, const Part& part, const std::string& layer_type, HeadShape& shape) {
  if (slides(layer_type) && !part.keys.has("swa_num_key_value_heads")) {
    shape.kv_heads *= 2;
    reading.origins.derived("kv_heads", "num_key_value_heads * 2");
  }
  read_heads_of_type(reading, part, layer_type, shape);
}

// Qwen2-VL's tower: hidden_size is its output.
int from_embed_dim(Reading& reading, const Part& part, int heads) {
  return read_head_dim(reading, part, heads, {"embed_dim"});
}

// DeepSeek-OCR 2, Unlimited-OCR: whatever head_dim says.
int always_derived(Reading& reading, const Part& part, int heads) {
  const int dim = hidden_per_head(reading, part, heads);
  const auto given = part.keys.integer("head_dim", 0, max_head_dim);
  if (given && *given != dim) {
    reading.note(part.path,
                 "head_dim is not read: transformers writes hidden_size / heads = " + std::to_string(dim) + " over it");
  }
  return dim;
}

}  // namespace

constexpr Quirk quirks::deepseek_ocr2 = {.head_dim = always_derived};
constexpr Quirk quirks::falcon = {.kv_heads = one_for_all};
constexpr Quirk quirks::mimo_v2_flash = {.heads_of_type = sliding_kv_twice};
constexpr Quirk quirks::qwen2_vl_vision = {.head_dim = from_embed_dim};

}  // namespace rotary::files
