// Which layers there are, of which type, and which of them turn their queries and keys.
#include <algorithm>

#include "config.h"
#include "io.h"
#include "rotary/error.h"

namespace rotary::files {
namespace {

std::string type_named(char letter) {
  switch (letter) {
    case 's':
      return "sliding_attention";
    case 'l':
      return "linear_attention";
    case 'h':
      return "hybrid";
    default:
      return "full_attention";
  }
}

// Old and remote-code names.
std::string modern(const std::string& type) {
  if (type == "attention" || type == "global_attention" || type == "full") return "full_attention";
  if (type == "local_attention" || type == "sliding") return "sliding_attention";
  if (type == "mamba" || type == "mamba2" || type == "recurrent" || type == "linear") return "linear_attention";
  return type;
}

bool attends(const std::string& type) {
  if (type == "linear_attention") return false;
  return type.empty() || type.find("attention") != std::string::npos || type.starts_with("hybrid") ||
         type == "minimax_m3_sparse" || type == "main" || type == "compress";
}

// Layers without attention that files name beside those with.
bool is_known_without_attention(const std::string& type) {
  static constexpr std::string_view known[] = {"linear_attention", "conv", "moe", "mlp", "sparse", "dense"};
  return std::find(std::begin(known), std::end(known), type) != std::end(known);
}

// The class default pattern, stretched to the file's own period where it has one.
std::string pattern_of(Reading& reading, const Part& part) {
  std::string pattern(part.family.pattern);
  if (part.family.pattern_key.empty()) return pattern;
  const auto period = part.keys.integer(part.family.pattern_key, 1, 10000);
  if (!period) return pattern;
  const bool full_first = pattern.front() == 'f';
  const char other = full_first ? pattern.back() : pattern.front();
  pattern.assign(static_cast<std::size_t>(*period), other);
  (full_first ? pattern.front() : pattern.back()) = 'f';
  reading.note(part.path, "layer_types are not given: made from " + std::string(part.family.pattern_key));
  return pattern;
}

std::vector<std::string> default_types(Reading& reading, const Part& part, std::size_t layers) {
  const std::string pattern = pattern_of(reading, part);
  std::vector<std::string> types(layers);
  if (pattern.empty()) return types;
  for (std::size_t i = 0; i < layers; ++i) {
    types[i] = type_named(pattern[i % pattern.size()]);
  }
  if (part.family.first_type != 0) types.front() = type_named(part.family.first_type);
  if (part.family.last_full) types.back() = "full_attention";
  if (part.family.pattern.size() > 1) {
    reading.note(part.path,
                 "layer_types are not given: the pattern of " + part.name() + " (" + types.front() + ", ...)");
  }
  return types;
}

// attn_layer_indices (Bamba), full_attn_idxs (LFM2): the layers that attend; the others do not.
std::optional<std::vector<std::string>> types_from_indices(const Part& part, std::size_t layers) {
  if (const auto flags = part.keys.integers("attn_type_list")) {  // MiniMax-01
    if (flags->size() != layers) {
      part.keys.refuse("attn_type_list", "must have one entry for each of the " + std::to_string(layers) + " layers");
    }
    std::vector<std::string> types;
    for (const int flag : *flags) types.push_back(flag == 1 ? "full_attention" : "linear_attention");
    return types;
  }
  for (const char* key : {"attn_layer_indices", "full_attn_idxs"}) {
    const auto indices = part.keys.integers(key);
    if (!indices) continue;
    std::vector<std::string> types(layers, "linear_attention");
    for (const int i : *indices) {
      if (i < 0 || static_cast<std::size_t>(i) >= layers) {
        part.keys.refuse(key, "must list layers from 0 to " + std::to_string(layers - 1));
      }
      types[static_cast<std::size_t>(i)] = "full_attention";
    }
    return types;
  }
  return std::nullopt;
}

std::vector<std::string> types_as_written(Reading& reading, const Part& part, std::size_t layers) {
  for (const char* key : {"layer_types", "layers_block_type"}) {
    auto types = part.keys.texts(key);
    if (!types) continue;
    if (types->size() < layers) {
      part.keys.refuse(key, "must have one entry for each of the " + std::to_string(layers) + " layers");
    }
    if (types->size() > layers) {
      reading.note(part.path, std::string(key) + " has more entries than there are layers: the last " +
                                  std::to_string(types->size() - layers) + " are not read");
      types->resize(layers);
    }
    std::transform(types->begin(), types->end(), types->begin(), modern);
    for (const std::string& type : *types) {
      if (!attends(type) && !is_known_without_attention(type)) {
        part.keys.refuse(key,
                         "must list known layer types (full_attention, sliding_attention, mamba, conv, ...), not " +
                             in_quotes(type));
      }
    }
    if (part.family.last_full) types->back() = "full_attention";
    return *types;
  }
  if (auto types = types_from_indices(part, layers)) return *types;
  if (const auto period = part.keys.texts("block_types"); period && !period->empty()) {  // RecurrentGemma
    std::vector<std::string> types;
    for (std::size_t i = 0; i < layers; ++i) types.push_back(modern((*period)[i % period->size()]));
    return types;
  }
  return default_types(reading, part, layers);
}

std::vector<std::string> layer_types(Reading& reading, const Part& part, std::size_t layers) {
  std::vector<std::string> types = types_as_written(reading, part, layers);
  if (part.family.old == Old::scaling_to_compress) {
    const auto ratios = part.keys.integers("compress_ratios");
    for (std::size_t i = 0; i < layers; ++i) {
      const bool slides = types[i] == "sliding_attention" || (ratios && i < ratios->size() && (*ratios)[i] == 0);
      types[i] = slides ? "main" : "compress";
    }
  }
  return types;
}

template <typename T>
std::optional<std::vector<T>> per_layer(Reading& reading, const Part& part, const char* key, std::size_t layers,
                                        std::optional<std::vector<T>> values) {
  if (!values || values->empty()) return std::nullopt;
  if (values->size() < layers) {
    part.keys.refuse(key, "must have one entry for each of the " + std::to_string(layers) + " layers");
  }
  if (values->size() > layers) {
    reading.note(part.path, std::string(key) + " has more entries than there are layers: the last ones are not read");
    values->resize(layers);
  }
  return values;
}

bool is_list(const Object& keys, const char* key) {
  const auto found = keys.json().find(key);
  return found != keys.json().end() && found->is_array();
}

void read_lists(Reading& reading, const Part& part, std::vector<Layer>& layers) {
  const Object& keys = part.keys;
  const std::size_t n = layers.size();
  if (is_list(keys, "rope_theta")) {
    const auto bases = per_layer(reading, part, "rope_theta", n, keys.numbers("rope_theta"));
    if (!bases) keys.refuse("rope_theta", "must have one entry for each layer");
    for (std::size_t i = 0; i < n; ++i) layers[i].base = (*bases)[i];
    reading.note(part.path, "rope_theta is a list: one base for each layer");
  }
  if (const auto partials =
          per_layer(reading, part, "partial_rotary_factors", n, keys.numbers("partial_rotary_factors"))) {
    for (std::size_t i = 0; i < n; ++i) layers[i].partial = (*partials)[i];
  }
}

// Files that transformers 5 saved: {"5": {"head_dim": 512}}.
void read_per_layer_config(const Part& part, std::vector<Layer>& layers) {
  const auto all = part.keys.has("per_layer_config") ? part.keys.object("per_layer_config") : std::nullopt;
  if (!all) return;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string key = std::to_string(i);
    const auto own = all->has(key) ? all->object(key) : std::nullopt;
    if (!own) continue;
    layers[i].heads = static_cast<int>(own->integer("num_attention_heads", 1, 65536).value_or(0));
    layers[i].kv_heads = static_cast<int>(own->integer("num_key_value_heads", 1, 65536).value_or(0));
    layers[i].head_dim = static_cast<int>(own->integer("head_dim", 1, 16384).value_or(0));
  }
}

// DeciLM and Nemotron NAS: each layer says how many query heads share one key head, and whether it attends at all.
void read_block_configs(Reading& reading, const Part& part, std::vector<Layer>& layers) {
  if (const auto kv = per_layer(reading, part, "num_key_value_heads_per_layer", layers.size(),
                                part.keys.integers("num_key_value_heads_per_layer"))) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if ((*kv)[i] < 1) part.keys.refuse("num_key_value_heads_per_layer", "must list numbers of heads, at least 1");
      layers[i].kv_heads = (*kv)[i];
    }
  }
  const Json* blocks = part.keys.value("block_configs");
  if (blocks == nullptr) return;
  if (!blocks->is_array() || blocks->size() != layers.size()) {
    part.keys.refuse("block_configs",
                     "must be a list of one object for each of the " + std::to_string(layers.size()) + " layers");
  }
  const auto heads = part.keys.integer("num_attention_heads", 1, 65536);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!(*blocks)[i].is_object()) part.keys.refuse("block_configs", "must list objects");
    const auto attention =
        Object((*blocks)[i], part.keys.path_of("block_configs[]"), reading.ledger).object("attention");
    if (!attention) continue;
    const auto group = attention->integer("n_heads_in_group", 1, 65536);
    if (group && heads) layers[i].kv_heads = static_cast<int>(std::max<std::int64_t>(1, *heads / *group));
    const bool off = attention->boolean("no_op").value_or(false);
    layers[i].turns = layers[i].turns && !off && !attention->boolean("replace_with_linear").value_or(false);
  }
}

