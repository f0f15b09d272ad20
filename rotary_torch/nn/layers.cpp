#include "rotary_torch/nn/layers.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "files/models/families.h"
#include "rotary_torch/op/op.h"

namespace rotary_torch {

using at::Tensor;

// ---- activations ----

namespace {

struct ActivationRow {
  std::string_view name, also;  // also: other spellings, separated by blanks
  Tensor (*apply)(const Tensor&);
};

// In the order of Activation.
constexpr ActivationRow activations[] = {
    {"relu", "", [](const Tensor& x) { return at::relu(x); }},
    {"gelu", "gelu_python", [](const Tensor& x) { return at::gelu(x); }},
    {"gelu_tanh", "gelu_new gelu_fast gelu_accurate gelu_pytorch_tanh gelu_python_tanh",
     [](const Tensor& x) { return at::gelu(x, "tanh"); }},
    {"silu", "swish", [](const Tensor& x) { return at::silu(x); }},
    {"quick_gelu", "", [](const Tensor& x) { return x * at::sigmoid(1.702 * x); }},
};

}  // namespace

const char* name(Activation activation) noexcept {
  return activations[static_cast<std::size_t>(activation)].name.data();
}

std::optional<Activation> activation(std::string_view name) {
  for (std::size_t i = 0; i < std::size(activations); ++i) {
    const ActivationRow& row = activations[i];
    const std::vector<std::string_view> also = rotary::files::words(row.also);
    if (row.name == name || std::find(also.begin(), also.end(), name) != also.end()) return static_cast<Activation>(i);
  }
  return std::nullopt;
}

Tensor activate(Activation activation, const Tensor& x) {
  return activations[static_cast<std::size_t>(activation)].apply(x);
}

// ---- layers ----

NormLayerImpl::NormLayerImpl(Norm norm, std::int64_t size, double eps)
    : torch::nn::Module(norm == Norm::rms ? "RMSNorm" : "LayerNorm"), eps_(eps) {
  weight = register_parameter("weight", at::ones({size}));
  if (norm == Norm::layer) bias = register_parameter("bias", at::zeros({size}));
}

Tensor NormLayerImpl::forward(const Tensor& x) const {
  return bias.defined() ? at::layer_norm(x, weight.sizes(), weight, bias, eps_)
                        : at::rms_norm(x, weight.sizes(), weight, eps_);
}

torch::nn::Linear linear_layer(std::int64_t inputs, std::int64_t outputs, bool bias) {
  return torch::nn::Linear(torch::nn::LinearOptions(inputs, outputs).bias(bias));
}

Tensor projected(const torch::nn::Linear& layer, const Tensor& x) { return at::linear(x, layer->weight, layer->bias); }

Tensor dropped(const Tensor& x, double rate, bool training) {
  return training && rate > 0 ? at::dropout(x, rate, true) : x;
}

void initialise_weights(torch::nn::Module& module, double deviation, double into_stream) {
  const at::NoGradGuard no_grad;
  for (const auto& item : module.named_parameters()) {
    const std::string& key = item.key();
    if (key.find("norm") != std::string::npos || !item.value().requires_grad()) continue;
    const bool residual = key.ends_with("attention.output.weight") || key.ends_with("feed.down.weight");
    item.value().dim() == 1 ? item.value().zero_() : item.value().normal_(0, residual ? into_stream : deviation);
  }
}

// ---- modules without memory ----

namespace {

// empty.memory_format, which every factory function without a device calls, is overridden under this key. torch
// reserves the key for interposers and has no kernels for it; the dispatcher considers it only on threads that include
// it.
constexpr c10::DispatchKey interposer = c10::DispatchKey::TESTING_ONLY_GenericMode;

Tensor empty_on_meta(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                     std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::impl::ExcludeDispatchKeyGuard below(interposer);
  return at::empty_symint(size, dtype, layout, at::Device(at::kMeta), std::nullopt, format);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) { library.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, TESTING_ONLY_GenericMode, library) { library.impl("empty.memory_format", empty_on_meta); }

}  // namespace

MetaDevice::MetaDevice() : guard_(interposer) {}

// ---- positions that are added instead of rotated ----

Tensor sinusoids(std::int64_t tokens, std::int64_t width) {
  // The angles of a rope as wide as the model.
  const rotary::Rope angles{.head_dim = static_cast<int>(width), .pairing = rotary::Pairing::interleaved};
  const TableTensors rows = tensors(rotary::Table(rotary::frequencies(angles), rotary::positions(0, tokens)));
  return at::stack({rows.sin, rows.cos}, -1).flatten(-2);
}

std::vector<double> alibi_slopes(std::int64_t heads) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (std::int64_t i = 1; i <= power; ++i) {
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(power)));
  }
  for (std::int64_t i = 1; power + i <= heads; ++i) {
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(2 * i - 1) / static_cast<double>(2 * power)));
  }
  return slopes;
}

Tensor alibi_bias(std::int64_t heads, std::int64_t queries, std::int64_t past, const at::TensorOptions& options) {
  const Tensor slopes = at::tensor(alibi_slopes(heads), at::kFloat).to(options.device()).view({1, heads, 1, 1});
  const at::TensorOptions floats = options.dtype(at::kFloat);
  const Tensor keys = at::arange(past + queries, floats), own = at::arange(past, past + queries, floats);
  return slopes * (keys - own.unsqueeze(-1));
}

}  // namespace rotary_torch
