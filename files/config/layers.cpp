// The layers of a part: the type of each, its own values, and whether it has a rope.
#include <algorithm>

#include "rotary/error.h"
#include "stages.h"
#include "text/io.h"

namespace rotary::files {

bool attends(const std::string& type) {
  if (type == "linear_attention") return false;
  return type.empty() || type.find("attention") != std::string::npos || type.starts_with("hybrid") ||
         type == "minimax_m3_sparse" || type == "main" || type == "compress";
}

bool slides(const std::string& type) { return type == "sliding_attention" || type == "hybrid_sliding"; }

bool has_sliding_rope(const std::string& type) { return slides(type) || type == "main"; }

namespace {

// The list of that key with one value for each layer; nothing if it is missing or empty.
template <typename T>
std::optional<std::vector<T>> per_layer(const Part& part, const char* key, std::size_t layers,
                                        std::optional<std::vector<T>> values) {
  if (!values || values->empty()) return std::nullopt;
  if (values->size() < layers) {
    part.keys.refuse(key, "must have one entry for each of the " + std::to_string(layers) + " layers");
  }
  if (values->size() > layers) {
    part.note(NoteKind::unread, key, " has more entries than there are layers: the last ", values->size() - layers,
              " are not read");
    values->resize(layers);
  }
  return values;
}

// ---- the types: as in the file, from lists of indices, or by the model_type's pattern ----

std::string type_named(LayerKind kind) {
  constexpr const char* types[] = {"full_attention",
                                   "sliding_attention",
                                   "full_attention",
                                   "linear_attention",
                                   "hybrid",
                                   "indexed_attention",
                                   "mlp"};
  return types[static_cast<std::size_t>(kind)];
}

// The modern name of old names and of names in remote code.
std::string modern(const std::string& type) {
  if (type == "attention" || type == "global_attention" || type == "full") return "full_attention";
  if (type == "local_attention" || type == "sliding") return "sliding_attention";
  if (type == "mamba" || type == "mamba2" || type == "recurrent" || type == "linear") return "linear_attention";
  return type;
}

// The class default pattern, stretched to the file's period, if it has one.
std::vector<LayerKind> pattern_of(const Part& part) {
  std::vector<LayerKind> pattern = part.family.pattern.types;
  if (part.family.pattern.period_key.empty()) return pattern;
  const auto period = part.keys.integer(part.family.pattern.period_key, 1, 10000);
  if (!period) return pattern;
  const bool full_first = pattern.front() == LayerKind::full;
  const LayerKind other = full_first ? pattern.back() : pattern.front();
  pattern.assign(static_cast<std::size_t>(*period), other);
  (full_first ? pattern.front() : pattern.back()) = LayerKind::full;
  part.note(NoteKind::derived, "layer_types are not given: made from ", part.family.pattern.period_key);
  part.record("layers", part.family.pattern.period_key);
  return pattern;
}

std::vector<std::string> default_types(const Part& part, std::size_t layers) {
  if (part.family.pattern.types.size() > 1) part.by_default("layers");
  const std::vector<LayerKind> pattern = pattern_of(part);
  std::vector<std::string> types(layers);
  if (pattern.empty()) return types;
  for (std::size_t i = 0; i < layers; ++i) {
    types[i] = type_named(pattern[i % pattern.size()]);
  }
  if (part.family.pattern.first != LayerKind::none) types.front() = type_named(part.family.pattern.first);
  if (part.family.pattern.ends_full || part.family.pattern.last_full) types.back() = "full_attention";
  const std::string_view period = part.family.pattern.period_key;
  const bool noted = !period.empty() && part.keys.has(period);
  if (part.family.pattern.types.size() > 1 && !noted) {
    part.note(NoteKind::model_default, "layer_types are not given: the pattern of ", part.name(), " (", types.front(),
              ", ...)");
  }
  return types;
}

// A list of flags, one for each layer: its key, and the types for 1 and for other numbers. exact: a longer list is
// refused.
struct FlagList {
  const char *key, *one, *other;
  bool exact;
};
constexpr FlagList flag_lists[] = {{"attn_type_list", "full_attention", "linear_attention", true},           // MiniMax
                                   {"hybrid_layer_pattern", "sliding_attention", "full_attention", false}};  // MiMo

// Types from flags, or from a list of the layers with attention.
std::optional<std::vector<std::string>> types_from_numbers(const Part& part, std::size_t layers) {
  std::vector<std::string> types(layers, "linear_attention");
  for (const auto& [key, one, other, exact] : flag_lists) {
    const auto given = part.keys.integers(key);
    if (given && exact && given->size() != layers)
      part.keys.refuse(key, "must have one entry for each of the ", layers, " layers");
    const auto flags = per_layer(part, key, layers, given);
    if (!flags) continue;
    part.record("layers", key);
    for (std::size_t i = 0; i < layers; ++i) types[i] = (*flags)[i] == 1 ? one : other;
    return types;
  }
  const auto step = part.keys.integer("mamba_step", 2, 10000);
  if (step && part.keys.boolean("mamba_enabled", true)) {  // PLaMo 2: the middle layer of each step has attention
    part.record("layers", "mamba_step");
    const auto period = static_cast<std::size_t>(*step);
    for (std::size_t i = period / 2; i < layers; i += period) types[i] = "full_attention";
    if (layers <= period / 2) types.back() = "full_attention";
    return types;
  }
  for (const char* key : {"attn_layer_indices", "full_attn_idxs"}) {  // Bamba, LFM2
    const auto indices = part.keys.integers(key);
    if (!indices) continue;
    part.record("layers", key);
    for (const int i : *indices) {
      if (i < 0 || static_cast<std::size_t>(i) >= layers) {
        part.keys.refuse(key, "must list layers from 0 to ", layers - 1);
      }
      types[static_cast<std::size_t>(i)] = "full_attention";
    }
    return types;
  }
  return std::nullopt;
}

std::vector<std::string> types_as_written(const Part& part, std::size_t layers) {
  for (const char* key : {"layer_types", "layers_block_type"}) {
    auto given = part.keys.texts(key);
    if (!given) continue;
    part.record("layers", key);
    auto types = per_layer(part, key, layers, std::move(given));
    if (!types) part.keys.refuse(key, "must have one entry for each of the ", layers, " layers");
    std::transform(types->begin(), types->end(), types->begin(), modern);
    for (const std::string& type : *types) {
      if (!attends(type) && !is_listed(type, "linear_attention conv moe mlp sparse dense")) {
        part.keys.refuse(key, "must list known layer types (full_attention, sliding_attention, mamba, conv, ...), not ",
                         in_quotes(type));
      }
    }
    if (part.family.pattern.last_full) types->back() = "full_attention";
    return *types;
  }
  if (auto types = types_from_numbers(part, layers)) return *types;
  if (const auto period = part.keys.texts("block_types"); period && !period->empty()) {  // RecurrentGemma
    part.record("layers", "block_types");
    std::vector<std::string> types;
    for (std::size_t i = 0; i < layers; ++i) types.push_back(modern((*period)[i % period->size()]));
    return types;
  }
  return default_types(part, layers);
}

std::vector<std::string> layer_types(const Part& part, std::size_t layers) {
  std::vector<std::string> types = types_as_written(part, layers);
  const std::vector<LayerKind>& own = part.family.pattern.types;
  if (std::find(own.begin(), own.end(), LayerKind::indexed) != own.end()) {  // older files say full_attention
    std::replace(types.begin(), types.end(), type_named(LayerKind::full), type_named(LayerKind::indexed));
  }
  if (part.family.old == Old::scaling_to_compress) {
    const auto ratios = part.keys.integers("compress_ratios");
    for (std::size_t i = 0; i < layers; ++i) {
      const bool slides = types[i] == "sliding_attention" || (ratios && i < ratios->size() && (*ratios)[i] == 0);
      types[i] = slides ? "main" : "compress";
    }
    if (ratios) part.record("layers", "compress_ratios");
  }
  return types;
}

// ---- the layers' own values, and which of them turn ----

ValueOrigin given(const char* value, const Object& keys, const char* key) {
  return {value, {OriginKind::given, keys.path_of(key)}};
}

bool is_list(const Object& keys, const char* key) {
  const Json* found = keys.peek(key);
  return found != nullptr && found->is_array();
}

bool holds(const std::vector<int>& layers, std::size_t layer) {
  return std::find(layers.begin(), layers.end(), static_cast<int>(layer)) != layers.end();
}

// Calls set(layer, value) with each layer's value in that list; false if the file has no such list, or an empty one.
template <class T, class Set>
bool set_each(const Part& part, std::vector<Layer>& layers, const char* key, std::optional<std::vector<T>> list,
              Set set) {
  const auto values = per_layer(part, key, layers.size(), std::move(list));
  for (std::size_t i = 0; values && i < layers.size(); ++i) set(layers[i], (*values)[i]);
  return values.has_value();
}

template <class Keep>
void keep_turning(std::vector<Layer>& layers, Keep keep) {
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].turns = layers[i].turns && keep(i);
}

void read_bases(const Part& part, std::vector<Layer>& layers) {
  constexpr const char* key = "rope_theta";
  const Object& keys = part.keys;
  if (!is_list(keys, key)) return;
  if (part.known && !part.family.lists_bases) {
    keys.refuse(key, "must be one number (", part.name(), " has one base for all layers)");
  }
  const bool listed = set_each(part, layers, key, keys.numbers(key), [&](Layer& layer, double base) {
    layer.base = base;
    layer.origins.push_back(given("base", keys, key));
  });
  if (!listed) keys.refuse(key, "must have one entry for each layer");
  part.note(NoteKind::layers, "rope_theta is a list: one base for each layer");
}

void read_partials(const Part& part, std::vector<Layer>& layers) {
  constexpr const char* key = "partial_rotary_factors";
  set_each(part, layers, key, part.keys.numbers(key), [&](Layer& layer, double partial) {
    layer.partial = partial;
    layer.partial_from = from_key(part.keys, key);
  });
}

struct HeadList {
  const char* key;
  const char* value;
  int Layer::*member;
};
// OpenELM and Laguna, if these keys hold a list.
constexpr HeadList lists_or_numbers[] = {{"num_query_heads", "heads", &Layer::heads},
                                         {"num_attention_heads_per_layer", "heads", &Layer::heads},
                                         {"num_kv_heads", "kv_heads", &Layer::kv_heads}};
// DeciLM and Nemotron NAS.
constexpr HeadList kv_heads_list = {"num_key_value_heads_per_layer", "kv_heads", &Layer::kv_heads};

void read_list_of_heads(const Part& part, std::vector<Layer>& layers, const HeadList& list) {
  set_each(part, layers, list.key, part.keys.integers(list.key), [&](Layer& layer, int heads) {
    if (heads < 1) part.keys.refuse(list.key, "must list numbers of heads, at least 1");
    layer.*list.member = heads;
    layer.origins.push_back(given(list.value, part.keys, list.key));
  });
}

// The entry {"5": ...}, or "05" if there are more than ten layers.
std::optional<Object> entry_of_layer(const Object& all, std::size_t layer) {
  for (std::string key = std::to_string(layer); key.size() <= 5; key.insert(0, "0")) {
    if (all.has(key)) return all.object(key);
  }
  return std::nullopt;
}

// Files that transformers 5 saved: {"05": {"head_dim": 512}}.
void read_per_layer_config(const Part& part, std::vector<Layer>& layers) {
  const auto all = part.keys.object("per_layer_config");
  for (std::size_t i = 0; all && i < layers.size(); ++i) {
    const auto own = entry_of_layer(*all, i);
    if (!own) continue;
    Layer& layer = layers[i];
    const auto own_value = [&](const char* value, const char* key, int most) {
      const auto number = own->integer(key, 1, most);
      if (number) layer.origins.push_back(given(value, *own, key));
      return static_cast<int>(number.value_or(0));
    };
    layer.heads = own_value("heads", "num_attention_heads", max_heads);
    layer.kv_heads = own_value("kv_heads", "num_key_value_heads", max_heads);
    layer.head_dim = own_value("head_dim", "head_dim", max_head_dim);
    if (!is_mla(part)) continue;
    layer.nope = own_value("first", "qk_nope_head_dim", max_head_dim);
    layer.rotating = static_cast<int>(own->integer("qk_rope_head_dim", 1, max_head_dim).value_or(0));
    layer.turning_from = from_key(*own, "qk_rope_head_dim");
  }
}

// DeciLM and Nemotron NAS: each layer states how many query heads share a key head, and whether it has attention.
void read_block_configs(const Part& part, std::vector<Layer>& layers) {
  constexpr const char* key = "block_configs";
  const Json* blocks = part.keys.value(key);
  if (blocks == nullptr) return;
  if (!blocks->is_array() || blocks->size() != layers.size()) {
    part.keys.refuse(key, "must be a list of one object for each of the ", layers.size(), " layers");
  }
  part.record("layers", key);
  const auto heads = part.keys.integer("num_attention_heads", 1, max_heads);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!(*blocks)[i].is_object()) part.keys.refuse(key, "must list objects");
    const Object block((*blocks)[i], part.keys.path_of("block_configs[]"), part.reading.ledger);
    const auto attention = block.object("attention");
    if (!attention) continue;
    const auto group = attention->integer("n_heads_in_group", 1, max_heads);
    if (group && heads) {
      layers[i].kv_heads = static_cast<int>(std::max<std::int64_t>(1, *heads / *group));
      layers[i].origins.push_back({"kv_heads", {OriginKind::derived, "num_attention_heads / n_heads_in_group"}});
    }
    const bool off = attention->boolean("no_op", false);
    layers[i].turns = layers[i].turns && !off && !attention->boolean("replace_with_linear", false);
  }
}