// Llama 3.2 Vision: these layers attend to the image, without a rope.
void read_cross_layers(Reading& reading, const Part& part, std::vector<Layer>& layers) {
  static const std::vector<int> usual = {3, 8, 13, 18, 23, 28, 33, 38};
  const auto given = part.keys.integers("cross_attention_layers");
  for (const int i : given.value_or(usual)) {
    if (i >= 0 && static_cast<std::size_t>(i) < layers.size()) layers[static_cast<std::size_t>(i)].turns = false;
  }
  reading.note(part.path, std::string("cross_attention_layers") +
                              (given ? "" : " are not given: the default of " + part.name()) +
                              " attend to the image and have no rope");
}

void read_scaled_layers(Reading& reading, const Part& part, std::vector<Layer>& layers) {
  const auto scaled = part.keys.integers("rope_scaling_layers");
  if (!scaled) return;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].scaled = std::find(scaled->begin(), scaled->end(), static_cast<int>(i)) != scaled->end();
  }
  reading.note(part.path, "rope_scaling_layers: the other layers keep the base without the scaling");
}

// 1 = the layer has a rope.
void read_no_rope_layers(Reading& reading, const Part& part, std::vector<Layer>& layers) {
  const auto flags = per_layer(reading, part, "no_rope_layers", layers.size(), part.keys.integers("no_rope_layers"));
  const auto interval = part.keys.integer("no_rope_layer_interval", 1, 10000);
  if (flags) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if ((*flags)[i] != 0 && (*flags)[i] != 1) part.keys.refuse("no_rope_layers", "must list 0 and 1 (1 = with rope)");
      layers[i].turns = layers[i].turns && (*flags)[i] == 1;
    }
    reading.note(part.path, "no_rope_layers: 1 means with rope, 0 without");
    return;
  }
  const auto every = static_cast<std::size_t>(interval.value_or(4));
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].turns = layers[i].turns && (i + 1) % every != 0;
  reading.note(part.path, "every " + std::to_string(every) + "th layer has no rope (" +
                              (interval ? "no_rope_layer_interval)" : "the default of " + part.name() + ")"));
}

