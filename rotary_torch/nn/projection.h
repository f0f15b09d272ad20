// A linear layer applied: at::linear flattens the batch into one product with the bias inside, which
// torch::nn::Linear's forward does not for three dimensions.
#pragma once

#include <ATen/ops/linear.h>
#include <torch/nn/modules/linear.h>

namespace rotary_torch {

inline at::Tensor projected(const torch::nn::Linear& layer, const at::Tensor& x) {
  return at::linear(x, layer->weight, layer->bias);
}

}  // namespace rotary_torch
