#include "rotary_torch/nn/activation.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace rotary_torch {
namespace {

struct Named {
  std::string_view name;
  Activation activation;
};

// The first name of each is that of name(); the others are further spellings.
constexpr Named names[] = {
    {"relu", Activation::relu},
    {"gelu", Activation::gelu},
    {"gelu_python", Activation::gelu},
    {"gelu_tanh", Activation::gelu_tanh},
    {"gelu_new", Activation::gelu_tanh},
    {"gelu_fast", Activation::gelu_tanh},
    {"gelu_accurate", Activation::gelu_tanh},
    {"gelu_pytorch_tanh", Activation::gelu_tanh},
    {"gelu_python_tanh", Activation::gelu_tanh},
    {"silu", Activation::silu},
    {"swish", Activation::silu},
    {"quick_gelu", Activation::gelu_quick},
    {"gelu_10", Activation::gelu_10},
    {"relu2", Activation::relu2},
    {"relu6", Activation::relu6},
    {"leaky_relu", Activation::leaky_relu},
    {"sigmoid", Activation::sigmoid},
    {"tanh", Activation::tanh},
    {"mish", Activation::mish},
    {"hardswish", Activation::hardswish},
    {"linear", Activation::linear},
};

}  // namespace

const char* name(Activation activation) noexcept {
  const auto found = std::find_if(std::begin(names), std::end(names),
                                  [=](const Named& named) { return named.activation == activation; });
  return found->name.data();
}

std::optional<Activation> activation(std::string_view name) noexcept {
  const auto found =
      std::find_if(std::begin(names), std::end(names), [=](const Named& named) { return named.name == name; });
  if (found == std::end(names)) return std::nullopt;
  return found->activation;
}

at::Tensor activate(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::relu:
      return at::relu(x);
    case Activation::gelu:
      return at::gelu(x);
    case Activation::gelu_tanh:
      return at::gelu(x, "tanh");
    case Activation::silu:
      return at::silu(x);
    case Activation::gelu_quick:
      return x * at::sigmoid(1.702 * x);
    case Activation::gelu_10:
      return at::clamp(at::gelu(x), -10, 10);
    case Activation::relu2:
      return at::square(at::relu(x));
    case Activation::relu6:
      return at::clamp(x, 0, 6);
    case Activation::leaky_relu:
      return at::leaky_relu(x);
    case Activation::sigmoid:
      return at::sigmoid(x);
    case Activation::tanh:
      return at::tanh(x);
    case Activation::mish:
      return at::mish(x);
    case Activation::hardswish:
      return at::hardswish(x);
    case Activation::linear:
      break;
  }
  return x;
}

}  // namespace rotary_torch