void read_layer_rope_theta(Reading& reading, const Part& part, std::vector<Layer>& layers) {
  const auto bases = per_layer(reading, part, "layer_rope_theta", layers.size(), part.keys.numbers("layer_rope_theta"));
  const bool flags_only = part.family.rule == Rule::layer_rope_flags;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (bases) {
      layers[i].turns = layers[i].turns && (*bases)[i] != 0;
      if (!flags_only && (*bases)[i] != 0) layers[i].base = (*bases)[i];
    } else if (flags_only) {  // every fourth has none, counted from the last
      layers[i].turns = layers[i].turns && (layers.size() - 1 - i) % 4 != 0;
    }
  }
  if (bases) {
    reading.note(part.path, flags_only ? "layer_rope_theta: 0 means no rope; its other values are not read as bases"
                                       : "layer_rope_theta: one base for each layer, 0 means no rope");
  }
}

// Cohere 2 MoE: its first dense layers turn too, where prefix_dense_sliding_window_pattern is 1.
std::size_t dense_prefix(const Part& part) {
  if (part.keys.integer("prefix_dense_sliding_window_pattern", 0, 10000).value_or(1) != 1) return 0;
  return static_cast<std::size_t>(part.keys.integer("first_k_dense_replace", 0, 10000).value_or(0));
}

