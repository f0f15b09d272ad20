// Adam with decoupled weight decay (arXiv:1711.05101) after clipping the gradient's norm: few calls for all parameters.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace rotary_torch {

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double weight_decay = 0;  // of parameters with two dimensions or more
  double clip = 0;          // of the norm of all gradients together; 0: none
};

class Adam {
 public:
  Adam(const std::vector<at::Tensor>& parameters, const AdamOptions& options);

  // One step with the gradients that the parameters hold; one that holds none stays. Returns the norm of all gradients
  // before clipping: a tensor of one value on their device, so that nobody waits for it.
  at::Tensor step(double rate);

  // One per parameter, in the order given. With steps they are all the state there is.
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
