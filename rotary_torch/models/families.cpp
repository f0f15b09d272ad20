// The decoders of data/models.json: their families, and the values of a config.json.
#include "rotary_torch/models/families.h"

#include <algorithm>

#include "files/models/families.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {

using rotary::Code;
using rotary::files::Biases;
using rotary::files::DecoderFacts;
using rotary::files::Family;
using rotary::files::Json;
using rotary::files::Object;
using rotary::files::Windows;
using rotary::files::words;

namespace {

constexpr Refusal refuse{"read_config"};

constexpr DecoderFamily families[] = {
    {
        .name = "llama",
        .width = "hidden_size",
        .feed_forward = "intermediate_size",
        .context = "max_position_embeddings",
        .activation = "hidden_act",
        .norm_eps = "rms_norm_eps",
        .norm = Norm::rms,
        .grouped = true,
        .gated = true,
        .prefix = "model.",
        .trunk = "embed_tokens layers norm rotary_emb",
        .embedding = "embed_tokens",
        .layers = "layers",
        .attention_norm = "input_layernorm",
        .feed_norm = "post_attention_layernorm",
        .q = "self_attn.q_proj",
        .k = "self_attn.k_proj",
        .v = "self_attn.v_proj",
        .output = "self_attn.o_proj",
        .gate = "mlp.gate_proj",
        .up = "mlp.up_proj",
        .down = "mlp.down_proj",
        .final_norm = "norm",
        .heads = "lm_head",
    },
    {
        .name = "gpt_neox",
        .width = "hidden_size",
        .feed_forward = "intermediate_size",
        .context = "max_position_embeddings",
        .activation = "hidden_act",
        .norm_eps = "layer_norm_eps",
        .feed_bias = true,
        .residual = Residual::parallel,
        .prefix = "gpt_neox.",
        .trunk = "embed_in layers final_layer_norm rotary_emb",
        .embedding = "embed_in",
        .layers = "layers",
        .attention_norm = "input_layernorm",
        .feed_norm = "post_attention_layernorm",
        .fused = "attention.query_key_value",
        .output = "attention.dense",
        .up = "mlp.dense_h_to_4h",
        .down = "mlp.dense_4h_to_h",
        .final_norm = "final_layer_norm",
        .heads = "embed_out lm_head",
    },
    {
        .name = "gptj",
        .width = "n_embd hidden_size",
        .feed_forward = "n_inner",
        .context = "n_positions max_position_embeddings",
        .activation = "activation_function",
        .norm_eps = "layer_norm_epsilon",
        .feed_bias = true,
        .head_bias = true,
        .residual = Residual::parallel_shared,
        .finite_mask = true,
        .prefix = "transformer.",
        .trunk = "wte h ln_f",
        .embedding = "wte",
        .layers = "h",
        .attention_norm = "ln_1",
        .q = "attn.q_proj",
        .k = "attn.k_proj",
        .v = "attn.v_proj",
        .output = "attn.out_proj",
        .up = "mlp.fc_in",
        .down = "mlp.fc_out",
        .final_norm = "ln_f",
        .heads = "lm_head",
    },
};

constexpr std::int64_t max_value = std::int64_t{1} << 40;

// The value of the first of these keys that the config has.
std::int64_t integer(const Object& keys, std::string_view spellings, std::int64_t otherwise) {
  for (const std::string_view key : words(spellings)) {
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

std::int64_t window_of(const Object& keys) {
  constexpr std::int64_t otherwise = 4096;
  if (keys.is_null("sliding_window")) return 0;
  return keys.integer("sliding_window", 1, max_value).value_or(otherwise);
}

void read_windows(const DecoderFacts& facts, const Object& keys, DecoderConfig& c) {
  const auto count = static_cast<std::size_t>(c.layers);
  if (facts.windows == Windows::all_layers) {
    if (const std::int64_t window = window_of(keys)) c.windows.assign(count, window);
    return;
  }
  if (facts.windows == Windows::none) return;
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

}  // namespace

const DecoderFamily* decoder_family(std::string_view model_type) {
  const Family* model = rotary::files::find_family(model_type);
  const auto found = std::find_if(std::begin(families), std::end(families), [model](const DecoderFamily& family) {
    return model != nullptr && family.name == model->decoder.names;
  });
  return found == std::end(families) ? nullptr : found;
}

std::string decoder_types() {
  std::string types;
  for (const DecoderFamily& family : families) {
    for (const std::string_view type : rotary::files::model_types()) {
      if (decoder_family(type) == &family) types += (types.empty() ? "" : ", ") + std::string(type);
    }
  }
  return types;
}

rotary::ModelRope sole_rope(const rotary::Model& model) {
  if (model.ropes.size() != 1) {
    refuse(Code::ROPE, "a decoder must have one rope for all of its layers but ", model.model_type, " has ",
           model.ropes.size());
  }
  const rotary::ModelRope& rope = model.ropes.front();
  if (!rope.layers_without_rope.empty()) {
    refuse(Code::ROPE, "all layers of a ", model.model_type, " must rotate but layer ",
           rope.layers_without_rope.front(), " does not");
  }
  return rope;
}

DecoderConfig read_family(const DecoderFamily& family, const std::string& text, const Object& keys) {
  refuse_unsupported(keys);
  DecoderConfig c;
  c.model_type = *keys.text("model_type");
  c.rope = sole_rope(rotary::parse_config(text));
  const Family& model = *rotary::files::find_family(c.model_type);
  const DecoderFacts& facts = model.decoder;
  c.angles = rotary::Angles::float32;
  c.vocabulary = integer(keys, "vocab_size", facts.vocabulary);
  c.width = integer(keys, family.width, model.shape.hidden);
  c.feed_forward = integer(keys, family.feed_forward, facts.feed_forward > 0 ? facts.feed_forward : 4 * c.width);
  c.context = integer(keys, family.context, model.context);
  c.layers = static_cast<std::int64_t>(c.rope->layers.size());
  c.heads = c.rope->heads;
  c.kv_heads = family.grouped ? c.rope->kv_heads : c.heads;
  c.head_dim = c.rope->rope.head_dim;
  if (!family.grouped && c.heads * c.head_dim != c.width) {
    refuse(Code::CONFIG_VALUE, "the heads of ", c.model_type, " must share the ", c.width, " elements but are ",
           c.heads, " of ", c.head_dim);
  }
  c.norm = family.norm;
  c.norm_eps = keys.number(family.norm_eps).value_or(facts.norm_eps);
  c.gated = family.gated;
  c.qk_norm = facts.qk_norm;
  c.residual = family.residual;
  if (c.residual == Residual::parallel && !keys.boolean("use_parallel_residual", true))
    c.residual = Residual::sequential;
  c.finite_mask = family.finite_mask;
  c.tied = keys.boolean("tie_word_embeddings", false);
  c.padding_id = keys.integer("pad_token_id", -1, max_value).value_or(-1);
  const auto act = activation(keys.text(family.activation).value_or(std::string(facts.activation)));
  if (!act) {
    keys.refuse(family.activation,
                "must be an activation without weights of its own, such as silu, gelu, gelu_new or relu");
  }
  c.activation = *act;
  c.qkv_bias = facts.biases == Biases::as_configured ? keys.boolean("attention_bias", facts.attention_bias)
                                                     : facts.biases == Biases::always_but_output;
  c.output_bias = c.qkv_bias && facts.biases != Biases::always_but_output;
  c.feed_bias = family.feed_bias || (facts.mlp_bias && keys.boolean("mlp_bias", false));
  c.head_bias = family.head_bias;
  read_windows(facts, keys, c);
  return c;
}

}  // namespace rotary_torch
