// Layers that torch::nn lacks or computes more slowly: an RMS norm, a projection; and evaluation mode for a scope.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

namespace rotary_torch {

// Root-mean-square norm: x / sqrt(mean(x^2) + eps) * weight, over the last dimension. arXiv:1910.07467.
class RMSNormImpl : public torch::nn::Module {
 public:
  explicit RMSNormImpl(std::int64_t size, double eps = 1e-6);
  at::Tensor forward(const at::Tensor& x) const;
  at::Tensor weight;  // [size]
  double eps;
};
TORCH_MODULE(RMSNorm);

// at::linear flattens three dimensions into one product that includes the bias, which torch::nn::Linear does not.
at::Tensor projected(const torch::nn::Linear& layer, const at::Tensor& x);

// Turns dropout off while it lives.
class Evaluation {
 public:
  explicit Evaluation(torch::nn::Module& module) : module_(module), training_(module.is_training()) { module.eval(); }
  ~Evaluation() { module_.train(training_); }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

 private:
  torch::nn::Module& module_;
  bool training_;
};

}  // namespace rotary_torch
