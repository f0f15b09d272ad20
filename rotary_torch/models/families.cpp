// The decoders of data/models.json, and the names that their files give to tensors.
#include "rotary_torch/models/families.h"

#include <sstream>

#include "files/text/io.h"
#include "rotary/error.h"

namespace rotary_torch {

using rotary::Code;
using rotary::files::Biases;
using rotary::files::Json;
using rotary::files::Object;
using rotary::files::Windows;

namespace {

constexpr TensorNames llama_names{.prefix = "model.",
                                  .trunk = "embed_tokens layers norm rotary_emb",
                                  .embedding = "embed_tokens",
                                  .layers = "layers",
                                  .attention_norm = "input_layernorm",
                                  .feed_norm = "post_attention_layernorm",
                                  .q = "self_attn.q_proj",
                                  .k = "self_attn.k_proj",
                                  .v = "self_attn.v_proj",
                                  .fused = {},
                                  .output = "self_attn.o_proj",
                                  .gate = "mlp.gate_proj",
                                  .up = "mlp.up_proj",
                                  .down = "mlp.down_proj",
                                  .final_norm = "norm",
                                  .heads = "lm_head"};

constexpr TensorNames gpt_neox_names{.prefix = "gpt_neox.",
                                     .trunk = "embed_in layers final_layer_norm rotary_emb",
                                     .embedding = "embed_in",
                                     .layers = "layers",
                                     .attention_norm = "input_layernorm",
                                     .feed_norm = "post_attention_layernorm",
                                     .q = {},
                                     .k = {},
                                     .v = {},
                                     .fused = "attention.query_key_value",
                                     .output = "attention.dense",
                                     .gate = {},
                                     .up = "mlp.dense_h_to_4h",
                                     .down = "mlp.dense_4h_to_h",
                                     .final_norm = "final_layer_norm",
                                     .heads = "embed_out lm_head"};

constexpr TensorNames gptj_names{.prefix = "transformer.",
                                 .trunk = "wte h ln_f",
                                 .embedding = "wte",
                                 .layers = "h",
                                 .attention_norm = "ln_1",
                                 .feed_norm = {},
                                 .q = "attn.q_proj",
                                 .k = "attn.k_proj",
                                 .v = "attn.v_proj",
                                 .fused = {},
                                 .output = "attn.out_proj",
                                 .gate = {},
                                 .up = "mlp.fc_in",
                                 .down = "mlp.fc_out",
                                 .final_norm = "ln_f",
                                 .heads = "lm_head"};

struct NamedNames {
  std::string_view name;  // DecoderFacts::names
  const TensorNames* names;
};
constexpr NamedNames names_table[] = {
    {"llama", &llama_names},
    {"gpt_neox", &gpt_neox_names},
    {"gptj", &gptj_names},
};

constexpr std::int64_t max_value = std::int64_t{1} << 40;

[[noreturn]] void refuse(Code code, const std::string& sentence) {
  throw rotary::Error(code, "[read_config] " + sentence);
}

bool is_gptj(const Family& family) { return family.decoder.names == "gptj"; }
bool is_gpt_neox(const Family& family) { return family.decoder.names == "gpt_neox"; }

// The value of the first spelling that the config has (attribute_map of the config class).
std::int64_t integer(const Object& keys, std::initializer_list<const char*> spellings, std::int64_t otherwise) {
  for (const char* key : spellings) {
    if (const auto value = keys.integer(key, 1, max_value)) return *value;
  }
  return otherwise;
}

// Refuses options that transformers supports and this library does not.
void refuse_unsupported(const Object& keys) {
  const auto filled = [&keys](const char* key) {
    const Json& json = keys.json();
    const auto found = json.find(key);
    return found != json.end() && !found->is_null() && !found->empty();
  };
  for (const char* key : {"quantization_config", "per_layer_config"}) {
    if (filled(key)) keys.refuse(key, "must be absent (this library does not honour it)");
  }
  if (!keys.boolean("is_causal", true)) keys.refuse("is_causal", "must be true: a decoder sees the past only");
}

void read_biases(const Family& family, const Object& keys, DecoderConfig& c) {
  bool bias = family.decoder.biases == Biases::always_but_output;
  if (family.decoder.biases == Biases::as_configured)
    bias = keys.boolean("attention_bias").value_or(family.decoder.attention_bias);
  c.qkv_bias = bias;
  c.output_bias = bias && family.decoder.biases != Biases::always_but_output;
  c.feed_bias = is_gptj(family) || is_gpt_neox(family) || (family.decoder.mlp_bias && keys.boolean("mlp_bias", false));
  c.head_bias = is_gptj(family);
}

std::int64_t window_of(const Object& keys) {
  constexpr std::int64_t otherwise = 4096;
  if (keys.is_null("sliding_window")) return 0;
  return keys.integer("sliding_window", 1, max_value).value_or(otherwise);
}

void read_windows(const Family& family, const Object& keys, DecoderConfig& c) {
  const auto count = static_cast<std::size_t>(c.layers);
  if (family.decoder.windows == Windows::all_layers) {
    if (const std::int64_t window = window_of(keys)) c.windows.assign(count, window);
    return;
  }
  if (family.decoder.windows == Windows::none) return;
  const bool used = keys.boolean("use_sliding_window", false);
  const std::int64_t window = used ? window_of(keys) : 0;
  const auto types = keys.texts("layer_types");
  if (!types) {
    const std::int64_t full = keys.integer("max_window_layers", -max_value, max_value).value_or(28);
    if (window == 0) return;
    for (std::int64_t i = 0; i < c.layers; ++i) c.windows.push_back(i >= full ? window : 0);
    return;
  }
  if (types->size() != count) {
    keys.refuse("layer_types", "must name one type for each of the " + std::to_string(count) + " layers");
  }
  for (const std::string& type : *types) {
    const bool slides = type == "sliding_attention";
    if (!slides && type != "full_attention") {
      keys.refuse("layer_types", "must name full_attention and sliding_attention only");
    }
    if (slides && window == 0) {
      keys.refuse("layer_types",
                  "must not name sliding_attention where use_sliding_window is false or there is no "
                  "sliding_window");
    }
    c.windows.push_back(slides ? window : 0);
  }
}

void read_activation(const Family& family, const Object& keys, DecoderConfig& c) {
  const char* key = is_gptj(family) ? "activation_function" : "hidden_act";
  const auto read = activation(keys.text(key).value_or(std::string(family.decoder.activation)));
  if (!read) keys.refuse(key, "must be an activation without weights of its own, such as silu, gelu, gelu_new or relu");
  c.activation = *read;
}

}  // namespace

const Family* decoder_family(std::string_view model_type) {
  const Family* family = rotary::files::find_family(model_type);
  return family == nullptr || family->decoder.names.empty() ? nullptr : family;
}

std::string decoder_families() {
  std::string types;
  for (const auto& [name, names] : names_table) {
    for (const std::string_view type : rotary::files::model_types()) {
      const Family* family = decoder_family(type);
      if (family != nullptr && family->decoder.names == name) types += (types.empty() ? "" : ", ") + std::string(type);
    }
  }
  return types;
}

const TensorNames& tensor_names(const Family& family) {
  for (const auto& [name, names] : names_table) {
    if (family.decoder.names == name) return *names;
  }
  refuse(Code::MODEL_TYPE, std::string(family.type) + " must be a decoder of data/models.json");
}

rotary::ModelRope sole_rope(const rotary::Model& model) {
  if (model.ropes.size() != 1) {
    refuse(Code::ROPE, "a decoder must have one rope for all of its layers but " + model.model_type + " has " +
                           std::to_string(model.ropes.size()));
  }
  const rotary::ModelRope& rope = model.ropes.front();
  if (!rope.layers_without_rope.empty()) {
    refuse(Code::ROPE, "all layers of a " + model.model_type + " must rotate but layer " +
                           std::to_string(rope.layers_without_rope.front()) + " does not");
  }
  return rope;
}

DecoderConfig read_family(const Family& family, const std::string& text, const Object& keys) {
  refuse_unsupported(keys);
  DecoderConfig c;
  c.model_type = family.type;
  c.rope = sole_rope(rotary::parse_config(text));
  c.angles = rotary::Angles::float32;
  c.vocabulary = integer(keys, {"vocab_size"}, family.decoder.vocabulary);
  c.layers = static_cast<std::int64_t>(c.rope->layers.size());
  c.heads = c.rope->heads;
  c.head_dim = c.rope->rope.head_dim;
  c.activation = Activation::silu;
  c.norm_eps = family.decoder.norm_eps;
  c.tied = keys.boolean("tie_word_embeddings", false);
  c.padding_id = keys.integer("pad_token_id", -1, max_value).value_or(-1);
  if (is_gptj(family)) {
    c.width = integer(keys, {"n_embd", "hidden_size"}, family.shape.hidden);
    c.feed_forward = integer(keys, {"n_inner"}, 4 * c.width);
    c.context = integer(keys, {"n_positions", "max_position_embeddings"}, family.context);
    c.norm_eps = keys.number("layer_norm_epsilon").value_or(family.decoder.norm_eps);
    c.residual = Residual::parallel_shared;
    c.finite_mask = true;
  } else {
    c.width = integer(keys, {"hidden_size"}, family.shape.hidden);
    c.feed_forward = integer(keys, {"intermediate_size"}, family.decoder.feed_forward);
    c.context = integer(keys, {"max_position_embeddings"}, family.context);
  }
  if (is_gpt_neox(family)) {
    c.norm_eps = keys.number("layer_norm_eps").value_or(family.decoder.norm_eps);
    if (keys.boolean("use_parallel_residual", true)) c.residual = Residual::parallel;
  }
  if (is_gptj(family) || is_gpt_neox(family)) {
    c.kv_heads = c.heads;
    if (c.heads * c.head_dim != c.width) {
      refuse(Code::CONFIG_VALUE, "the heads of " + std::string(family.type) + " must share the " +
                                     std::to_string(c.width) + " elements but are " + std::to_string(c.heads) + " of " +
                                     std::to_string(c.head_dim));
    }
  } else {
    c.kv_heads = c.rope->kv_heads;
    c.norm = Norm::rms;
    c.norm_eps = keys.number("rms_norm_eps").value_or(family.decoder.norm_eps);
    c.gated = true;
    c.qk_norm = family.decoder.qk_norm;
  }
  read_activation(family, keys, c);
  read_biases(family, keys, c);
  read_windows(family, keys, c);
  return c;
}

}  // namespace rotary_torch