// Llama 3.2 Vision: these layers attend to the image, without a rope.
void read_cross_layers(const Part& part, std::vector<Layer>& layers) {
  static const std::vector<int> default_value = {3, 8, 13, 18, 23, 28, 33, 38};
  const char* key = "cross_attention_layers";
  const auto own = part.keys.integers(key);
  part.record_or_default("layers", key);
  const std::vector<int> listed = own.value_or(default_value);
  keep_turning(layers, [&](std::size_t i) { return !holds(listed, i); });
  part.note(NoteKind::layers, key, (own ? "" : " are not given: the default of " + part.name()),
            " attend to the image and have no rope");
}

void read_scaled_layers(const Part& part, std::vector<Layer>& layers) {
  constexpr const char* key = "rope_scaling_layers";
  const auto scaled = part.keys.integers(key);
  if (!scaled) return;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].scaled = holds(*scaled, i);
    if (!layers[i].scaled) layers[i].origins.push_back(given("scaling", part.keys, key));
  }
  part.record("layers", key);
  part.note(NoteKind::layers, "rope_scaling_layers: the other layers keep the base without the scaling");
}

// 1 = the layer has a rope.
void read_no_rope_layers(const Part& part, std::vector<Layer>& layers) {
  constexpr const char *key = "no_rope_layers", *interval_key = "no_rope_layer_interval";
  auto flags = part.keys.integers(key);
  const auto interval = part.keys.integer(interval_key, 1, 10000);
  const bool listed = set_each(part, layers, key, std::move(flags), [&](Layer& layer, int flag) {
    if (flag != 0 && flag != 1) part.keys.refuse(key, "must list 0 and 1 (1 = with rope)");
    layer.turns = layer.turns && flag == 1;
  });
  if (listed) {
    part.record("layers", key);
    return part.note(NoteKind::layers, "no_rope_layers: 1 means with rope, 0 without");
  }
  part.record_or_default("layers", interval_key);
  const auto every = static_cast<std::size_t>(interval.value_or(4));
  keep_turning(layers, [&](std::size_t i) { return (i + 1) % every != 0; });
  part.note(NoteKind::layers, "every ", every, "th layer has no rope (",
            (interval ? "no_rope_layer_interval)" : "the default of " + part.name() + ")"));
}

