// Activation functions of feed-forward layers, by the names of Hugging Face configs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace rotary_torch {

enum class Activation : std::uint8_t {
  relu,
  gelu,       // x Phi(x), by erf
  gelu_tanh,  // its approximation by tanh; gelu_new and gelu_fast are the same formula
  silu,
  gelu_quick,  // x sigmoid(1.702 x)
  gelu_10,     // gelu, cut at -10 and 10
  relu2,       // relu(x)^2
  relu6,
  leaky_relu,  // slope 0.01
  sigmoid,
  tanh,
  mish,
  hardswish,
  linear,
};
const char* name(Activation) noexcept;
// Accepts the values of hidden_act ("gelu_new", "swish", ...) and those of name().
std::optional<Activation> activation(std::string_view name) noexcept;
at::Tensor activate(Activation, const at::Tensor& x);

}  // namespace rotary_torch
