#include "rotary_torch/models/roformer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "rotary_torch/nn/layers.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Code;
using torch::nn::LayerNorm;
using torch::nn::LayerNormOptions;
using torch::nn::Linear;
using torch::nn::LinearOptions;

constexpr Refusal refuse{"roformer"};

std::int64_t embedding_width(const RoFormerConfig& config) {
  return config.embedding_size == 0 ? config.width : config.embedding_size;
}

LayerNorm layer_norm(std::int64_t size, const RoFormerConfig& config) {
  return LayerNorm(LayerNormOptions({size}).eps(config.norm_eps));
}

AttentionOptions attention_options(const RoFormerConfig& config) {
  AttentionOptions options;
  options.width = config.width;
  options.heads = config.heads;
  options.dropout = config.attention_dropout;
  options.value_rotation = config.rotary_value ? ValueRotation::rotated : ValueRotation::none;
  return options;
}

RotaryEmbedding rotary_of(const RoFormerConfig& config) {
  rotary::Rope rope;
  rope.head_dim = static_cast<int>(config.width / config.heads);
  rope.base = config.base;
  rope.pairing = rotary::Pairing::interleaved;
  RotaryEmbeddingOptions options;
  if (config.bf16_table) options.rounding = rotary::Rounding::bf16;
  return RotaryEmbedding(rope, options);
}

// Rows 0 to context - 1 of the table in Hugging Face's layout: [context, pairs] of sin, then of cos.
Tensor sin_cos_rows(const RoFormerConfig& config, const rotary::Rope& rope) {
  rotary::TableOptions options;
  if (config.bf16_table) options.rounding = rotary::Rounding::bf16;
  const rotary::Table table(rotary::frequencies(rope), rotary::positions(0, config.context), options);
  const TableTensors rows = tensors(table);
  return at::cat({rows.sin, rows.cos}, 1);
}

void check_size(const char* what, std::int64_t value, std::int64_t least) {
  if (value >= least) return;
  refuse(Code::SHAPE, what, " must be at least ", least, " but got ", value);
}

}  // namespace

RoFormerConfig notebook_roformer() {
  RoFormerConfig config;
  config.vocabulary = 32000;
  config.layers = 4;
  config.heads = 4;
  config.context = 1024;
  config.token_types = 0;
  config.base = 1e6;
  config.tied = false;
  config.notebook = true;
  return config;
}

void check(const RoFormerConfig& config) {
  check_size("vocabulary", config.vocabulary, 1);
  check_size("embedding_size", config.embedding_size, 0);
  check_size("width", config.width, 1);
  check_size("layers", config.layers, 0);
  check_size("heads", config.heads, 1);
  check_size("feed_forward", config.feed_forward, 1);
  check_size("context", config.context, 1);
  if (!config.notebook) check_size("token_types", config.token_types, 1);
  if (config.width % (2 * config.heads) != 0) {
    refuse(Code::SHAPE, "width must be a multiple of twice the ", config.heads, " heads but got ", config.width);
  }
}

// ---- feed-forward, layer, head ----

RoFormerFeedForwardImpl::RoFormerFeedForwardImpl(const RoFormerConfig& config)
    : torch::nn::Module("RoFormerFeedForward"), activation_(config.activation), dropout_(config.dropout) {
  input = register_module("input", Linear(config.width, config.feed_forward));
  output = register_module("output", Linear(config.feed_forward, config.width));
  norm = register_module("norm", layer_norm(config.width, config));
}

Tensor RoFormerFeedForwardImpl::forward(const Tensor& x) {
  return norm(dropped(projected(output, activate(activation_, projected(input, x))), dropout_, is_training()) + x);
}

RoFormerLayerImpl::RoFormerLayerImpl(const RoFormerConfig& config)
    : torch::nn::Module("RoFormerLayer"), dropout_(config.dropout) {
  if (config.notebook) attention_norm = register_module("attention_norm", layer_norm(config.width, config));
  attention = register_module("attention", MultiHeadAttention(attention_options(config)));
  norm = register_module("norm", layer_norm(config.width, config));
  feed_forward = register_module("feed_forward", RoFormerFeedForward(config));
}

Tensor RoFormerLayerImpl::forward(const Tensor& x, const TableTensors& table, const ScoreMask& mask) {
  const bool notebook = !attention_norm.is_empty();
  const Tensor seen = attention(notebook ? attention_norm(x) : x, &table, mask);
  const Tensor h = x + dropped(seen, dropout_, is_training());
  return notebook ? h + feed_forward(norm(h)) : feed_forward(norm(h));
}

RoFormerHeadImpl::RoFormerHeadImpl(const RoFormerConfig& config)
    : torch::nn::Module("RoFormerHead"), activation_(config.activation) {
  const std::int64_t embedding = embedding_width(config);
  dense = register_module("dense", Linear(config.width, embedding));
  norm = register_module("norm", layer_norm(embedding, config));
  bias = register_parameter("bias", at::zeros({config.vocabulary}));
  if (!config.tied) untie(at::zeros({config.vocabulary, embedding}));
}

