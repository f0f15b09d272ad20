// The fast path of MultiHeadAttention on the CPU, f32: projection, rotation and attention as one step of autograd.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "torch/attention.h"

namespace rotary_torch {

// What one call asks for. Queries, keys and values have as many heads each.
struct FusedAttention {
  std::int64_t heads;
  std::int64_t head_dim;
  std::int64_t turning;  // heads that turn, of the 3 * heads of q, k and v: the first ones
  std::int64_t first;    // element of the head where the rotated block begins
  std::optional<double> scale;
};

// Whether fused_attention can stand in: f32 on the CPU, nothing empty, no gradient into the table or the mask, neither
// dropout, grouped queries, norms nor cached keys (those are the caller's to know).
bool fused_attention_fits(const at::Tensor& x, const at::Tensor& weight, const TableTensors* table,
                          const ScoreMask& mask);

// softmax(q k^T scale + mask) v [batch, tokens, heads, head_dim], where (q, k, v) = x weight^T + bias [3 heads *
// head_dim] and the first `turning` heads turn. weight and bias as torch::nn::Linear has them; bias may be undefined.
//
// The same values as the ops one by one. What it saves: q, k turn where the projection left them; their gradients and
// that of v are turned back into one block, which nothing concatenates, pads or copies again. No second gradient.
at::Tensor fused_attention(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                           const TableTensors* table, const ScoreMask& mask, const FusedAttention&);

}  // namespace rotary_torch
