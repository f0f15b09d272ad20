// How many layers and heads, and how wide a head is.
#include <cmath>
#include <initializer_list>

#include "rotary/error.h"
#include "stages.h"

namespace rotary::files {
namespace {

constexpr std::int64_t most_hidden = std::int64_t{1} << 30;

using Names = std::initializer_list<const char*>;

// The first of these keys that the file has, read as that value of the rope.
std::optional<int> first_of(Reading& reading, const char* value, const Object& keys, Names names, std::int64_t most) {
  for (const char* name : names) {
    const auto given = keys.integer(name, 1, most);
    if (!given) continue;
    reading.origins.read(value, keys, name);
    return static_cast<int>(*given);
  }
  return std::nullopt;
}

// The same, of the part: names behind the family's prefix come first.
std::optional<int> first_of(Reading& reading, const char* value, const Part& part, Names names, std::int64_t most) {
  if (!part.family.prefix.empty()) {
    for (const char* name : names) {
      const std::string key = std::string(part.family.prefix) + name;
      if (const auto given = first_of(reading, value, part.keys, {key.c_str()}, most)) return given;
    }
  }
  return first_of(reading, value, part.keys, names, most);
}

// What the file calls it, for formulas.
std::string word_for(const Part& part, Names names) {
  for (const std::string_view prefix : {part.family.prefix, std::string_view{}}) {
    for (const char* name : names) {
      if (part.keys.has(std::string(prefix) + name)) return std::string(prefix) + name;
    }
  }
  return *names.begin();
}

std::string listed(Names names) {
  std::string text;
  for (const char* name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

[[noreturn]] void missing(const Part& part, const std::string& what, Names names) {
  throw Error(Code::CONFIG_MISSING, "[read_config] " + (part.path.empty() ? "the config" : part.path) + " must say " +
                                    what + " but has none of " + listed(names));
}

int take_default(Reading& reading, const Part& part, const char* value, const std::string& key, int usual) {
  reading.note(part.path, key + " is not given: " + std::to_string(usual) + ", the default of " + part.name());
  reading.origins.usual(value, part.name());
  return usual;
}

constexpr Names context_keys = {
    "max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "max_seq_len", "model_max_length"};

constexpr Names layer_keys = {"num_hidden_layers",
                              "n_layer",
                              "n_layers",
                              "num_layers",
                              "depth",
                              "encoder_layers",
                              "layers",
                              "num_transformer_layers",
                              "decoder_num_hidden_layers"};
constexpr Names head_keys = {
    "num_attention_heads",         "n_head",         "n_heads", "num_heads", "encoder_attention_heads", "heads",
    "decoder_num_attention_heads", "attention_heads"};
constexpr Names kv_keys = {
    "num_key_value_heads",        "num_kv_heads", "n_head_kv", "n_kv_heads", "num_query_groups", "num_attention_groups",
    "decoder_num_key_value_heads"};
constexpr Names embed_keys = {"embed_dim"};
constexpr Names hidden_keys = {"hidden_size", "n_embd", "n_embed", "d_model", "width", "dim", "embed_dim"};
constexpr Names head_dim_keys = {"head_dim", "attention_head_dim", "kv_channels", "head_size", "hidden_size_per_head"};

// A class default stands in only below the top, unless the caller asks: a whole model's own file says how large it is.
bool may_stand_in(const Reading& reading, const Part& part, int usual) {
  return usual != 0 && (!part.path.empty() || !part.family.prefix.empty() || reading.options.class_defaults);
}

int read_heads(Reading& reading, const Part& part) {
  if (const auto heads = first_of(reading, "heads", part, head_keys, most_heads)) return *heads;
  if (!may_stand_in(reading, part, part.family.shape.heads))
    missing(part, "how many attention heads it has", head_keys);
  return take_default(reading, part, "heads", "num_attention_heads", part.family.shape.heads);
}

int read_kv_heads(Reading& reading, const Part& part, int heads) {
  const Object& keys = part.keys;
  if (const auto attention = keys.has("attn_config") ? keys.object("attn_config") : std::nullopt) {
    if (const auto kv = first_of(reading, "kv_heads", *attention, {"kv_n_heads"}, most_heads)) return *kv;
  }
  const bool grouped = keys.boolean("new_decoder_architecture").value_or(false);
  if (keys.boolean("multi_query").value_or(part.family.multi_query) && !grouped) {  // its num_kv_heads is not read
    reading.origins.read_or_usual("kv_heads", keys, "multi_query", part.name());
    return 1;
  }
  if (keys.boolean("multi_query_attention").value_or(false)) {  // ChatGLM
    if (const auto kv = first_of(reading, "kv_heads", keys, {"multi_query_group_num"}, most_heads)) return *kv;
  }
  if (const auto kv = first_of(reading, "kv_heads", keys, kv_keys, most_heads)) {
    if (heads % *kv != 0 && is_mla(part)) {  // a number that MLA heads do not use, as saved from another size
      reading.origins.derived("kv_heads", word_for(part, head_keys));
      return heads;
    }
    if (heads % *kv != 0) {
      throw Error(Code::CONFIG_VALUE, "[read_config] " + keys.path_of("num_key_value_heads") + " must divide the " +
                                      std::to_string(heads) + " heads but got " + std::to_string(*kv));
    }
    return *kv;
  }
  const int usual = part.family.shape.kv_heads;
  if (!keys.is_null("num_key_value_heads") && usual != 0 && heads % usual == 0) {
    return take_default(reading, part, "kv_heads", "num_key_value_heads", usual);
  }
  reading.origins.derived("kv_heads", word_for(part, head_keys));
  if (!is_vision(part.family.axes)) {
    const bool null = keys.is_null("num_key_value_heads");
    reading.note(part.path, std::string("num_key_value_heads is ") + (null ? "null" : "not given") + ": " +
                                std::to_string(heads) + ", one for each head");
  }
  return heads;
}

int divided(Reading& reading, const Part& part, int heads) {
  const Names names = part.family.embed_dim_is_width ? embed_keys : hidden_keys;
  auto hidden = first_of(reading, "hidden", part, names, most_hidden);
  if (!hidden && part.family.shape.hidden != 0) {
    hidden = take_default(reading, part, "hidden", *names.begin(), part.family.shape.hidden);
  }
  if (!hidden) missing(part, "how wide a head is", {"head_dim", "hidden_size", "n_embd", "d_model"});
  if (!part.family.prefix.empty()) {  // SAM 2's memory attention
    hidden = *hidden / first_of(reading, "downsample", part, {"downsample_rate"}, most_hidden).value_or(1);
  }
  if (*hidden % heads != 0) {
    reading.note(part.path, "hidden_size " + std::to_string(*hidden) + " is not a multiple of the " +
                                std::to_string(heads) + " heads: rounded down, as the frameworks read it");
  }
  if (*hidden < heads || *hidden / heads > most_head_dim) {
    throw Error(Code::CONFIG_VALUE, "[read_config] " + part.keys.path_of("hidden_size") + " / heads must be from 1 to " +
                                    std::to_string(most_head_dim) + " but got " + std::to_string(*hidden / heads));
  }
  reading.origins.derived("head_dim", word_for(part, names) + " / " + word_for(part, head_keys));
  return *hidden / heads;
}

int read_head_dim(Reading& reading, const Part& part, int heads) {
  if (part.family.derives_head_dim) {
    const int dim = divided(reading, part, heads);
    const auto given = part.keys.integer("head_dim", 0, most_head_dim);
    if (given && *given != dim) {
      reading.note(part.path, "head_dim is not read: transformers writes hidden_size / heads = " + std::to_string(dim) +
                                  " over it");
    }
    return dim;
  }
  for (const char* key : head_dim_keys) {
    const auto value = part.keys.integer(key, 0, most_head_dim);
    if (value && *value > 0) {
      reading.origins.read("head_dim", part.keys, key);
      return static_cast<int>(*value);
    }
    if (value || part.keys.is_null(key)) {
      const int dim = divided(reading, part, heads);
      reading.note(part.path, std::string(key) + " is " + (value ? "0" : "null") +
                                  ": hidden_size / heads = " + std::to_string(dim) + ", as the frameworks read it");
      return dim;
    }
  }
  if (part.family.shape.head_dim != 0) {
    return take_default(reading, part, "head_dim", "head_dim", part.family.shape.head_dim);
  }
  const int dim = divided(reading, part, heads);
  reading.note(part.path, "head_dim is not given: hidden_size / heads = " + std::to_string(dim));
  return dim;
}

int read_mla(Reading& reading, const Part& part, const char* value, const char* key, int family_default) {
  if (const auto given = part.keys.integer(key, 0, most_head_dim)) {
    reading.origins.read(value, part.keys, key);
    return static_cast<int>(*given);
  }
  if (family_default == 0) missing(part, "the sizes of its MLA heads", {"qk_nope_head_dim", "qk_rope_head_dim"});
  return take_default(reading, part, value, key, family_default);
}

// MLA heads of sliding layers (dots3.note). A file with per_layer_config says them there.
void sliding_mla(Reading& reading, const Part& part, HeadShape& shape) {
  if (part.keys.has("per_layer_config")) return;
  const Shape& usual = part.family.sliding;
  const auto read = [&](const char* value, const char* key, int most, int otherwise) {
    const auto given = first_of(reading, value, part.keys, {key}, most);
    return given ? *given : take_default(reading, part, value, key, otherwise);
  };
  shape.heads = read("heads", "swa_num_attention_heads", most_heads, usual.heads);
  shape.kv_heads = read("kv_heads", "swa_num_key_value_heads", most_heads, usual.kv_heads);
  shape.head_dim = read("head_dim", "swa_head_dim", most_head_dim, usual.head_dim);
  shape.first = read("first", "swa_qk_nope_head_dim", most_head_dim, part.family.sliding_nope);
  shape.block = shape.head_dim - shape.first;
  reading.origins.derived("block", "swa_head_dim - swa_qk_nope_head_dim");
  if (const auto own = first_of(reading, "block", part.keys, {"swa_qk_rope_head_dim"}, most_head_dim)) {
    shape.block = *own;
    shape.head_dim = shape.first + shape.block;
  }
  if (shape.block < 2) part.keys.refuse("swa_head_dim", "must leave elements beside swa_qk_nope_head_dim");
}

// Layers of one type that have heads of their own.
void apply_layer_type(Reading& reading, const Part& part, const std::string& type, HeadShape& shape) {
  const Object& keys = part.keys;
  const auto set = [&](const char* value, const Object& from, const char* key, int most, int& target) {
    target = first_of(reading, value, from, {key}, most).value_or(target);
  };
  if (type == "full_attention" && part.family.full_head_dim != 0 && !keys.has("per_layer_config")) {
    const auto dim = first_of(reading, "head_dim", keys, {"global_head_dim"}, most_head_dim);
    shape.head_dim = shape.block =
        dim ? *dim : take_default(reading, part, "head_dim", "global_head_dim", part.family.full_head_dim);
    // Gemma 4: fewer key heads only where the keys serve as values too; others have no such switch.
    if (keys.boolean("attention_k_eq_v").value_or(!keys.has("attention_k_eq_v"))) {
      if (part.family.full_kv_heads != 0) shape.kv_heads = part.family.full_kv_heads;
      set("kv_heads", keys, "num_global_key_value_heads", most_heads, shape.kv_heads);
    }
  }
  if (type != "sliding_attention" && type != "hybrid_sliding") return;
  if (part.family.sliding_nope != 0) return sliding_mla(reading, part, shape);
  set("heads", keys, "swa_num_attention_heads", most_heads, shape.heads);
  if (!keys.has("swa_num_key_value_heads") && part.family.sliding_kv_times != 1) {
    shape.kv_heads *= part.family.sliding_kv_times;
    reading.origins.derived("kv_heads", "num_key_value_heads * " + std::to_string(part.family.sliding_kv_times));
  }
  set("kv_heads", keys, "swa_num_key_value_heads", most_heads, shape.kv_heads);
  set("heads", keys, "num_sliding_attention_heads", most_heads, shape.heads);
  if (keys.has("swa_head_dim")) {
    set("head_dim", keys, "swa_head_dim", most_head_dim, shape.head_dim);
    shape.block = shape.head_dim;
  }
  if (const auto other = keys.has("attention_other_setting") ? keys.object("attention_other_setting") : std::nullopt) {
    set("heads", *other, "num_attention_heads", most_heads, shape.heads);
  }
}

}  // namespace

bool is_mla(const Part& part) { return part.family.block == Block::mla && part.keys.boolean("use_mla").value_or(true); }

int layer_count(Reading& reading, const Part& part) {
  if (part.family.once) {
    reading.origins.usual("layers", part.name());
    return 1;
  }
  if (const auto layers = first_of(reading, "layers", part, layer_keys, most_layers)) return *layers;
  if (!may_stand_in(reading, part, part.family.shape.layers)) missing(part, "how many layers it has", layer_keys);
  return take_default(reading, part, "layers", "num_hidden_layers", part.family.shape.layers);
}

HeadShape head_shape(Reading& reading, const Part& part, const Layer& layer) {
  HeadShape shape;
  if (part.family.one_head) {
    for (const char* value : {"heads", "kv_heads"}) reading.origins.usual(value, part.name());
    shape.heads = shape.kv_heads = 1;
    const std::string_view inner = part.family.width_in;
    const auto below = !inner.empty() && part.keys.has(inner) ? part.keys.object(inner) : std::nullopt;
    const auto width = below ? first_of(reading, "head_dim", *below, hidden_keys, most_head_dim) : std::nullopt;
    shape.head_dim = shape.block = width ? *width : read_head_dim(reading, part, 1);
    return shape;
  }
  shape.heads = layer.heads != 0 ? layer.heads : read_heads(reading, part);
  shape.kv_heads = layer.kv_heads != 0 ? layer.kv_heads : read_kv_heads(reading, part, shape.heads);
  const bool mla = is_mla(part) || (!part.known && part.keys.has("qk_rope_head_dim"));
  if (mla) {
    shape.block = read_mla(reading, part, "block", "qk_rope_head_dim", part.family.turning);
    shape.first = read_mla(reading, part, "first", "qk_nope_head_dim", part.family.nope);
    shape.head_dim = shape.first + shape.block;
    reading.origins.derived("head_dim", "qk_nope_head_dim + qk_rope_head_dim");
  } else {
    shape.head_dim = shape.block = read_head_dim(reading, part, shape.heads);
  }
  apply_layer_type(reading, part, layer.type, shape);
  if (layer.heads != 0) shape.heads = layer.heads;
  if (layer.kv_heads != 0) shape.kv_heads = layer.kv_heads;
  if (layer.head_dim != 0 && !mla) shape.head_dim = shape.block = layer.head_dim;
  if (layer.nope != 0) shape.first = layer.nope;
  if (layer.turning != 0) shape.block = layer.turning;
  if (mla) shape.head_dim = shape.first + shape.block;
  reading.origins.add(layer.origins);
  if (mla && !layer.origins.empty()) reading.origins.derived("head_dim", "qk_nope_head_dim + qk_rope_head_dim");
  return shape;
}

std::optional<std::int64_t> context_length(const Object& keys) {
  for (const char* key : context_keys) {
    if (const auto value = keys.length(key, most_length)) return value;
  }
  return std::nullopt;
}

std::int64_t stated_context(Reading& reading, const Object& keys) {
  for (const char* key : context_keys) {
    const auto found = keys.json().find(key);
    if (found == keys.json().end() || !found->is_number()) continue;
    const auto value = found->get<double>();
    if (!(value >= 1 && value <= static_cast<double>(most_length)) || std::trunc(value) != value) continue;
    reading.origins.read("context", keys, key);
    return static_cast<std::int64_t>(value);
  }
  return 0;
}

}  // namespace rotary::files
