// Multi-head attention with rotary queries and keys, by torch's scaled_dot_product_attention: grouped queries, masks, a
// KV cache.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <utility>

#include "rotary/positions.h"
#include "rotary_torch/nn/layers.h"
#include "rotary_torch/op/op.h"

namespace rotary_torch {

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
  std::int64_t width = 0;  // of the input and the output
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // 0: heads. Divides heads: query head h reads key head h / (heads / kv_heads)
  std::int64_t head_dim = 0;  // 0: width / heads
  bool qkv_bias = true;
  bool output_bias = true;
  bool qk_norm = false;         // RMS norm over head_dim of q and k, before the rotation (Qwen3)
  double norm_eps = 1e-6;       // of qk_norm
  double dropout = 0;           // of the attention probabilities, in training
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
