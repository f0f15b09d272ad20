// The families, one row each, from transformers 5.23's config classes and modelling files.
#include "rotary_torch/models/families.h"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "files/text/io.h"
#include "rotary/error.h"

namespace rotary_torch {

using rotary::Code;
using rotary::files::Json;
using rotary::files::Object;

namespace {

enum class Windows : std::uint8_t {
  none,
  all_layers,  // sliding_window, unless it is null
  by_layer,    // use_sliding_window, max_window_layers or layer_types
};
// Which biases attention has. as_configured: the config's attention_bias.
enum class Biases : std::uint8_t { never, as_configured, always_but_output };

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

}  // namespace

struct Family {
  std::string_view type;
  const TensorNames* names = &llama_names;
  // Class defaults of the keys that a file may leave out.
  std::int64_t vocabulary, width, feed_forward, context;
  std::string_view activation = "silu";
  double norm_eps = 1e-6;
  Windows windows = Windows::none;
  Biases biases = Biases::never;
  bool attention_bias = false;  // as_configured: the default
  bool mlp_bias = false;        // read from the file
  bool qk_norm = false;
};

namespace {

constexpr Family family_table[] = {
    {.type = "llama",
     .vocabulary = 32000,
     .width = 4096,
     .feed_forward = 11008,
     .context = 2048,
     .biases = Biases::as_configured,
     .mlp_bias = true},
    {.type = "mistral",
     .vocabulary = 32000,
     .width = 4096,
     .feed_forward = 14336,
     .context = 131072,
     .windows = Windows::all_layers},
    {.type = "qwen2",
     .vocabulary = 151936,
     .width = 4096,
     .feed_forward = 22016,
     .context = 32768,
     .windows = Windows::by_layer,
     .biases = Biases::always_but_output},
    {.type = "qwen3",
     .vocabulary = 151936,
     .width = 4096,
     .feed_forward = 22016,
     .context = 32768,
     .windows = Windows::by_layer,
     .biases = Biases::as_configured,
     .qk_norm = true},
    {.type = "gpt_neox",
     .names = &gpt_neox_names,
     .vocabulary = 50432,
     .width = 6144,
     .feed_forward = 24576,
     .context = 2048,
     .activation = "gelu",
     .norm_eps = 1e-5,
     .biases = Biases::as_configured,
     .attention_bias = true},
    {.type = "gptj",
     .names = &gptj_names,
     .vocabulary = 50400,
     .width = 4096,
     .feed_forward = 0,  // n_inner null: 4 n_embd
     .context = 2048,
     .activation = "gelu_new",
     .norm_eps = 1e-5},
};

constexpr std::int64_t max_value = std::int64_t{1} << 40;

[[noreturn]] void refuse(Code code, const std::string& sentence) {
  throw rotary::Error(code, "[read_config] " + sentence);
}

bool is_gptj(const Family& family) { return family.names == &gptj_names; }
bool is_gpt_neox(const Family& family) { return family.names == &gpt_neox_names; }

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
  bool bias = family.biases == Biases::always_but_output;
  if (family.biases == Biases::as_configured) bias = keys.boolean("attention_bias").value_or(family.attention_bias);
  c.qkv_bias = bias;
  c.output_bias = bias && family.biases != Biases::always_but_output;
  c.feed_bias = is_gptj(family) || is_gpt_neox(family) || (family.mlp_bias && keys.boolean("mlp_bias", false));
  c.head_bias = is_gptj(family);
}

std::int64_t window_of(const Object& keys) {
  constexpr std::int64_t otherwise = 4096;
  if (keys.is_null("sliding_window")) return 0;
  return keys.integer("sliding_window", 1, max_value).value_or(otherwise);
}

void read_windows(const Family& family, const Object& keys, DecoderConfig& c) {
  const auto count = static_cast<std::size_t>(c.layers);
  if (family.windows == Windows::all_layers) {
    if (const std::int64_t window = window_of(keys)) c.windows.assign(count, window);
    return;
  }
  if (family.windows == Windows::none) return;
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
  const auto read = activation(keys.text(key).value_or(std::string(family.activation)));
  if (!read) keys.refuse(key, "must be an activation without weights of its own, such as silu, gelu, gelu_new or relu");
  c.activation = *read;
}

}  // namespace

const Family* decoder_family(std::string_view model_type) noexcept {
  const auto found = std::find_if(std::begin(family_table), std::end(family_table),
                                  [=](const Family& f) { return f.type == model_type; });
  return found == std::end(family_table) ? nullptr : found;
}

std::string decoder_families() {
  std::string names;
  for (const Family& family : family_table) names += (names.empty() ? "" : ", ") + std::string(family.type);
  return names;
}

const TensorNames& tensor_names(const Family& family) noexcept { return *family.names; }

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
  c.vocabulary = integer(keys, {"vocab_size"}, family.vocabulary);
  c.layers = static_cast<std::int64_t>(c.rope->layers.size());
  c.heads = c.rope->heads;
  c.head_dim = c.rope->rope.head_dim;
  c.activation = Activation::silu;
  c.norm_eps = family.norm_eps;
  c.tied = keys.boolean("tie_word_embeddings", false);
  c.padding_id = keys.integer("pad_token_id", -1, max_value).value_or(-1);
  if (is_gptj(family)) {
    c.width = integer(keys, {"n_embd", "hidden_size"}, family.width);
    c.feed_forward = integer(keys, {"n_inner"}, 4 * c.width);
    c.context = integer(keys, {"n_positions", "max_position_embeddings"}, family.context);
    c.norm_eps = keys.number("layer_norm_epsilon").value_or(family.norm_eps);
    c.residual = Residual::parallel_shared;
    c.finite_mask = true;
  } else {
    c.width = integer(keys, {"hidden_size"}, family.width);
    c.feed_forward = integer(keys, {"intermediate_size"}, family.feed_forward);
    c.context = integer(keys, {"max_position_embeddings"}, family.context);
  }
  if (is_gpt_neox(family)) {
    c.norm_eps = keys.number("layer_norm_eps").value_or(family.norm_eps);
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
    c.norm_eps = keys.number("rms_norm_eps").value_or(family.norm_eps);
    c.gated = true;
    c.qk_norm = family.qk_norm;
  }
  read_activation(family, keys, c);
  read_biases(family, keys, c);
  read_windows(family, keys, c);
  return c;
}

}  // namespace rotary_torch
