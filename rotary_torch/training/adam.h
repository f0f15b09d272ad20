// Adam with decoupled weight decay (arXiv:1711.05101) and clipping of the gradient's norm, in few calls for all
// parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace rotary_torch {

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;  // of parameters with two dimensions or more
  double clip = 0;          // largest norm of all gradients together; 0: no clipping
};

class Adam {
 public:
  Adam(const std::vector<at::Tensor>& parameters, const AdamOptions& options);

  // One step with the parameters' gradients; a parameter without one is unchanged. Returns the norm of all gradients
  // before clipping as a tensor of one value on their device, so that the caller need not wait for it.
  at::Tensor step(double rate);

  // One per parameter, in the order given. With steps they are the whole state.
  const std::vector<at::Tensor>& first_moments() const noexcept { return first_; }
  const std::vector<at::Tensor>& second_moments() const noexcept { return second_; }
  std::int64_t steps() const noexcept { return steps_; }
  void set_steps(std::int64_t steps) noexcept { steps_ = steps; }

 private:
  std::vector<at::Tensor> parameters_, first_, second_;
  AdamOptions options_;
  std::int64_t steps_ = 0;
};

}  // namespace rotary_torch
