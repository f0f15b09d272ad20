#include "rotary_torch/models/roformer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rotary_torch/nn/layers.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Code;
using torch::nn::Linear;

constexpr Refusal refuse{"roformer"};

std::int64_t embedding_width(const RoFormerConfig& config) {
  return config.embedding_size == 0 ? config.width : config.embedding_size;
}

NormLayer layer_norm(std::int64_t size, const RoFormerConfig& config) {
  return NormLayer(Norm::layer, size, config.norm_eps);
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

// Exact rows in the layout of Hugging Face's table: [positions, pairs] of sin, then of cos.
Tensor sin_cos_rows(const RotaryEmbeddingImpl& rotary, std::int64_t begin, std::int64_t end) {
  const TableTensors rows = rotary.table(at::arange(begin, end, at::kLong));
  return at::cat({rows.sin, rows.cos}, 1);
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
  const std::tuple<const char*, std::int64_t, int> sizes[] = {
      {"vocabulary", config.vocabulary, 1}, {"embedding_size", config.embedding_size, 0},
      {"width", config.width, 1},           {"layers", config.layers, 0},
      {"heads", config.heads, 1},           {"feed_forward", config.feed_forward, 1},
      {"context", config.context, 1},       {"token_types", config.token_types, config.notebook ? 0 : 1}};
  for (const auto& [what, value, least] : sizes) {
    if (value < least) refuse(Code::SHAPE, what, " must be at least ", least, " but got ", value);
  }
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
  if (!config.tied) decoder = register_parameter("decoder", at::zeros({config.vocabulary, embedding}));
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
    if (!position_table->weight.is_meta()) position_table->weight.copy_(sin_cos_rows(*rotary_, 0, config_.context));
  }
  layers = register_module("layers", torch::nn::ModuleList());
  for (std::int64_t i = 0; i < config_.layers; ++i) layers->push_back(RoFormerLayer(config_));
  if (!head_) return;
  if (config_.notebook) {
    output = register_module("output", linear_layer(config_.width, config_.vocabulary, false));
  } else {
    prediction = register_module("prediction", RoFormerHead(config_));
  }
}

TableTensors RoFormerImpl::table(const Tensor& x) const {
  const std::int64_t tokens = x.size(1), stored = config_.notebook ? 0 : std::min(tokens, config_.context);
  const auto rows = at::TensorOptions(x.device()).dtype(wide_type(x.scalar_type()));
  std::vector<Tensor> parts;
  if (stored > 0) parts.push_back(position_table->weight.narrow(0, 0, stored).to(rows));
  if (stored < tokens) parts.push_back(sin_cos_rows(*rotary_, stored, tokens).to(rows));
  const std::vector<Tensor> halves = at::cat(parts).chunk(2, 1);
  return {halves[1].contiguous(), halves[0].contiguous(), rotary::Pairing::interleaved};
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

void RoFormerImpl::initialise(double deviation) { initialise_weights(*this, deviation, deviation); }

}  // namespace rotary_torch