void RoFormerHeadImpl::untie(const Tensor& matrix) {
  if (decoder.defined()) {
    const at::NoGradGuard no_grad;
    decoder.copy_(matrix);
  } else {
    decoder = register_parameter("decoder", matrix);
  }
}

Tensor RoFormerHeadImpl::forward(const Tensor& x, const Tensor& word_embeddings) {
  return at::linear(norm(activate(activation_, projected(dense, x))), decoder.defined() ? decoder : word_embeddings,
                    bias);
}

// ---- the model ----

RoFormerImpl::RoFormerImpl(RoFormerConfig config, bool head)
    : torch::nn::Module("RoFormer"), config_(std::move(config)), head_(head) {
  check(config_);
  rotary_ = rotary_of(config_);  // not registered: it has no tensors
  const std::int64_t embedding = config_.notebook ? config_.width : embedding_width(config_);
  word_embeddings = register_module("word_embeddings", torch::nn::Embedding(config_.vocabulary, embedding));
  if (!config_.notebook) {
    token_type_embeddings =
        register_module("token_type_embeddings", torch::nn::Embedding(config_.token_types, embedding));
    embedding_norm = register_module("embedding_norm", layer_norm(embedding, config_));
    if (embedding != config_.width) projection = register_module("projection", Linear(embedding, config_.width));
    position_table =
        register_module("position_table", torch::nn::Embedding(config_.context, config_.width / config_.heads));
    position_table->weight.set_requires_grad(false);
    if (!position_table->weight.is_meta()) position_table->weight.copy_(sin_cos_rows(config_, rotary_->rope()));
  }
  layers = register_module("layers", torch::nn::ModuleList());
  for (std::int64_t i = 0; i < config_.layers; ++i) layers->push_back(RoFormerLayer(config_));
  if (!head_) return;
  if (config_.notebook) {
    output = register_module("output", Linear(LinearOptions(config_.width, config_.vocabulary).bias(false)));
  } else {
    prediction = register_module("prediction", RoFormerHead(config_));
  }
}

TableTensors RoFormerImpl::table(const Tensor& x) const {
  const std::int64_t tokens = x.size(1), stored = config_.notebook ? 0 : std::min(tokens, config_.context);
  std::vector<Tensor> cos, sin;
  if (stored > 0) {
    const std::vector<Tensor> halves =
        position_table->weight.narrow(0, 0, stored).to(wide_type(x.scalar_type())).chunk(2, 1);
    sin.push_back(halves[0]);
    cos.push_back(halves[1]);
  }
  if (stored < tokens) {
    const TableTensors exact =
        rotary_->table(at::arange(stored, tokens, at::TensorOptions(at::kLong).device(x.device())));
    sin.push_back(exact.sin.to(wide_type(x.scalar_type())));
    cos.push_back(exact.cos.to(wide_type(x.scalar_type())));
  }
  return {at::cat(cos), at::cat(sin), rotary::Pairing::interleaved};
}

Tensor RoFormerImpl::embed(const Tensor& ids, const Tensor& token_types) {
  Tensor x = word_embeddings(ids);
  if (!config_.notebook) {
    x = x + token_type_embeddings(token_types.defined() ? token_types : at::zeros_like(ids));
    x = embedding_norm(x);
  }
  x = dropped(x, config_.dropout, is_training());
  return projection.is_empty() ? x : projected(projection, x);
}

Tensor RoFormerImpl::hidden(const Tensor& ids, const Tensor& padding, const Tensor& token_types) {
  if (ids.dim() != 2 || ids.numel() == 0) {
    refuse(Code::SHAPE, "ids must be [batch, tokens], not empty, but got ", ids.sizes());
  }
  for (const Tensor& other : {padding, token_types}) {
    if (!other.defined() || other.sizes() == ids.sizes()) continue;
    refuse(Code::SHAPE, "padding and token types must have the ids' shape ", ids.sizes(), " but got ", other.sizes());
  }
  if (config_.notebook && token_types.defined()) {
    refuse(Code::SHAPE, "the notebook model has no token types but got some");
  }
  Tensor x = embed(ids, token_types);
  const TableTensors rows = table(x);
  // As eager transformers, which adds the lowest f32 to the scores of keys that are not seen.
  const AttentionMask seen{.causal = config_.is_decoder, .padding = padding, .finite = true};
  const ScoreMask mask = score_mask(seen, x.size(0), x.size(1), 0, x.options());
  for (const std::shared_ptr<torch::nn::Module>& layer : *layers) {
    x = layer->as<RoFormerLayerImpl>()->forward(x, rows, mask);
  }
  return x;
}

Tensor RoFormerImpl::logits(const Tensor& hidden) {
  if (!head_) refuse(Code::TENSOR, "logits need a language-model head but the model has none");
  return config_.notebook ? projected(output, hidden) : prediction(hidden, word_embeddings->weight);
}

void RoFormerImpl::initialise(double deviation) {
  const at::NoGradGuard no_grad;
  for (const auto& parameter : named_parameters()) {
    const std::string& name = parameter.key();
    if (name.find("norm") != std::string::npos || name == "position_table.weight") continue;
    if (parameter.value().dim() == 1) {
      parameter.value().zero_();
    } else {
      parameter.value().normal_(0, deviation);
    }
  }
}

}  // namespace rotary_torch
