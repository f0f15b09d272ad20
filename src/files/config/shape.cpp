// How many layers and heads, and how wide a head is.
#include <initializer_list>

#include "rotary/error.h"
#include "stages.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

constexpr std::int64_t max_hidden = std::int64_t{1} << 30;

// first_of of the part: names behind the family's prefix come first.
std::optional<int> first_of_part(Reading& reading, const char* value, const Part& part, Names names,
                                 std::int64_t most) {
  if (!part.family.prefix.empty()) {
    for (const char* name : names) {
      const std::string key = std::string(part.family.prefix) + name;
      if (const auto given = first_of(reading, value, part.keys, {key.c_str()}, most)) return given;
    }
  }
  return first_of(reading, value, part.keys, names, most);
}

// The file's own key among names, for formulas.
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
  fail(Code::CONFIG_MISSING, "read_config",
       (part.path.empty() ? "the config" : part.path) + " must say " + what + " but has none of " + listed(names));
}

// The class default of a key that is not given, noted.
int take_default(Reading& reading, const Part& part, const char* value, const std::string& key, int default_value) {
  reading.note(part.path, key + " is not given: " + std::to_string(default_value) + ", the default of " + part.name());
  if (value != nullptr) reading.origins.by_default(value, part.name());
  return default_value;
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
constexpr Names head_dim_keys = {"head_dim", "attention_head_dim", "kv_channels", "head_size", "hidden_size_per_head"};

// A class default stands in only below the top, unless the caller asks: a whole model's own file says how large it is.
bool may_stand_in(const Reading& reading, const Part& part, int default_value) {
  return default_value != 0 && (!part.path.empty() || !part.family.prefix.empty() || reading.options.class_defaults);
}

int read_heads(Reading& reading, const Part& part) {
  if (const auto heads = first_of_part(reading, "heads", part, head_keys, max_heads)) return *heads;
  if (!may_stand_in(reading, part, part.family.shape.heads))
    missing(part, "how many attention heads it has", head_keys);
  return take_default(reading, part, "heads", "num_attention_heads", part.family.shape.heads);
}

int read_kv_heads(Reading& reading, const Part& part, int heads) {
  const Object& keys = part.keys;
  if (const auto attention = keys.has("attn_config") ? keys.object("attn_config") : std::nullopt) {
    if (const auto kv = first_of(reading, "kv_heads", *attention, {"kv_n_heads"}, max_heads)) return *kv;
    if (attention->text("attn_type") == "multiquery_attention") {  // MPT
      reading.origins.read("kv_heads", *attention, "attn_type");
      return 1;
    }
  }
  const bool grouped = keys.boolean("new_decoder_architecture", false);
  if (keys.boolean("multi_query", false) && !grouped) {  // its num_kv_heads is not read
    reading.origins.read("kv_heads", keys, "multi_query");
    return 1;
  }
  if (const auto own = part.family.quirk->kv_heads) {
    if (const auto kv = own(reading, part)) return *kv;
  }
  if (keys.boolean("multi_query_attention", false)) {  // ChatGLM
    if (const auto kv = first_of(reading, "kv_heads", keys, {"multi_query_group_num"}, max_heads)) return *kv;
  }
  if (const auto kv = first_of(reading, "kv_heads", keys, kv_keys, max_heads)) {
    if (heads % *kv != 0 && is_mla(part)) {  // a number that MLA heads do not use, as saved from another size
      reading.origins.derived("kv_heads", word_for(part, head_keys));
      return heads;
    }
    if (heads % *kv != 0) {
      fail(Code::CONFIG_VALUE, "read_config",
           keys.path_of("num_key_value_heads") + " must divide the " + std::to_string(heads) + " heads but got " +
               std::to_string(*kv));
    }
    return *kv;
  }
  const int default_value = part.family.shape.kv_heads;
  if (!keys.is_null("num_key_value_heads") && default_value != 0 && heads % default_value == 0) {
    return take_default(reading, part, "kv_heads", "num_key_value_heads", default_value);
  }
  reading.origins.derived("kv_heads", word_for(part, head_keys));
  if (part.family.tower == nullptr) {
    const bool null = keys.is_null("num_key_value_heads");
    reading.note(part.path, std::string("num_key_value_heads is ") + (null ? "null" : "not given") + ": " +
                                std::to_string(heads) + ", one for each head");
  }
  return heads;
}

int read_mla_size(Reading& reading, const Part& part, From& from, const char* key, int family_default) {
  if (const auto given = part.keys.integer(key, 0, max_head_dim)) {
    from = from_key(part.keys, key);
    return static_cast<int>(*given);
  }
  if (family_default == 0) missing(part, "the sizes of its MLA heads", {"qk_nope_head_dim", "qk_rope_head_dim"});
  from = {Origin::model_default, part.name()};
  return take_default(reading, part, nullptr, key, family_default);
}

// [nope | rope]
void read_mla_heads(Reading& reading, const Part& part, HeadShape& shape) {
  From nope_from;
  shape.mla = true;
  shape.block = read_mla_size(reading, part, shape.block_from, "qk_rope_head_dim", part.family.mla.rope);
  shape.first = read_mla_size(reading, part, nope_from, "qk_nope_head_dim", part.family.mla.nope);
  shape.head_dim = shape.first + shape.block;
  reading.origins.set("first", nope_from);
  reading.origins.derived("head_dim", "qk_nope_head_dim + qk_rope_head_dim");
}

// What the file says of this layer alone.
void apply_layer(Reading& reading, const Layer& layer, HeadShape& shape) {
  if (layer.heads != 0) shape.heads = layer.heads;
  if (layer.kv_heads != 0) shape.kv_heads = layer.kv_heads;
  if (layer.head_dim != 0 && !shape.mla) shape.head_dim = shape.block = layer.head_dim;
  if (layer.nope != 0) shape.first = layer.nope;
  if (layer.rotating != 0) {
    shape.block = layer.rotating;
    shape.block_from = layer.turning_from;
  }
  reading.origins.add(layer.origins);
  if (!shape.mla) return;
  shape.head_dim = shape.first + shape.block;
  if (layer.has_own()) reading.origins.derived("head_dim", "qk_nope_head_dim + qk_rope_head_dim");
}

}  // namespace

