// How many layers and heads, and how wide a head is.
#include "rotary/error.h"
#include "stages.h"
#include "values/fail.h"

namespace rotary::files {
namespace {

constexpr Names context_keys =
    "max_position_embeddings n_positions max_sequence_length seq_length max_seq_len model_max_length max_context";
constexpr Names layer_keys =
    "num_hidden_layers n_layer n_layers num_layers depth encoder_layers layers num_transformer_layers "
    "decoder_num_hidden_layers layers_num";
constexpr Names head_keys =
    "num_attention_heads n_head n_heads num_heads encoder_attention_heads heads decoder_num_attention_heads "
    "attention_heads heads_num";
constexpr Names kv_keys =
    "num_key_value_heads num_kv_heads n_head_kv n_kv_heads num_query_groups n_query_groups num_attention_groups "
    "decoder_num_key_value_heads";
constexpr Names head_dim_keys = "head_dim attention_head_dim kv_channels head_size hidden_size_per_head";

// A class default that may stand in; 0: none. At the top only where the caller asks: a whole model's own file says how
// large it is.
int stand_in(const Part& part, int default_value) {
  const bool may = !part.path.empty() || !part.family.prefix.empty() || part.reading.options.class_defaults;
  return may ? default_value : 0;
}

int read_kv_heads(const Part& part, int heads) {
  const Object& keys = part.keys;
  if (const auto attention = keys.object("attn_config")) {
    if (const auto kv =
            read_whole(part, {.value = "kv_heads", .keys = "kv_n_heads", .most = max_heads, .in = &*attention}))
      return *kv;
    if (attention->text("attn_type") == "multiquery_attention") {  // MPT
      part.origins().read("kv_heads", *attention, "attn_type");
      return 1;
    }
  }
  const bool grouped = keys.boolean("new_decoder_architecture", false);
  if (keys.boolean("multi_query", false) && !grouped) {  // its num_kv_heads is not read
    part.record("kv_heads", "multi_query");
    return 1;
  }
  if (const auto own = part.family.quirk->kv_heads) {
    if (const auto kv = own(part)) return *kv;
  }
  if (keys.boolean("multi_query_attention", false)) {  // ChatGLM
    if (const auto kv = read_whole(part, {"kv_heads", "multi_query_group_num", max_heads})) return *kv;
  }
  const auto kv = read_whole(part, {"kv_heads", kv_keys, max_heads});
  if (kv && heads % *kv == 0) return *kv;
  if (kv && !is_mla(part)) {
    fail(Code::CONFIG_VALUE, "read_config", keys.path_of("num_key_value_heads"), " must divide the ", heads,
         " heads but got ", *kv);
  }
  const bool null = keys.is_null("num_key_value_heads");
  const int default_value = part.family.shape.kv_heads;
  if (!kv && !null && default_value != 0 && heads % default_value == 0) {
    return take_default(part, "kv_heads", "num_key_value_heads", default_value);
  }
  part.derived("kv_heads", word_for(part, head_keys));
  if (!kv && part.family.tower == nullptr) {  // an MLA's number that does not fit is not used, nor spoken of
    part.note(NoteKind::derived, "num_key_value_heads is ", (null ? "null" : "not given"), ": ", heads,
              ", one for each head");
  }
  return heads;
}

int read_mla_size(const Part& part, Origin& from, const char* key, int default_value) {
  const bool given = part.keys.has(key);
  from = given ? from_key(part.keys, key) : Origin{OriginKind::model_default, part.name()};
  const auto size =
      read_whole(part, {.value = nullptr, .keys = key, .most = max_head_dim, .least = 0, .otherwise = default_value});
  if (!size) missing(part, "the sizes of its MLA heads", "qk_nope_head_dim qk_rope_head_dim");
  return *size;
}

void record_mla_head_dim(const Part& part) { part.derived("head_dim", "qk_nope_head_dim + qk_rope_head_dim"); }

// [nope | rope]
void read_mla_heads(const Part& part, HeadShape& shape) {
  Origin nope_from;
  shape.mla = true;
  shape.block = read_mla_size(part, shape.block_from, "qk_rope_head_dim", part.family.mla.rope);
  shape.first = read_mla_size(part, nope_from, "qk_nope_head_dim", part.family.mla.nope);
  part.origins().set("first", nope_from);
  record_mla_head_dim(part);
}

// Applies the values that the file has for this layer alone.
void apply_layer(const Part& part, const Layer& layer, HeadShape& shape) {
  if (layer.heads != 0) shape.heads = layer.heads;
  if (layer.kv_heads != 0) shape.kv_heads = layer.kv_heads;
  if (layer.head_dim != 0 && !shape.mla) shape.head_dim = shape.block = layer.head_dim;
  if (layer.nope != 0) shape.first = layer.nope;
  if (layer.rotating != 0) {
    shape.block = layer.rotating;
    shape.block_from = layer.turning_from;
  }
  part.origins().add(layer.origins);
  if (shape.mla && layer.has_own()) record_mla_head_dim(part);
  if (shape.mla) shape.head_dim = shape.first + shape.block;
}

}  // namespace

int hidden_per_head(const Part& part, int heads) {
  const Names names = part.family.width_key.empty() ? hidden_keys : part.family.width_key;
  constexpr std::int64_t max_hidden = std::int64_t{1} << 30;
  auto hidden =
      read_whole(part, {.value = nullptr, .keys = names, .most = max_hidden, .otherwise = part.family.shape.hidden});
  if (!hidden) missing(part, "how wide a head is", "head_dim hidden_size n_embd d_model");
  if (!part.family.prefix.empty()) {  // SAM 2's memory attention
    hidden = *hidden / read_whole(part, {nullptr, "downsample_rate", max_hidden}).value_or(1);
  }
  if (*hidden % heads != 0) {
    part.note(NoteKind::derived, "hidden_size ", *hidden, " is not a multiple of the ", heads,
              " heads: rounded down, as the frameworks read it");
  }
  if (*hidden < heads || *hidden / heads > max_head_dim) {
    fail(Code::CONFIG_VALUE, "read_config", part.keys.path_of("hidden_size"), " / heads must be from 1 to ",
         max_head_dim, " but got ", *hidden / heads);
  }
  part.derived("head_dim", word_for(part, names) + " / " + word_for(part, head_keys));
  return *hidden / heads;
}

int read_head_dim(const Part& part, int heads) {
  std::string why;
  for (const std::string_view key : words(head_dim_keys)) {
    const auto value = part.keys.integer(key, 0, max_head_dim);
    if (value && *value > 0) {
      part.record("head_dim", key);
      return static_cast<int>(*value);
    }
    if (!value && !part.keys.is_null(key)) continue;
    why = std::string(key) + " is " + (value ? "0" : "null");
    break;
  }
  const bool explained = !why.empty();
  if (!explained && part.family.shape.head_dim != 0) {
    return take_default(part, "head_dim", "head_dim", part.family.shape.head_dim);
  }
  const int dim = hidden_per_head(part, heads);
  part.note(NoteKind::derived, (explained ? why : "head_dim is not given"), ": hidden_size / heads = ", dim,
            (explained ? ", as the frameworks read it" : ""));
  return dim;
}

void read_heads_of_type(const Part& part, const std::string& layer_type, HeadShape& shape) {
  if (!slides(layer_type)) return;
  const auto set = [&](int& target, const Whole& row) { target = read_whole(part, row).value_or(target); };
  set(shape.heads, {"heads", "swa_num_attention_heads", max_heads});
  set(shape.kv_heads, {"kv_heads", "swa_num_key_value_heads", max_heads});
  set(shape.heads, {"heads", "num_sliding_attention_heads", max_heads});
  if (part.keys.has("swa_head_dim")) {
    set(shape.head_dim, {"head_dim", "swa_head_dim", max_head_dim});
    shape.block = shape.head_dim;
  }
  if (const auto other = part.keys.object("attention_other_setting")) {
    set(shape.heads, {.value = "heads", .keys = "num_attention_heads", .most = max_heads, .in = &*other});
  }
}

bool is_mla(const Part& part) { return part.family.mla.rope != 0 && part.keys.boolean("use_mla", true); }

int layer_count(const Part& part) {
  if (const auto own = part.family.quirk->layer_count) return own(part);
  return *read_whole(part, {.value = "layers",
                            .keys = layer_keys,
                            .most = max_layers,
                            .otherwise = stand_in(part, part.family.shape.layers),
                            .needed_for = "how many layers it has"});
}

HeadShape head_shape(const Part& part, const Layer& layer) {
  const Quirk& quirk = *part.family.quirk;
  if (quirk.head_shape != nullptr) return quirk.head_shape(part);
  HeadShape shape;
  shape.heads = layer.heads;
  if (shape.heads == 0) {
    shape.heads = *read_whole(part, {.value = "heads",
                                     .keys = head_keys,
                                     .most = max_heads,
                                     .otherwise = stand_in(part, part.family.shape.heads),
                                     .needed_for = "how many attention heads it has"});
  }
  shape.kv_heads = layer.kv_heads != 0 ? layer.kv_heads : read_kv_heads(part, shape.heads);
  if (is_mla(part) || (!part.known && part.keys.has("qk_rope_head_dim"))) {
    read_mla_heads(part, shape);
  } else if (quirk.head_dim != nullptr) {
    shape.head_dim = shape.block = quirk.head_dim(part, shape.heads);
  } else {
    shape.head_dim = shape.block = read_head_dim(part, shape.heads);
  }
  (quirk.heads_of_type != nullptr ? quirk.heads_of_type : read_heads_of_type)(part, layer.type, shape);
  apply_layer(part, layer, shape);
  return shape;
}

std::optional<std::string> context_key(const Object& keys) {
  for (const std::string_view key : words(context_keys)) {
    if (keys.length(key, max_length)) return std::string(key);
  }
  return std::nullopt;
}

std::optional<std::int64_t> context_length(const Object& keys) {
  const auto key = context_key(keys);
  return key ? keys.length(*key, max_length) : std::nullopt;
}

void record_context(const Part& part) {
  if (const auto key = context_key(part.keys)) part.record("context", *key);
}

}  // namespace rotary::files