// vLLM's list: true = the layer has a rope; an empty list has no effect.
void read_use_rope_layers(const Part& part, std::vector<Layer>& layers) {
  constexpr const char* key = "use_rope_layers";
  const Json* list = part.keys.value(key);
  if (list == nullptr) return;
  std::vector<int> flags;
  for (const Json& flag : *list) {
    if (!list->is_array() || !flag.is_boolean()) part.keys.refuse(key, "must be a list of booleans");
    flags.push_back(flag == true ? 1 : 0);
  }
  const bool listed = set_each(part, layers, key, std::optional(flags),
                               [](Layer& layer, int flag) { layer.turns = layer.turns && flag == 1; });
  if (listed) part.record("layers", key);
}

void read_layer_rope_theta(const Part& part, std::vector<Layer>& layers, bool flags_only) {
  constexpr const char* key = "layer_rope_theta";
  const bool listed = set_each(part, layers, key, part.keys.numbers(key), [&](Layer& layer, double base) {
    layer.turns = layer.turns && base != 0;
    if (flags_only || base == 0) return;
    layer.base = base;
    layer.origins.push_back(given("base", part.keys, key));
  });
  if (listed) {
    part.record("layers", key);
    part.note(NoteKind::layers, flags_only ? "layer_rope_theta: 0 means no rope; its other values are not read as bases"
                                           : "layer_rope_theta: one base for each layer, 0 means no rope");
  } else if (flags_only) {  // every fourth layer has none, counted from the last
    keep_turning(layers, [&](std::size_t i) { return (layers.size() - 1 - i) % 4 != 0; });
    part.by_default("layers");
  }
}