std::optional<int> first_of(Reading& reading, const char* value, const Object& keys, Names names, std::int64_t most) {
  for (const char* name : names) {
    const auto given = keys.integer(name, 1, most);
    if (!given) continue;
    if (value != nullptr) reading.origins.read(value, keys, name);
    return static_cast<int>(*given);
  }
  return std::nullopt;
}

int read_or_default(Reading& reading, const Part& part, const char* value, const char* key, std::int64_t most,
                    int otherwise) {
  const auto given = first_of(reading, value, part.keys, {key}, most);
  return given ? *given : take_default(reading, part, value, key, otherwise);
}

int hidden_per_head(Reading& reading, const Part& part, int heads, Names names) {
  auto hidden = first_of_part(reading, nullptr, part, names, max_hidden);
  if (!hidden && part.family.shape.hidden != 0) {
    hidden = take_default(reading, part, nullptr, *names.begin(), part.family.shape.hidden);
  }
  if (!hidden) missing(part, "how wide a head is", {"head_dim", "hidden_size", "n_embd", "d_model"});
  if (!part.family.prefix.empty()) {  // SAM 2's memory attention
    hidden = *hidden / first_of_part(reading, nullptr, part, {"downsample_rate"}, max_hidden).value_or(1);
  }
  if (*hidden % heads != 0) {
    reading.note(part.path, "hidden_size " + std::to_string(*hidden) + " is not a multiple of the " +
                                std::to_string(heads) + " heads: rounded down, as the frameworks read it");
  }
  if (*hidden < heads || *hidden / heads > max_head_dim) {
    fail(Code::CONFIG_VALUE, "read_config",
         part.keys.path_of("hidden_size") + " / heads must be from 1 to " + std::to_string(max_head_dim) + " but got " +
             std::to_string(*hidden / heads));
  }
  reading.origins.derived("head_dim", word_for(part, names) + " / " + word_for(part, head_keys));
  return *hidden / heads;
}

