// Evaluation mode for a scope.
#pragma once

#include <torch/nn/module.h>

namespace rotary_torch {

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
