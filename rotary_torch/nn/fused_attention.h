// The fast path of MultiHeadAttention on the CPU, f32: projection, rotation and attention as one step of autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "rotary_torch/nn/attention.h"

namespace rotary_torch {

// What one call asks for.
struct FusedAttention {
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t head_dim;
  std::int64_t rotated;  // heads that rotate, of the heads + 2 kv_heads of q, k and v: the first ones
  std::int64_t first;    // element of the head where the rotated block begins
  double scale;
};

// Whether fused_attention can stand in: f32 on the CPU, nothing empty, no gradient into the table or the mask, a kernel
// for these heads. Dropout, norms and cached keys are the caller's to exclude.
bool fused_attention_fits(const at::Tensor& x, const at::Tensor& weight, const TableTensors* table,
                          const ScoreMask& mask, const FusedAttention&);

// softmax(q k^T scale + mask) v [batch, tokens, heads, head_dim], where (q, k, v) = x weight^T + bias [(heads + 2
// kv_heads) * head_dim] and the first `rotated` heads rotate. weight and bias as torch::nn::Linear has them; bias may
// be undefined.
//
// What it saves against the ops one by one: q and k rotate where the projection left them, their gradients where the
// kernel left them, in one block that nothing pads, adds up or copies again. Small heads take kernels of their own
// (small_heads.h), others torch's. No second gradient.
at::Tensor fused_attention(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           const TableTensors* table, const ScoreMask& mask, const FusedAttention&);

}  // namespace rotary_torch
