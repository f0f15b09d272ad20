// Applies a linear layer: at::linear flattens three dimensions into one product that includes the bias, which the
// forward of torch::nn::Linear does not.
#pragma once

#include <ATen/ops/linear.h>
#include <torch/nn/modules/linear.h>

namespace rotary_torch {

inline at::Tensor projected(const torch::nn::Linear& layer, const at::Tensor& x) {
  return at::linear(x, layer->weight, layer->bias);
}

}  // namespace rotary_torch
