// Which layers there are, and which of them turn their queries and keys.
#include <algorithm>

#include "files/text/io.h"
#include "rotary/error.h"
#include "stages.h"

namespace rotary::files {
namespace {

ValueOrigin given(const char* value, const Object& keys, const char* key) {
  return {value, Origin::given, keys.path_of(key)};
}

bool is_list(const Object& keys, const char* key) {
  const auto found = keys.json().find(key);
  return found != keys.json().end() && found->is_array();
}

void read_lists(Reading& reading, const Part& part, std::vector<Layer>& layers) {
  const Object& keys = part.keys;
  const std::size_t n = layers.size();
  if (is_list(keys, "rope_theta") && part.known && !part.family.quirk->lists_bases) {
    keys.refuse("rope_theta", "must be one number (" + part.name() + " has one base for all layers)");
  }
  if (is_list(keys, "rope_theta")) {
    const auto bases = number_per_layer(reading, part, "rope_theta", n);
    if (!bases) keys.refuse("rope_theta", "must have one entry for each layer");
    for (std::size_t i = 0; i < n; ++i) {
      layers[i].base = (*bases)[i];
      layers[i].origins.push_back(given("base", keys, "rope_theta"));
    }
    reading.note(part.path, "rope_theta is a list: one base for each layer");
  }
  if (const auto partials = number_per_layer(reading, part, "partial_rotary_factors", n)) {
    for (std::size_t i = 0; i < n; ++i) {
      layers[i].partial = (*partials)[i];
      layers[i].partial_from = from_key(keys, "partial_rotary_factors");
    }
  }
}

// A list of heads, one number for each layer.
void read_list_of_heads(Reading& reading, const Part& part, std::vector<Layer>& layers, const char* value,
                        const char* key, int Layer::*member) {
  const auto heads = integer_per_layer(reading, part, key, layers.size());
  for (std::size_t i = 0; heads && i < layers.size(); ++i) {
    if ((*heads)[i] < 1) part.keys.refuse(key, "must list numbers of heads, at least 1");
    layers[i].*member = (*heads)[i];
    layers[i].origins.push_back(given(value, part.keys, key));
  }
}

// OpenELM and Laguna: where these keys hold a list.
void read_head_lists(Reading& reading, const Part& part, std::vector<Layer>& layers) {
  const auto read = [&](const char* value, const char* key, int Layer::*member) {
    if (is_list(part.keys, key)) read_list_of_heads(reading, part, layers, value, key, member);
  };
  read("heads", "num_query_heads", &Layer::heads);
  read("heads", "num_attention_heads_per_layer", &Layer::heads);
  read("kv_heads", "num_kv_heads", &Layer::kv_heads);
}

// {"5": ...}, or "05" where there are more than ten layers.
std::optional<Object> entry_of_layer(const Object& all, std::size_t layer) {
  for (std::string key = std::to_string(layer); key.size() <= 5; key.insert(0, "0")) {
    if (all.has(key)) return all.object(key);
  }
  return std::nullopt;
}

// Files that transformers 5 saved: {"05": {"head_dim": 512}}.
void read_per_layer_config(const Part& part, std::vector<Layer>& layers) {
  const auto all = part.keys.has("per_layer_config") ? part.keys.object("per_layer_config") : std::nullopt;
  if (!all) return;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto own = entry_of_layer(*all, i);
    if (!own) continue;
    const auto own_value = [&](const char* value, const char* word, int most) {
      const auto number = own->integer(word, 1, most);
      if (number) layers[i].origins.push_back(given(value, *own, word));
      return static_cast<int>(number.value_or(0));
    };
    layers[i].heads = own_value("heads", "num_attention_heads", 65536);
    layers[i].kv_heads = own_value("kv_heads", "num_key_value_heads", 65536);
    layers[i].head_dim = own_value("head_dim", "head_dim", 16384);
    if (!is_mla(part)) continue;
    layers[i].nope = own_value("first", "qk_nope_head_dim", 16384);
    layers[i].rotating = static_cast<int>(own->integer("qk_rope_head_dim", 1, 16384).value_or(0));
    layers[i].turning_from = from_key(*own, "qk_rope_head_dim");
  }
}

// DeciLM and Nemotron NAS: each layer says how many query heads share one key head, and whether it attends at all.
void read_block_configs(Reading& reading, const Part& part, std::vector<Layer>& layers) {
  read_list_of_heads(reading, part, layers, "kv_heads", "num_key_value_heads_per_layer", &Layer::kv_heads);
  const Json* blocks = part.keys.value("block_configs");
  if (blocks == nullptr) return;
  if (!blocks->is_array() || blocks->size() != layers.size()) {
    part.keys.refuse("block_configs",
                     "must be a list of one object for each of the " + std::to_string(layers.size()) + " layers");
  }
  reading.origins.read("layers", part.keys, "block_configs");
  const auto heads = part.keys.integer("num_attention_heads", 1, 65536);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (!(*blocks)[i].is_object()) part.keys.refuse("block_configs", "must list objects");
    const auto attention =
        Object((*blocks)[i], part.keys.path_of("block_configs[]"), reading.ledger).object("attention");
    if (!attention) continue;
    const auto group = attention->integer("n_heads_in_group", 1, 65536);
    if (group && heads) {
      layers[i].kv_heads = static_cast<int>(std::max<std::int64_t>(1, *heads / *group));
      layers[i].origins.push_back({"kv_heads", Origin::derived, "num_attention_heads / n_heads_in_group"});
    }
    const bool off = attention->boolean("no_op", false);
    layers[i].turns = layers[i].turns && !off && !attention->boolean("replace_with_linear", false);
  }
}

