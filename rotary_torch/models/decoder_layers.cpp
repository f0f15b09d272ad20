#include "rotary_torch/models/decoder_layers.h"

#include <ATen/ATen.h>

#include "rotary_torch/nn/layers.h"

namespace rotary_torch {

using at::Tensor;

// ---- norms ---------------------------------------------------------------------------------------

void NormModule::make(torch::nn::Module& parent, const char* name, const DecoderConfig& config) {
  if (config.norm == Norm::rms) {
    rms = parent.register_module(name, RMSNorm(config.width, config.norm_eps));
  } else {
    const auto options = torch::nn::LayerNormOptions({config.width}).eps(config.norm_eps);
    layer = parent.register_module(name, torch::nn::LayerNorm(options));
  }
}

Tensor NormModule::operator()(const Tensor& x) {
  if (rms) return rms->forward(x);
  return at::layer_norm(x, layer->options.normalized_shape(), layer->weight, layer->bias, layer->options.eps());
}

// ---- feed-forward --------------------------------------------------------------------------------

FeedForwardImpl::FeedForwardImpl(const DecoderConfig& config)
    : torch::nn::Module("FeedForward"), activation_(config.activation), gated_(config.gated) {
  const std::int64_t inner = gated_ ? 2 * config.feed_forward : config.feed_forward;
  up = register_module("up", torch::nn::Linear(torch::nn::LinearOptions(config.width, inner).bias(config.feed_bias)));
  down = register_module(
      "down", torch::nn::Linear(torch::nn::LinearOptions(config.feed_forward, config.width).bias(config.feed_bias)));
}

Tensor FeedForwardImpl::forward(const Tensor& x) {
  const Tensor inner = projected(up, x);
  if (!gated_) return projected(down, activate(activation_, inner));
  const auto halves = inner.chunk(2, -1);
  return projected(down, activate(activation_, halves[0]) * halves[1]);
}

// ---- one layer -----------------------------------------------------------------------------------

DecoderLayerImpl::DecoderLayerImpl(const DecoderConfig& config)
    : torch::nn::Module("DecoderLayer"), residual_(config.residual), dropout_(config.dropout) {
  AttentionOptions options;
  options.width = config.width;
  options.heads = config.heads;
  options.kv_heads = config.kv_heads;
  options.head_dim = config.head_dim;
  options.qkv_bias = config.qkv_bias;
  options.output_bias = config.output_bias;
  options.qk_norm = config.qk_norm;
  options.norm_eps = config.norm_eps;
  options.dropout = config.dropout;
  attention_norm.make(*this, "attention_norm", config);
  attention = register_module("attention", MultiHeadAttention(options));
  if (residual_ != Residual::parallel_shared) feed_norm.make(*this, "feed_norm", config);
  feed = register_module("feed", FeedForward(config));
}

Tensor DecoderLayerImpl::forward(const Tensor& x, const TableTensors* table, const ScoreMask& mask, KVCache* cache,
                                 std::int64_t first) {
  const auto in_training = [this](const Tensor& part) { return dropped(part, dropout_, is_training()); };
  const Tensor normed = attention_norm(x);
  const Tensor attended = in_training(attention->forward(normed, table, mask, cache, first));
  switch (residual_) {
    case Residual::sequential: {
      const Tensor between = x + attended;
      return between + in_training(feed->forward(feed_norm(between)));
    }
    case Residual::parallel:
      return in_training(feed->forward(feed_norm(x))) + attended + x;
    case Residual::parallel_shared:
      break;
  }
  return attended + in_training(feed->forward(normed)) + x;
}

}  // namespace rotary_torch