int read_head_dim(Reading& reading, const Part& part, int heads, Names width_keys) {
  for (const char* key : head_dim_keys) {
    const auto value = part.keys.integer(key, 0, max_head_dim);
    if (value && *value > 0) {
      reading.origins.read("head_dim", part.keys, key);
      return static_cast<int>(*value);
    }
    if (value || part.keys.is_null(key)) {
      const int dim = hidden_per_head(reading, part, heads, width_keys);
      reading.note(part.path, std::string(key) + " is " + (value ? "0" : "null") +
                                  ": hidden_size / heads = " + std::to_string(dim) + ", as the frameworks read it");
      return dim;
    }
  }
  if (part.family.shape.head_dim != 0) {
    return take_default(reading, part, "head_dim", "head_dim", part.family.shape.head_dim);
  }
  const int dim = hidden_per_head(reading, part, heads, width_keys);
  reading.note(part.path, "head_dim is not given: hidden_size / heads = " + std::to_string(dim));
  return dim;
}

void read_heads_of_type(Reading& reading, const Part& part, const std::string& layer_type, HeadShape& shape) {
  if (!slides(layer_type)) return;
  const Object& keys = part.keys;
  const auto set = [&](const char* value, const Object& from, const char* key, int most, int& target) {
    target = first_of(reading, value, from, {key}, most).value_or(target);
  };
  set("heads", keys, "swa_num_attention_heads", max_heads, shape.heads);
  set("kv_heads", keys, "swa_num_key_value_heads", max_heads, shape.kv_heads);
  set("heads", keys, "num_sliding_attention_heads", max_heads, shape.heads);
  if (keys.has("swa_head_dim")) {
    set("head_dim", keys, "swa_head_dim", max_head_dim, shape.head_dim);
    shape.block = shape.head_dim;
  }
  if (const auto other = keys.has("attention_other_setting") ? keys.object("attention_other_setting") : std::nullopt) {
    set("heads", *other, "num_attention_heads", max_heads, shape.heads);
  }
}

bool is_mla(const Part& part) { return part.family.mla.rope != 0 && part.keys.boolean("use_mla", true); }

int layer_count(Reading& reading, const Part& part) {
  if (const auto own = part.family.quirk->layer_count) return own(reading, part);
  if (const auto layers = first_of_part(reading, "layers", part, layer_keys, max_layers)) return *layers;
  if (!may_stand_in(reading, part, part.family.shape.layers)) missing(part, "how many layers it has", layer_keys);
  return take_default(reading, part, "layers", "num_hidden_layers", part.family.shape.layers);
}

HeadShape head_shape(Reading& reading, const Part& part, const Layer& layer) {
  const Quirk& quirk = *part.family.quirk;
  if (quirk.head_shape != nullptr) return quirk.head_shape(reading, part);
  HeadShape shape;
  shape.heads = layer.heads != 0 ? layer.heads : read_heads(reading, part);
  shape.kv_heads = layer.kv_heads != 0 ? layer.kv_heads : read_kv_heads(reading, part, shape.heads);
  if (is_mla(part) || (!part.known && part.keys.has("qk_rope_head_dim"))) {
    read_mla_heads(reading, part, shape);
  } else if (quirk.head_dim != nullptr) {
    shape.head_dim = shape.block = quirk.head_dim(reading, part, shape.heads);
  } else {
    shape.head_dim = shape.block = read_head_dim(reading, part, shape.heads);
  }
  (quirk.heads_of_type != nullptr ? quirk.heads_of_type : read_heads_of_type)(reading, part, layer.type, shape);
  apply_layer(reading, layer, shape);
  return shape;
}

std::optional<std::string> context_key(const Object& keys) {
  for (const char* key : context_keys) {
    if (keys.length(key, max_length)) return key;
  }
  return std::nullopt;
}

std::optional<std::int64_t> context_length(const Object& keys) {
  const auto key = context_key(keys);
  return key ? keys.length(*key, max_length) : std::nullopt;
}

std::int64_t stated_context(Reading& reading, const Object& keys) {
  const auto key = context_key(keys);
  if (!key) return 0;
  reading.origins.read("context", keys, *key);
  return *keys.length(*key, max_length);
}

}  // namespace rotary::files
