// Attention over all tokens at once for small heads on the CPU, f32: forward and backward.
//
// torch's fused kernel calls a BLAS for each block of a head; with 8 or 32 elements per head most of its time is
// overhead. Here each product is a loop with a constant head_dim.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "rotary_torch/nn/attention.h"

namespace rotary_torch {

// Whether there are kernels for this head_dim: 8, 16, 32 or 64.
bool small_heads_fit(std::int64_t head_dim);

// qkv [batch, tokens, heads + 2 kv_heads, head_dim], f32, contiguous: the heads of q, of k, of v. Returns
// softmax(q k^T scale + mask) v [batch, tokens, heads, head_dim], contiguous, and log sum exp [batch, heads, tokens]
// (+inf if a query sees no key; its output is 0). mask.bias: f32, inner stride 1.
std::pair<at::Tensor, at::Tensor> small_heads_forward(const at::Tensor& qkv, std::int64_t heads, const ScoreMask& mask,
                                                      double scale);

// The gradient of qkv, in one block. grad is the gradient of y [batch, tokens, heads, head_dim], with any strides.
at::Tensor small_heads_backward(const at::Tensor& grad, const at::Tensor& qkv, const at::Tensor& y,
                                const at::Tensor& logsumexp, std::int64_t heads, const ScoreMask& mask, double scale);

}  // namespace rotary_torch
