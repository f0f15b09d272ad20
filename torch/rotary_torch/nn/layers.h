// The parts of the models: activations, norms, a projection, terms that are added for positions; multi-head attention
// with rotary queries and keys by torch's scaled_dot_product_attention, its masks and its KV cache; and scopes:
// evaluation mode, modules without memory.
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <optional>
#include <string_view>
#include <vector>

#include "rotary/positions.h"
#include "rotary_torch/op/op.h"

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

// f32 [tokens, width], width even: sin(p / 10000^(2i/width)) and its cosine at 2i and 2i + 1, p from 0.
// arXiv:1706.03762.
at::Tensor sinusoids(std::int64_t tokens, std::int64_t width);

// One slope per head: 2^(-8/n), 2^(-16/n), ... if n heads are a power of two; otherwise the slopes of the next lower
// power, then every second slope of twice that power. arXiv:2108.12409 and its code.
std::vector<double> alibi_slopes(std::int64_t heads);
// slope * (key - query), f32 [1, heads, queries, past + queries]; the queries follow `past` keys.
at::Tensor alibi_bias(std::int64_t heads, std::int64_t queries, std::int64_t past, const at::TensorOptions&);

// The keys that a query may see. The parts combine: a key is seen only if every part allows it.
struct AttentionMask {
  bool causal = false;       // query t (counted with the cached tokens) sees keys 0 to t
  std::int64_t window = 0;   // sliding window: keys nearer than this (t - window < key); 0: no window
  at::Tensor padding = {};   // [batch, keys], bool or integers: 0 is padding and never seen
  at::Tensor additive = {};  // floating, broadcast to [batch, heads, queries, keys]: added to the scaled scores
  // Unseen keys get the lowest f32 instead of -inf: a query that sees none yields the mean of all values, not 0.
  bool finite = false;
};

// The mask of one step in the form of scaled_dot_product_attention: made once, shared by all layers.
struct ScoreMask {
  bool causal = false;   // only causal, without bias: the fused kernel skips keys that are not seen
  at::Tensor bias = {};  // f32 [batch or 1, heads or 1, queries, keys], -inf where unseen; undefined: none
};
// past: the number of keys in the cache before this step. Throws SHAPE.
ScoreMask score_mask(const AttentionMask&, std::int64_t batch, std::int64_t queries, std::int64_t past,
                     const at::TensorOptions& options);

// The rotated keys and the values of the tokens so far, for one layer: [batch, kv_heads, tokens, head_dim]. The
// capacity doubles when it is used up. Not differentiable: for decoding, under no_grad or inference mode.
// With a window only the tokens that it holds, each in its slot; once it is full it takes one at a time.
class KVCache {
 public:
  // capacity: tokens to make room for at first.
  explicit KVCache(std::int64_t capacity = 0, const rotary::SlidingWindow& window = {})
      : capacity_(capacity), window_(window) {}
  // Appends k and v [batch, kv_heads, tokens, head_dim], any strides; returns views of all that are held. Throws SHAPE.
  std::pair<at::Tensor, at::Tensor> append(const at::Tensor& k, const at::Tensor& v);
  std::int64_t tokens() const noexcept { return tokens_; }
  // Before a token that the full window takes: rotates the keys of the sinks, as they were appended, by these rows.
  void turn_sinks(const TableTensors&, std::int64_t first);

 private:
  at::Tensor keys_, values_, sinks_;
  std::int64_t tokens_ = 0;
  std::int64_t capacity_ = 0;
  rotary::SlidingWindow window_;
};

struct AttentionOptions {
  std::int64_t width = 0;  // the input's and the output's
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // 0: heads. Divides heads: query head h reads key head h / (heads / kv_heads)
  std::int64_t head_dim = 0;  // 0: width / heads
  bool qkv_bias = true;
  bool output_bias = true;
  bool qk_norm = false;         // RMS norm over head_dim of q and k, before the rotation (Qwen3)
  double norm_eps = 1e-6;       // qk_norm's
  double dropout = 0;           // applied to the attention probabilities, in training
  bool rotates_values = false;  // values turn as queries and keys do: RoFormer's rotary_value
};

AttentionOptions completed(AttentionOptions);  // kv_heads and head_dim filled in; throws SHAPE

// softmax(q k^T / sqrt(head_dim) + mask) v. The table and `first` determine which elements rotate and how (to rotate a
// fraction f of each head, use a Rope with rotary_dim = f head_dim).
class MultiHeadAttentionImpl : public torch::nn::Module {
 public:
  explicit MultiHeadAttentionImpl(AttentionOptions options);  // throws SHAPE

  // x [batch, tokens, width]. table: rows for these tokens, nullptr if nothing rotates; first: the element of the head
  // where the rotated block begins. With a cache, the keys are those of its tokens, then of x; mask covers all of them.
  at::Tensor forward(const at::Tensor& x, const TableTensors* table, const ScoreMask& mask, KVCache* cache = nullptr,
                     std::int64_t first = 0);

  const AttentionOptions& options() const noexcept { return options_; }

  torch::nn::Linear qkv{nullptr};  // rows: heads of q, then of k, then of v; head_dim each
  torch::nn::Linear output{nullptr};
  NormLayer q_norm{nullptr}, k_norm{nullptr};

 private:
  AttentionOptions options_;
};
TORCH_MODULE(MultiHeadAttention);

}  // namespace rotary_torch
