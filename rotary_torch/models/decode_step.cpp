#include "rotary_torch/models/decode_step.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <cmath>

#include "rotary_torch/models/decoder_layers.h"

namespace rotary_torch {

using at::Tensor;

namespace {

// In place. For few values most of at::gelu's time is oneDNN's preparation.
void gelu_of_few(Tensor& x) {
  float* const values = x.data_ptr<float>();
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const float v = values[i];
    values[i] = 0.5F * v * (1.0F + std::erf(v * static_cast<float>(M_SQRT1_2)));
  }
}

}  // namespace

Tensor DecodeStep::LayerNorm::operator()(const Tensor& x) const {
  return at::layer_norm(x, weight.sizes(), weight, bias, eps);
}

void DecodeStep::Linear::operator()(const Tensor& x, Tensor& out) const {
  at::addmm_out(out, bias, x, weight_transposed);
}

bool DecodeStep::serves(const DecoderImpl& model) {
  const DecoderConfig& c = model.config();
  const bool position = c.position == PositionEncoding::none || c.position == PositionEncoding::learned ||
                        (c.position == PositionEncoding::rope && !rotary::depends_on_length(c.rope->rope.scaling));
  return position && c.norm == Norm::layer && c.residual == Residual::sequential && !c.gated && !c.qk_norm && c.head &&
         !c.tied && c.qkv_bias && c.output_bias && c.feed_bias && c.head_bias &&
         model.embedding->weight.device().is_cpu() && model.embedding->weight.scalar_type() == at::kFloat;
}

DecodeStep::DecodeStep(DecoderImpl& model, std::int64_t batch, std::int64_t tokens) : config_(model.config()) {
  const c10::InferenceMode inference;
  const auto linear = [](const torch::nn::Linear& from) { return Linear{from->weight.t(), from->bias}; };
  const auto norm = [](const NormModule& from) {
    return LayerNorm{from.layer->weight, from.layer->bias, from.layer->options.eps()};
  };
  for (std::size_t i = 0; i < model.layers->size(); ++i) {
    const DecoderLayerImpl& from = model.layers->at<DecoderLayerImpl>(i);
    layers_.push_back({norm(from.attention_norm), norm(from.feed_norm), linear(from.attention->qkv),
                       linear(from.attention->output), linear(from.feed->up), linear(from.feed->down),
                       config_.windows.empty() ? 0 : config_.windows[i]});
  }
  final_norm_ = norm(model.final_norm);
  head_ = linear(model.head);
  embedding_ = model.embedding->weight;
  if (config_.position == PositionEncoding::learned) positions_ = model.learned_positions->weight;
  if (config_.position == PositionEncoding::rope) {
    const RotaryEmbedding rotary(*config_.rope, RotaryEmbeddingOptions{.angles = config_.angles});
    table_ = rotary->table(at::arange(tokens, at::kLong));
  }

  const std::int64_t rotated = config_.heads + config_.kv_heads;  // heads of q and k
  const std::int64_t all_heads = rotated + config_.kv_heads;
  const auto buffer = [batch](std::int64_t size) { return at::empty({batch, size}, at::kFloat); };
  stream_ = buffer(config_.width), added_ = buffer(config_.width);
  inner_ = buffer(config_.feed_forward), logits_ = buffer(config_.vocabulary);
  qkv_ = buffer(all_heads * config_.head_dim);
  const Tensor heads = qkv_.view({batch, 1, all_heads, config_.head_dim});
  rotated_ = heads.narrow(2, 0, rotated);
  // The query heads that share a key head become the queries of that head.
  q_ = heads.narrow(2, 0, config_.heads)
           .view({batch, config_.kv_heads, config_.heads / config_.kv_heads, config_.head_dim});
  k_ = heads.narrow(2, config_.heads, config_.kv_heads).transpose(1, 2);
  v_ = heads.narrow(2, rotated, config_.kv_heads).transpose(1, 2);
}

void DecodeStep::attention(const Layer& layer, std::int64_t past, KVCache& cache) {
  layer.qkv(layer.attention_norm(stream_), qkv_);
  if (config_.rope) {
    const TableTensors row{table_.cos.narrow(0, past, 1), table_.sin.narrow(0, past, 1), table_.pairing};
    rotate_(rotated_, row, Dims::bthd, config_.rope->first);
  }
  auto [keys, values] = cache.append(k_, v_);
  if (layer.window > 0 && past + 1 > layer.window) {
    keys = keys.narrow(2, past + 1 - layer.window, layer.window);
    values = values.narrow(2, past + 1 - layer.window, layer.window);
  }
  const Tensor seen = at::scaled_dot_product_attention(q_, keys, values);
  layer.output(seen.reshape({stream_.size(0), config_.heads * config_.head_dim}), added_);
  stream_.add_(added_);
}

void DecodeStep::feed_forward(const Layer& layer) {
  layer.up(layer.feed_norm(stream_), inner_);
  if (config_.activation == Activation::gelu) {
    gelu_of_few(inner_);
  } else {
    inner_.copy_(activate(config_.activation, inner_));
  }
  layer.down(inner_, added_);
  stream_.add_(added_);
}

const Tensor& DecodeStep::logits(const Tensor& ids, DecoderCache& cache) {
  const c10::InferenceMode inference;
  const std::int64_t past = cache.tokens();
  at::index_select_out(stream_, embedding_, 0, ids);
  if (positions_.defined()) stream_.add_(positions_.select(0, past));
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    attention(layers_[i], past, cache.layers[i]);
    feed_forward(layers_[i]);
  }
  head_(final_norm_(stream_), logits_);
  return logits_;
}

}  // namespace rotary_torch
