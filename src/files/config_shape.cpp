// How many layers and heads, and how wide a head is.
#include <initializer_list>

#include "config.h"
#include "rotary/error.h"

namespace rotary::files {
namespace {

constexpr int most_layers = 10000;
constexpr int most_heads = 65536;
constexpr int most_head_dim = 16384;
constexpr std::int64_t most_hidden = std::int64_t{1} << 30;

// The first of these keys that the file has.
std::optional<int> first_of(const Object& keys, std::initializer_list<const char*> names, std::int64_t most) {
  for (const char* name : names) {
    if (const auto value = keys.integer(name, 1, most)) return static_cast<int>(*value);
  }
  return std::nullopt;
}

std::string listed(std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

[[noreturn]] void missing(const Part& part, const std::string& what, std::initializer_list<const char*> names) {
  throw Error("CONFIG_MISSING", "[read_config] " + (part.path.empty() ? "the config" : part.path) + " must say " +
                                    what + " but has none of " + listed(names));
}

void note_default(Reading& reading, const Part& part, const std::string& key, int value) {
  reading.note(part.path, key + " is not given: " + std::to_string(value) + ", the default of " + part.name());
}

constexpr std::initializer_list<const char*> context_keys = {
    "max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "max_seq_len", "model_max_length"};

constexpr std::initializer_list<const char*> layer_keys = {"num_hidden_layers",
                                                           "n_layer",
                                                           "n_layers",
                                                           "num_layers",
                                                           "depth",
                                                           "encoder_layers",
                                                           "layers",
                                                           "num_transformer_layers",
                                                           "decoder_num_hidden_layers"};
constexpr std::initializer_list<const char*> head_keys = {
    "num_attention_heads",        "n_head", "n_heads", "num_heads", "encoder_attention_heads", "heads",
    "decoder_num_attention_heads"};
constexpr std::initializer_list<const char*> kv_keys = {
    "num_key_value_heads",        "num_kv_heads", "n_head_kv", "n_kv_heads", "num_query_groups", "num_attention_groups",
    "decoder_num_key_value_heads"};
constexpr std::initializer_list<const char*> hidden_keys = {"hidden_size", "n_embd", "n_embed",
                                                            "d_model",     "width",  "dim"};
constexpr std::initializer_list<const char*> head_dim_keys = {"head_dim", "attention_head_dim", "kv_channels",
                                                              "head_size"};

// A class default stands in only below the top: a whole model's own file says how large it is.
int read_heads(Reading& reading, const Part& part) {
  if (const auto heads = first_of(part.keys, head_keys, most_heads)) return *heads;
  if (part.path.empty() || part.family.shape.heads == 0) missing(part, "how many attention heads it has", head_keys);
  note_default(reading, part, "num_attention_heads", part.family.shape.heads);
  return part.family.shape.heads;
}

int read_kv_heads(Reading& reading, const Part& part, int heads) {
  const Object& keys = part.keys;
  if (const auto attention = keys.has("attn_config") ? keys.object("attn_config") : std::nullopt) {
    if (const auto kv = attention->integer("kv_n_heads", 1, most_heads)) return static_cast<int>(*kv);
  }
  const bool grouped = keys.boolean("new_decoder_architecture").value_or(false);
  if (keys.boolean("multi_query").value_or(false) && !grouped) return 1;  // Falcon: its num_kv_heads is not read
  if (keys.boolean("multi_query_attention").value_or(false)) {            // ChatGLM
    if (const auto kv = keys.integer("multi_query_group_num", 1, most_heads)) return static_cast<int>(*kv);
  }
  if (const auto kv = first_of(keys, kv_keys, most_heads)) {
    if (heads % *kv != 0) {
      throw Error("CONFIG_VALUE", "[read_config] " + keys.path_of("num_key_value_heads") + " must divide the " +
                                      std::to_string(heads) + " heads but got " + std::to_string(*kv));
    }
    return *kv;
  }
  const int usual = part.family.shape.kv_heads;
  if (!keys.is_null("num_key_value_heads") && usual != 0 && heads % usual == 0) {
    note_default(reading, part, "num_key_value_heads", part.family.shape.kv_heads);
    return part.family.shape.kv_heads;
  }
  if (!is_vision(part.family.axes)) {
    const bool null = keys.is_null("num_key_value_heads");
    reading.note(part.path, std::string("num_key_value_heads is ") + (null ? "null" : "not given") + ": " +
                                std::to_string(heads) + ", one for each head");
  }
  return heads;
}

int divided(Reading& reading, const Part& part, int heads) {
  // Qwen2-VL's tower: embed_dim is its width, hidden_size its output.
  auto hidden = part.family.type == "qwen2_vl_vision" ? first_of(part.keys, {"embed_dim"}, most_hidden)
                                                      : first_of(part.keys, hidden_keys, most_hidden);
  if (!hidden && part.family.shape.hidden != 0) {
    hidden = part.family.shape.hidden;
    note_default(reading, part, "hidden_size", *hidden);
  }
  if (!hidden) missing(part, "how wide a head is", {"head_dim", "hidden_size", "n_embd", "d_model"});
  if (*hidden % heads != 0) {
    reading.note(part.path, "hidden_size " + std::to_string(*hidden) + " is not a multiple of the " +
                                std::to_string(heads) + " heads: rounded down, as the frameworks read it");
  }
  if (*hidden < heads || *hidden / heads > most_head_dim) {
    throw Error("CONFIG_VALUE", "[read_config] " + part.keys.path_of("hidden_size") + " / heads must be from 1 to " +
                                    std::to_string(most_head_dim) + " but got " + std::to_string(*hidden / heads));
  }
  return *hidden / heads;
}

int read_head_dim(Reading& reading, const Part& part, int heads) {
  for (const char* key : head_dim_keys) {
    const auto value = part.keys.integer(key, 0, most_head_dim);
    if (value && *value > 0) return static_cast<int>(*value);
    if (value || part.keys.is_null(key)) {
      const int dim = divided(reading, part, heads);
      reading.note(part.path, std::string(key) + " is " + (value ? "0" : "null") +
                                  ": hidden_size / heads = " + std::to_string(dim) + ", as the frameworks read it");
      return dim;
    }
  }
  if (part.family.shape.head_dim != 0) {
    note_default(reading, part, "head_dim", part.family.shape.head_dim);
    return part.family.shape.head_dim;
  }
  const int dim = divided(reading, part, heads);
  reading.note(part.path, "head_dim is not given: hidden_size / heads = " + std::to_string(dim));
  return dim;
}

int read_mla(Reading& reading, const Part& part, const char* key, int family_default) {
  if (const auto value = part.keys.integer(key, 0, most_head_dim)) return static_cast<int>(*value);
  if (family_default == 0) missing(part, "the sizes of its MLA heads", {"qk_nope_head_dim", "qk_rope_head_dim"});
  note_default(reading, part, key, family_default);
  return family_default;
}

// Layers of one type that have heads of their own.
void apply_layer_type(Reading& reading, const Part& part, const std::string& type, HeadShape& shape) {
  const Object& keys = part.keys;
  const auto set = [&](const Object& from, const char* key, int most, int& target) {
    if (const auto value = from.integer(key, 1, most)) target = static_cast<int>(*value);
  };
  if (type == "full_attention" && part.family.full_head_dim != 0) {
    int dim = part.family.full_head_dim;
    set(keys, "global_head_dim", most_head_dim, dim);
    if (!keys.has("global_head_dim")) note_default(reading, part, "global_head_dim", dim);
    shape.head_dim = shape.block = dim;
    // Gemma 4: fewer key heads only where the keys serve as values too; others have no such switch.
    if (keys.boolean("attention_k_eq_v").value_or(!keys.has("attention_k_eq_v"))) {
      set(keys, "num_global_key_value_heads", most_heads, shape.kv_heads);
    }
  }
  if (type != "sliding_attention" && type != "hybrid_sliding") return;
  set(keys, "swa_num_attention_heads", most_heads, shape.heads);
  set(keys, "swa_num_key_value_heads", most_heads, shape.kv_heads);
  set(keys, "num_sliding_attention_heads", most_heads, shape.heads);
  if (keys.has("swa_head_dim")) {
    set(keys, "swa_head_dim", most_head_dim, shape.head_dim);
    shape.block = shape.head_dim;
  }
  if (const auto other = keys.has("attention_other_setting") ? keys.object("attention_other_setting") : std::nullopt) {
    set(*other, "num_attention_heads", most_heads, shape.heads);
  }
}

}  // namespace

bool is_mla(const Part& part) { return part.family.block == Block::mla && part.keys.boolean("use_mla").value_or(true); }

int layer_count(Reading& reading, const Part& part) {
  if (const auto layers = first_of(part.keys, layer_keys, most_layers)) return *layers;
  if (part.path.empty() || part.family.shape.layers == 0) missing(part, "how many layers it has", layer_keys);
  note_default(reading, part, "num_hidden_layers", part.family.shape.layers);
  return part.family.shape.layers;
}

HeadShape head_shape(Reading& reading, const Part& part, const Layer& layer) {
  HeadShape shape;
  shape.heads = read_heads(reading, part);
  shape.kv_heads = read_kv_heads(reading, part, shape.heads);
  const bool mla = is_mla(part) || (!part.known && part.keys.has("qk_rope_head_dim"));
  if (mla) {
    shape.block = read_mla(reading, part, "qk_rope_head_dim", part.family.turning);
    shape.first = read_mla(reading, part, "qk_nope_head_dim", part.family.nope);
    shape.head_dim = shape.first + shape.block;
  } else {
    shape.head_dim = shape.block = read_head_dim(reading, part, shape.heads);
  }
  apply_layer_type(reading, part, layer.type, shape);
  if (layer.heads != 0) shape.heads = layer.heads;
  if (layer.kv_heads != 0) shape.kv_heads = layer.kv_heads;
  if (layer.head_dim != 0 && !mla) shape.head_dim = shape.block = layer.head_dim;
  return shape;
}

std::optional<std::int64_t> context_length(const Object& keys) {
  for (const char* key : context_keys) {
    if (const auto value = keys.integer(key, 1, most_length)) return value;
  }
  return std::nullopt;
}

std::int64_t stated_context(const Object& keys) noexcept {
  for (const char* key : context_keys) {
    const auto found = keys.json().find(key);
    if (found == keys.json().end() || !found->is_number_integer()) continue;
    const auto value = found->get<std::int64_t>();
    if (value >= 1 && value <= most_length) return value;
  }
  return 0;
}

}  // namespace rotary::files