// Llama 3.2 Vision: these layers attend to the image, without a rope.
void read_cross_layers(Reading& reading, const Part& part, std::vector<Layer>& layers) {
  static const std::vector<int> default_value = {3, 8, 13, 18, 23, 28, 33, 38};
  const char* key = "cross_attention_layers";
  const auto own = part.keys.integers(key);
  reading.origins.read_or_by_default("layers", part.keys, key, part.name());
  for (const int i : own.value_or(default_value)) {
    if (i >= 0 && static_cast<std::size_t>(i) < layers.size()) layers[static_cast<std::size_t>(i)].turns = false;
  }
  reading.note(part.path, std::string(key) + (own ? "" : " are not given: the default of " + part.name()) +
                              " attend to the image and have no rope");
}

void read_scaled_layers(Reading& reading, const Part& part, std::vector<Layer>& layers) {
  const auto scaled = part.keys.integers("rope_scaling_layers");
  if (!scaled) return;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    layers[i].scaled = std::find(scaled->begin(), scaled->end(), static_cast<int>(i)) != scaled->end();
    if (!layers[i].scaled) layers[i].origins.push_back(given("scaling", part.keys, "rope_scaling_layers"));
  }
  reading.origins.read("layers", part.keys, "rope_scaling_layers");
  reading.note(part.path, "rope_scaling_layers: the other layers keep the base without the scaling");
}

// 1 = the layer has a rope.
void read_no_rope_layers(Reading& reading, const Part& part, std::vector<Layer>& layers) {
  const auto flags = integer_per_layer(reading, part, "no_rope_layers", layers.size());
  const auto interval = part.keys.integer("no_rope_layer_interval", 1, 10000);
  if (flags) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if ((*flags)[i] != 0 && (*flags)[i] != 1) part.keys.refuse("no_rope_layers", "must list 0 and 1 (1 = with rope)");
      layers[i].turns = layers[i].turns && (*flags)[i] == 1;
    }
    reading.origins.read("layers", part.keys, "no_rope_layers");
    reading.note(part.path, "no_rope_layers: 1 means with rope, 0 without");
    return;
  }
  reading.origins.read_or_by_default("layers", part.keys, "no_rope_layer_interval", part.name());
  const auto every = static_cast<std::size_t>(interval.value_or(4));
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].turns = layers[i].turns && (i + 1) % every != 0;
  reading.note(part.path, "every " + std::to_string(every) + "th layer has no rope (" +
                              (interval ? "no_rope_layer_interval)" : "the default of " + part.name() + ")"));
}

