// The fast path of MultiHeadAttention on the CPU, f32: projection, rotation and attention as one step of autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "rotary_torch/nn/attention.h"

namespace rotary_torch {

// The arguments of one call.
struct FusedAttention {
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
  std::int64_t rotated;  // the first `rotated` of the heads + 2 kv_heads of q, k and v rotate
  std::int64_t first;    // element of the head where the rotated block begins
  double scale;
};

// Whether fused_attention can be used: f32 on the CPU, nothing empty, no gradient into the table or the mask, a kernel
// for these heads. The caller must exclude dropout, norms and cached keys.
bool fused_attention_fits(const at::Tensor& x, const at::Tensor& weight, const TableTensors* table,
                          const ScoreMask& mask, const FusedAttention&);

// softmax(q k^T scale + mask) v [batch, tokens, heads, head_dim], where (q, k, v) = x weight^T + bias [(heads + 2
// kv_heads) * head_dim] and the first `rotated` heads rotate. weight and bias are those of a torch::nn::Linear; bias
// may be undefined.
//
// Faster than separate ops: q and k rotate in the output of the projection, and their gradients in that of the kernel,
// in one block without padding, sums or copies. Small heads use the kernels of small_heads.h, others torch's. No second
// gradient.
at::Tensor fused_attention(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           const TableTensors* table, const ScoreMask& mask, const FusedAttention&);

}  // namespace rotary_torch
