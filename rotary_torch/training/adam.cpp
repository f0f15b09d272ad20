#include "rotary_torch/training/adam.h"

#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>

#include <cstddef>
#include <optional>

namespace rotary_torch {

namespace {

// The arguments of one call of the fused kernel.
struct Group {
  std::vector<at::Tensor> parameters, gradients, first, second;
};

}  // namespace

Adam::Adam(const std::vector<at::Tensor>& parameters, const AdamOptions& options)
    : parameters_(parameters), options_(options) {
  const c10::NoGradGuard no_grad;
  for (const at::Tensor& parameter : parameters_) {
    first_.push_back(at::zeros_like(parameter));
    second_.push_back(at::zeros_like(parameter));
  }
}

at::Tensor Adam::step(double rate) {
  const c10::NoGradGuard no_grad;
  Group decayed, plain;
  std::vector<at::Tensor> gradients;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const at::Tensor& gradient = parameters_[i].grad();
    if (!gradient.defined()) continue;
    Group& group = options_.weight_decay != 0 && parameters_[i].dim() >= 2 ? decayed : plain;
    group.parameters.push_back(parameters_[i]);
    group.gradients.push_back(gradient);
    group.first.push_back(first_[i]);
    group.second.push_back(second_[i]);
    gradients.push_back(gradient);
  }
  ++steps_;
  const auto values = parameters_.front().options().dtype(at::kFloat).requires_grad(false);
  if (gradients.empty()) return at::zeros({}, values);

  // The kernel divides the gradients by scale, so clipping needs no separate pass. 1e-6 as in clip_grad_norm_.
  const at::Tensor norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(gradients)));
  std::optional<at::Tensor> scale;
  if (options_.clip > 0) scale = norm.add(1e-6).div_(options_.clip).clamp_min_(1);
  const at::Tensor steps = at::full({}, static_cast<double>(steps_), values);
  for (const Group* group : {&decayed, &plain}) {
    if (group->parameters.empty()) continue;
    const std::vector<at::Tensor> each_steps(group->parameters.size(), steps);
    at::_fused_adamw_(group->parameters, group->gradients, group->first, group->second, {}, each_steps, rate,
                      options_.beta1, options_.beta2, group == &decayed ? options_.weight_decay : 0, options_.epsilon,
                      /*amsgrad=*/false, /*maximize=*/false, scale);
  }
  return norm;
}

}  // namespace rotary_torch