// vLLM's: true = the layer has a rope; an empty list says nothing.
void read_use_rope_layers(Reading& reading, const Part& part, std::vector<Layer>& layers) {
  constexpr const char* key = "use_rope_layers";
  const Json* list = part.keys.value(key);
  if (list == nullptr) return;
  std::vector<int> given;
  for (const Json& flag : *list) {
    if (!list->is_array() || !flag.is_boolean()) part.keys.refuse(key, "must be a list of booleans");
    given.push_back(flag == true ? 1 : 0);
  }
  const auto flags = per_layer(reading, part, key, layers.size(), std::optional(given));
  if (!flags) return;
  for (std::size_t i = 0; i < layers.size(); ++i) layers[i].turns = layers[i].turns && (*flags)[i] == 1;
  reading.origins.read("layers", part.keys, key);
}

void read_layer_rope_theta(Reading& reading, const Part& part, std::vector<Layer>& layers) {
  const auto bases = number_per_layer(reading, part, "layer_rope_theta", layers.size());
  const bool flags_only = part.family.rule == Rule::layer_rope_flags;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (bases) {
      layers[i].turns = layers[i].turns && (*bases)[i] != 0;
      if (flags_only || (*bases)[i] == 0) continue;
      layers[i].base = (*bases)[i];
      layers[i].origins.push_back(given("base", part.keys, "layer_rope_theta"));
    } else if (flags_only) {  // every fourth has none, counted from the last
      layers[i].turns = layers[i].turns && (layers.size() - 1 - i) % 4 != 0;
    }
  }
  if (!bases && flags_only) reading.origins.by_default("layers", part.name());
  if (bases) {
    reading.origins.read("layers", part.keys, "layer_rope_theta");
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

// Baichuan 13B has a hidden_size of 5120, and model_max_length where 7B has max_position_embeddings.
bool has_alibi_size(const Object& keys) {
  const std::int64_t hidden = keys.integer("hidden_size", 1, 1 << 30).value_or(0);
  return hidden == 5120 || (hidden != 4096 && !keys.has("max_position_embeddings"));
}

// A switch of the whole part.
bool switched_off(Reading& reading, const Part& part) {
  const Object& keys = part.keys;
  const Flag& flag = part.family.turns_where;
  if (!flag.key.empty() && keys.boolean(flag.key).value_or(flag.default_value) != flag.on) {
    reading.note(part.path, std::string(flag.key) + (flag.on ? " is not true" : " is true") + ": no layer has a rope");
    return true;
  }
  if (part.family.rule == Rule::unless_null && says_null(keys)) {
    reading.note(part.path, "rope_parameters or rope_theta is null: no layer has a rope");
    return true;
  }
  if (part.family.rule == Rule::unless_alibi_size && has_alibi_size(keys)) {
    reading.note(part.path, "the sizes are those of " + part.name() + " 13B, which uses ALiBi: no layer has a rope");
    return true;
  }
  if (part.family.rule == Rule::if_attn_config_rope) {
    const auto attention = keys.object("attn_config");
    const bool turns = attention && attention->boolean("rope", false);
    if (attention) attention->mark_all("rope_dail_config");  // which library computes the same rope
    if (attention) attention->mark("rope_impl");
    if (turns) {
      return false;
    }
    if (attention) attention->mark_all("rope_hf_config");  // its scaling, where it turns
    reading.note(part.path, "attn_config.rope is not true: no layer has a rope");
    return true;
  }
  if (part.family.rule == Rule::if_rotary || part.family.rule == Rule::unless_not_rotary) {
    std::string kind = part.family.rule == Rule::unless_not_rotary ? "rotary" : "";
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
  read_head_lists(reading, part, layers);
  read_per_layer_config(part, layers);
  read_block_configs(reading, part, layers);
  if (const auto own = part.family.quirk->layers) own(reading, part, layers);
  read_scaled_layers(reading, part, layers);
  const Rule rule = part.family.rule;
  if (rule == Rule::no_rope_layers || (!part.known && part.keys.has("no_rope_layers"))) {
    read_no_rope_layers(reading, part, layers);
  }
  if (rule == Rule::layer_rope_theta || rule == Rule::layer_rope_flags) read_layer_rope_theta(reading, part, layers);
  if (rule == Rule::use_rope_layers) read_use_rope_layers(reading, part, layers);
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
