// One decoding step with few operations: the result of DecoderImpl::next_logits, computed in buffers that are allocated
// once. Most of a small model's step is the overhead of starting operations.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "rotary_torch/models/decoder.h"

namespace rotary_torch {

class DecodeStep {
 public:
  // Whether the model is a decoder as `rotary train` makes them: on the CPU in f32, with rope, learned or no positions.
  static bool serves(const DecoderImpl& model);
  // tokens: the largest number of positions. The model must outlive this and keep its weights.
  DecodeStep(DecoderImpl& model, std::int64_t batch, std::int64_t tokens);

  // ids int64 [batch]: one token per row, after those of the cache. Returns [batch, vocabulary], which the next call
  // overwrites. Call it under inference mode.
  const at::Tensor& logits(const at::Tensor& ids, DecoderCache& cache);

 private:
  struct LayerNorm {
    at::Tensor weight, bias;
    double eps;
    at::Tensor operator()(const at::Tensor& x) const;
  };
  struct Linear {  // out = x weight^T + bias
    at::Tensor weight_transposed, bias;
    void operator()(const at::Tensor& x, at::Tensor& out) const;
  };
  struct Layer {
    LayerNorm attention_norm, feed_norm;
    Linear qkv, output, up, down;
    std::int64_t window;
  };

  void attention(const Layer& layer, std::int64_t past, KVCache& cache);  // both add to stream_
  void feed_forward(const Layer& layer);

  const DecoderConfig config_;
  std::vector<Layer> layers_;
  LayerNorm final_norm_;
  Linear head_;
  at::Tensor embedding_, positions_;
  TableTensors table_;
  at::Tensor stream_, added_, inner_, logits_;  // [batch, ...]
  at::Tensor qkv_, rotated_, q_, k_, v_;        // [batch, all heads * head_dim], and views of its parts
};

}  // namespace rotary_torch
