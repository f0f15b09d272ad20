// The number and width of heads, and their rotated part, where the usual keys do not state them.
#include <algorithm>

#include "files/config/stages.h"
#include "rotary/error.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

// Falcon: multi_query is true where the file has none. Its num_kv_heads is not read then.
std::optional<int> one_for_all(const Part& part) {
  const bool grouped = part.keys.boolean("new_decoder_architecture", false);
  if (grouped || part.keys.has("multi_query")) return std::nullopt;
  part.by_default("kv_heads");
  return 1;
}

// MiMo-V2-Flash: twice the key heads in the sliding layers.
void sliding_kv_twice(const Part& part, const std::string& layer_type, HeadShape& shape) {
  if (slides(layer_type) && !part.keys.has("swa_num_key_value_heads")) {
    shape.kv_heads *= 2;
    part.derived("kv_heads", "num_key_value_heads * 2");
  }
  read_heads_of_type(part, layer_type, shape);
}

// Qwen2-VL's tower: hidden_size is its output.
int from_embed_dim(const Part& part, int heads) { return read_head_dim(part, heads, {"embed_dim"}); }

// DeepSeek-OCR 2, Unlimited-OCR: whatever head_dim says.
int always_derived(const Part& part, int heads) {
  const int dim = hidden_per_head(part, heads);
  const auto given = part.keys.integer("head_dim", 0, max_head_dim);
  if (given && *given != dim) {
    part.note("head_dim is not read: transformers writes hidden_size / heads = " + std::to_string(dim) + " over it");
  }
  return dim;
}

// CLVP: max(projection_dim / (2 heads), 32) elements of a head turn.
std::optional<int> half_head(const Part& part, const HeadShape& heads) {
  constexpr const char* key = "projection_dim";
  constexpr int least = 32;
  const auto width = part.keys.integer(key, 1, std::int64_t{1} << 30);
  const auto half = static_cast<int>(width.value_or(part.family.shape.hidden) / (2 * heads.heads));
  const int dim = std::max(half, least);
  if (dim % 2 != 0 || dim > heads.block) {
    fail(Code::CONFIG_VALUE, "read_config",
         part.keys.path_of(key) + " / (2 * heads) must be even and at most " + std::to_string(heads.block) +
             " but got " + std::to_string(dim));
  }
  part.derived("rotary_dim", std::string(key) + " / (2 * heads), at least " + std::to_string(least));
  return dim;
}

// dots3.note: its sliding layers have MLA heads of their own. A file with per_layer_config says them there.
void sliding_heads(const Part& part, const std::string& layer_type, HeadShape& shape) {
  if (!slides(layer_type) || part.keys.has("per_layer_config")) return;
  const auto read = [&](const char* value, const char* key, int most, int otherwise) {
    return *read_whole(part, {.value = value, .keys = {key}, .most = most, .otherwise = otherwise});
  };
  shape.heads = read("heads", "swa_num_attention_heads", max_heads, 64);
  shape.kv_heads = read("kv_heads", "swa_num_key_value_heads", max_heads, 64);
  shape.head_dim = read("head_dim", "swa_head_dim", max_head_dim, 256);
  shape.first = read("first", "swa_qk_nope_head_dim", max_head_dim, 192);
  shape.block = shape.head_dim - shape.first;
  shape.block_from = {Origin::derived, "swa_head_dim - swa_qk_nope_head_dim"};
  constexpr const char* own_key = "swa_qk_rope_head_dim";
  if (const auto own = read_whole(part, {nullptr, {own_key}, max_head_dim})) {
    shape.block = *own;
    shape.block_from = from_key(part.keys, own_key);
    shape.head_dim = shape.first + shape.block;
  }
  if (shape.block < 2) part.keys.refuse("swa_head_dim", "must leave elements beside swa_qk_nope_head_dim");
}

// ---- Gemma 4 and the models after it: the full_attention layers have a head_dim of their own ----

// global_head_dim, and fewer key heads where the keys serve as values too; others have no such switch.
void full_heads(const Part& part, HeadShape& shape, int default_kv_heads) {
  const Object& keys = part.keys;
  if (keys.has("per_layer_config")) return;
  shape.head_dim = shape.block =
      *read_whole(part, {.value = "head_dim", .keys = {"global_head_dim"}, .most = max_head_dim, .otherwise = 512});
  if (!keys.boolean("attention_k_eq_v").value_or(!keys.has("attention_k_eq_v"))) return;
  if (default_kv_heads != 0) shape.kv_heads = default_kv_heads;
  const auto kv_heads = read_whole(part, {"kv_heads", {"num_global_key_value_heads"}, max_heads});
  shape.kv_heads = kv_heads.value_or(shape.kv_heads);
}

template <int default_kv_heads>
void heads_of_type(const Part& part, const std::string& layer_type, HeadShape& shape) {
  if (layer_type == "full_attention") full_heads(part, shape, default_kv_heads);
  read_heads_of_type(part, layer_type, shape);
}

constexpr Quirk rows[] = {
    {.name = "clvp", .rotary_dim = half_head},
    {.name = "deepseek_ocr2", .head_dim = always_derived},
    {.name = "dots3_note", .heads_of_type = sliding_heads, .fraction = Fraction::nothing},
    {.name = "embedding_gemma2", .heads_of_type = heads_of_type<1>},
    {.name = "falcon", .kv_heads = one_for_all},
    {.name = "gemma4", .heads_of_type = heads_of_type<0>},
    {.name = "mimo_v2_flash", .heads_of_type = sliding_kv_twice},
    {.name = "qwen2_vl_vision", .head_dim = from_embed_dim},
};

}  // namespace

constexpr std::span<const Quirk> quirks::heads = rows;

}  // namespace rotary::files