// Cohere 2 MoE: its first dense layers also have a rope, if prefix_dense_sliding_window_pattern is 1.
std::size_t dense_prefix(const Part& part) {
  if (part.keys.integer("prefix_dense_sliding_window_pattern", 0, 10000).value_or(1) != 1) return 0;
  return static_cast<std::size_t>(part.keys.integer("first_k_dense_replace", 0, 10000).value_or(0));
}

// OLMo Hybrid: null, for which other models would use a default.
bool says_null(const Object& keys) {
  const auto dict = keys.has("rope_parameters") ? keys.object("rope_parameters") : std::nullopt;
  return dict ? dict->is_null("rope_theta") : keys.is_null("rope_parameters") || keys.is_null("rope_theta");
}

// Baichuan 13B has a hidden_size of 5120, and model_max_length where 7B has max_position_embeddings.
bool has_alibi_size(const Object& keys) {
  const std::int64_t hidden = keys.integer("hidden_size", 1, 1 << 30).value_or(0);
  return hidden == 5120 || (hidden != 4096 && !keys.has("max_position_embeddings"));
}

// MPT: the rope's keys are understood even if it has no rope.
bool attention_turns(const Part& part) {
  const auto attention = part.keys.object("attn_config");
  if (!attention) return false;
  attention->mark_all("rope_dail_config");  // which library computes the same rope
  attention->mark("rope_impl");
  const bool turns = attention->boolean("rope", false);
  if (!turns) attention->mark_all("rope_hf_config");  // the scaling, if it has a rope
  return turns;
}