// OLMo Hybrid: null where other models would take a default.
bool says_null(const Object& keys) {
  const auto dict = keys.has("rope_parameters") ? keys.object("rope_parameters") : std::nullopt;
  return dict ? dict->is_null("rope_theta") : keys.is_null("rope_parameters") || keys.is_null("rope_theta");
}

// A switch of the whole part.
bool switched_off(Reading& reading, const Part& part) {
  const Object& keys = part.keys;
  if (part.family.rule == Rule::not_alibi && keys.boolean("alibi").value_or(false)) {
    reading.note(part.path, "alibi is true: no layer has a rope");
    return true;
  }
  if (part.family.rule == Rule::if_use_mem_rope && !keys.boolean("use_mem_rope").value_or(false)) {
    reading.note(part.path, "use_mem_rope is not true: no layer has a rope");
    return true;
  }
  if (part.family.rule == Rule::if_rope && !keys.boolean("rope").value_or(false)) {
    reading.note(part.path, "rope is not true: no layer has a rope");
    return true;
  }
  if (part.family.rule == Rule::unless_null && says_null(keys)) {
    reading.note(part.path, "rope_parameters or rope_theta is null: no layer has a rope");
    return true;
  }
  if (part.family.rule == Rule::if_hidden_4096 && keys.integer("hidden_size", 1, 1 << 30).value_or(0) != 4096) {
    reading.note(part.path, "hidden_size is not 4096: this " + part.name() + " uses ALiBi, no layer has a rope");
    return true;
  }
  if (part.family.rule == Rule::if_attn_config_rope) {
    const auto attention = keys.object("attn_config");
    const bool turns = attention && attention->boolean("rope").value_or(false);
    if (attention) attention->mark_all("rope_dail_config");  // which library computes the same rope
    if (attention) attention->mark("rope_impl");
    if (turns) {
      const auto scaling = attention->object("rope_hf_config");
      if (scaling && scaling->text("type") == "no_scaling") attention->mark_all("rope_hf_config");
      return false;
    }
    if (attention) attention->mark_all("rope_hf_config");  // its scaling, where it turns
    reading.note(part.path, "attn_config.rope is not true: no layer has a rope");
    return true;
  }
  if (part.family.rule == Rule::if_rotary) {
    std::string kind;
    for (const char* key : {"position_embedding_type", "position_embeddings_type"}) {
      if (const auto text = keys.text(key)) kind = *text;
    }
    if (kind == "rope" || kind == "rotary") return false;
    reading.note(part.path, "position_embedding_type is " + (kind.empty() ? "not given" : "\"" + kind + "\"") +
                                ": no layer has a rope");
    return true;
  }
  return false;
}

}  // namespace

std::vector<Layer> read_layers(Reading& reading, const Part& part) {
  const auto n = static_cast<std::size_t>(layer_count(reading, part));
  const std::vector<std::string> types = layer_types(reading, part, n);
  std::vector<Layer> layers(n);
  const bool off = switched_off(reading, part);
  for (std::size_t i = 0; i < n; ++i) {
    layers[i].type = types[i];
    layers[i].turns = !off && attends(types[i]);
  }
  read_lists(reading, part, layers);
  read_per_layer_config(part, layers);
  read_block_configs(reading, part, layers);
  read_scaled_layers(reading, part, layers);
  const Rule rule = part.family.rule;
  if (rule == Rule::no_rope_layers || (!part.known && part.keys.has("no_rope_layers"))) {
    read_no_rope_layers(reading, part, layers);
  }
  if (rule == Rule::layer_rope_theta || rule == Rule::layer_rope_flags) read_layer_rope_theta(reading, part, layers);
  if (rule == Rule::not_cross) read_cross_layers(reading, part, layers);
  const bool sliding = rule == Rule::sliding || rule == Rule::sliding_or_dense ||
                       (rule == Rule::sliding_or_all && !part.keys.is_null("sliding_window"));
  if (sliding) {
    const std::size_t dense = rule == Rule::sliding_or_dense ? dense_prefix(part) : 0;
    for (std::size_t i = dense; i < n; ++i) {
      layers[i].turns = layers[i].turns && layers[i].type == "sliding_attention";
    }
    reading.note(part.path, "only sliding_attention layers have a rope");
  }
  return layers;
}

}  // namespace rotary::files
