// Root-mean-square norm: x / sqrt(mean(x^2) + eps) * weight, over the last dimension. arXiv:1910.07467.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

namespace rotary_torch {

class RMSNormImpl : public torch::nn::Module {
 public:
  explicit RMSNormImpl(std::int64_t size, double eps = 1e-6);
  at::Tensor forward(const at::Tensor& x) const;
  at::Tensor weight;  // [size]
  double eps;
};
TORCH_MODULE(RMSNorm);

}  // namespace rotary_torch
