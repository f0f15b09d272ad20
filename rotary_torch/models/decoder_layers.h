// The parts of a Decoder: the feed-forward network and one layer.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include "rotary_torch/models/decoder.h"
#include "rotary_torch/nn/attention.h"

namespace rotary_torch {

// down(activation(up(x))), or gated down(activation(gate(x)) * up(x)).
class FeedForwardImpl : public torch::nn::Module {
 public:
  explicit FeedForwardImpl(const DecoderConfig&);
  at::Tensor forward(const at::Tensor& x);

  torch::nn::Linear up{nullptr};  // gated: rows of the gate, then of up
  torch::nn::Linear down{nullptr};

 private:
  Activation activation_;
  bool gated_;
};
TORCH_MODULE(FeedForward);

class DecoderLayerImpl : public torch::nn::Module {
 public:
  explicit DecoderLayerImpl(const DecoderConfig&);
  at::Tensor forward(const at::Tensor& x, const TableTensors* table, const ScoreMask& mask, KVCache* cache,
                     std::int64_t first);

  NormModule attention_norm;
  MultiHeadAttention attention{nullptr};
  NormModule feed_norm;  // none where the residual is parallel_shared
  FeedForward feed{nullptr};

 private:
  Residual residual_;
  double dropout_;
};
TORCH_MODULE(DecoderLayer);

}  // namespace rotary_torch
