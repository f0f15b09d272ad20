#include "rotary_torch/nn/layers.h"

#include <ATen/ATen.h>

namespace rotary_torch {

RMSNormImpl::RMSNormImpl(std::int64_t size, double norm_eps) : torch::nn::Module("RMSNorm"), eps(norm_eps) {
  weight = register_parameter("weight", at::ones({size}));
}

at::Tensor RMSNormImpl::forward(const at::Tensor& x) const { return at::rms_norm(x, weight.sizes(), weight, eps); }

at::Tensor projected(const torch::nn::Linear& layer, const at::Tensor& x) {
  return at::linear(x, layer->weight, layer->bias);
}

}  // namespace rotary_torch