// Why no layer of the part has a rope, by a switch of the file; "" if they may have one.
std::string why_off(const Part& part) {
  const Object& keys = part.keys;
  const Flag& flag = part.family.turns_where;
  if (!flag.key.empty() && keys.boolean(flag.key).value_or(flag.default_value) != flag.on) {
    return std::string(flag.key) + (flag.on ? " is not true" : " is true");
  }
  switch (part.family.rule) {
    case Rule::unless_null:
      return says_null(keys) ? "rope_parameters or rope_theta is null" : "";
    case Rule::unless_alibi_size:
      return has_alibi_size(keys) ? "the sizes are those of " + part.name() + " 13B, which uses ALiBi" : "";
    case Rule::if_attn_config_rope:
      return attention_turns(part) ? "" : "attn_config.rope is not true";
    case Rule::if_rotary:
    case Rule::unless_not_rotary: {
      std::string kind = part.family.rule == Rule::unless_not_rotary ? "rotary" : "";
      for (const char* key : {"position_embedding_type", "position_embeddings_type"}) {
        kind = keys.text(key).value_or(kind);
      }
      if (kind == "rope" || kind == "rotary") return "";
      return "position_embedding_type is " + (kind.empty() ? "not given" : "\"" + kind + "\"");
    }
    default:
      return "";
  }
}

}  // namespace

std::vector<Layer> read_layers(const Part& part) {
  const auto n = static_cast<std::size_t>(layer_count(part));
  const std::vector<std::string> types = layer_types(part, n);
  std::vector<Layer> layers(n);
  const std::string off = why_off(part);
  if (!off.empty()) part.note(NoteKind::no_rope, off, ": no layer has a rope");
  for (std::size_t i = 0; i < n; ++i) {
    layers[i].type = types[i];
    layers[i].turns = off.empty() && attends(types[i]);
  }
  read_bases(part, layers);
  read_partials(part, layers);
  for (const HeadList& list : lists_or_numbers) {
    if (is_list(part.keys, list.key)) read_list_of_heads(part, layers, list);
  }
  read_per_layer_config(part, layers);
  read_list_of_heads(part, layers, kv_heads_list);
  read_block_configs(part, layers);
  if (const auto own = part.family.quirk->layers) own(part, layers);
  read_scaled_layers(part, layers);
  const Rule rule = part.family.rule;
  if (rule == Rule::no_rope_layers || (!part.known && part.keys.has("no_rope_layers"))) {
    read_no_rope_layers(part, layers);
  }
  if (rule == Rule::layer_rope_theta) read_layer_rope_theta(part, layers, false);
  if (rule == Rule::layer_rope_flags) read_layer_rope_theta(part, layers, true);
  if (rule == Rule::use_rope_layers) read_use_rope_layers(part, layers);
  if (rule == Rule::not_cross) read_cross_layers(part, layers);
  if (rule == Rule::sliding || rule == Rule::sliding_or_dense ||
      (rule == Rule::sliding_or_all && !part.keys.is_null("sliding_window"))) {
    const std::size_t dense = rule == Rule::sliding_or_dense ? dense_prefix(part) : 0;
    keep_turning(layers, [&](std::size_t i) { return i < dense || types[i] == "sliding_attention"; });
    part.note(NoteKind::layers, "only sliding_attention layers have a rope");
  }
  return layers;
}

}  // namespace rotary::files
