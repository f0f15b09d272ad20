// The small parts of the models: activations, norms, a projection, terms that are added for positions; and
// scopes: evaluation mode, modules without memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace rotary_torch {

// The activation functions of the models' feed-forward layers, by the names of Hugging Face configs.
enum class Activation : std::uint8_t {
  relu,
  gelu,       // x Phi(x), by erf
  gelu_tanh,  // its approximation by tanh; gelu_new and gelu_fast are the same formula
  silu,
  quick_gelu,  // x sigmoid(1.702 x)
};
const char* name(Activation) noexcept;
// Accepts the values of hidden_act ("gelu_new", "swish", ...) and those of name().
std::optional<Activation> activation(std::string_view name);
at::Tensor activate(Activation, const at::Tensor& x);

// Over the last dimension. rms: x / sqrt(mean(x^2) + eps) * weight, arXiv:1910.07467.
enum class Norm : std::uint8_t { layer, rms };
class NormLayerImpl : public torch::nn::Module {
 public:
  NormLayerImpl(Norm norm, std::int64_t size, double eps);
  at::Tensor forward(const at::Tensor& x) const;
  at::Tensor weight, bias;  // [size]; rms has no bias

 private:
  double eps_;
};
TORCH_MODULE(NormLayer);

torch::nn::Linear linear_layer(std::int64_t inputs, std::int64_t outputs, bool bias);
// at::linear flattens three dimensions into one product that includes the bias, which torch::nn::Linear does not.
at::Tensor projected(const torch::nn::Linear& layer, const at::Tensor& x);

// The type of tables and masks beside tensors of that type: f32, or f64 for f64.
inline at::ScalarType wide_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

at::Tensor dropped(const at::Tensor& x, double rate, bool training);  // dropout, in training only

// Matrices and embeddings from N(0, deviation), the output projections of a decoder's residual stream from
// N(0, into_stream), zero biases. Norms and what is frozen are unchanged.
void initialise_weights(torch::nn::Module&, double deviation, double into_stream);

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

// While it lives, torch's factory functions on this thread make tensors of the meta device. torch::nn modules take no
// device argument; with this, a module of a 7B config can be made and counted without 28 GB.
class MetaDevice {
 public:
  MetaDevice();

 private:
  c10::impl::IncludeDispatchKeyGuard guard_;
};

// ---- positions that are added instead of rotated ----

// f32 [tokens, width], width even: sin(p / 10000^(2i/width)) and its cosine at 2i and 2i + 1, p from 0.
// arXiv:1706.03762.
at::Tensor sinusoids(std::int64_t tokens, std::int64_t width);

// One slope per head: 2^(-8/n), 2^(-16/n), ... if n heads are a power of two; otherwise the slopes of the next lower
// power, then every second slope of twice that power. arXiv:2108.12409 and its code.
std::vector<double> alibi_slopes(std::int64_t heads);
// slope * (key - query), f32 [1, heads, queries, past + queries]; the queries follow `past` keys.
at::Tensor alibi_bias(std::int64_t heads, std::int64_t queries, std::int64_t past, const at::TensorOptions&);

}  // namespace rotary_torch
