// Rotation of torch tensors, differentiable: the C++ functions of the ops rotary::rotate, rotary::rotate_backward and
// rotary::table, which the library registers with torch when it is loaded (docs/torch.md).
//
// Invalid input throws c10::Error with the sentence that rotary::Error would have.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

#include "rotary/rotary.h"

namespace rotary_torch {

// The dimensions of a tensor of heads, outermost first: batch, tokens, heads, head_dim.
enum class Dims : std::uint8_t { bthd, bhtd, tbhd, thd };
const char* name(Dims) noexcept;

// Rows of cos and sin as tensors, f32 [tokens, pairs], [batch, tokens, pairs] or, where heads have rows each,
// [batch, tokens, heads, pairs].
struct TableTensors {
  at::Tensor cos;
  at::Tensor sin;
  rotary::Pairing pairing = rotary::Pairing::unset;
};
TableTensors tensors(const rotary::Table&);
// The rows of a rope at positions, as of table() below, on their device; a scaling that depends on the length takes the
// largest position + 1.
TableTensors table(const rotary::Rope&, const at::Tensor& positions, rotary::Angles = rotary::Angles::exact,
                   rotary::Rounding = rotary::Rounding::f32);

// Rotates elements [first, first + 2 pairs) of every head and copies the others. x is f32, f16 or bf16 with any strides
// (or f64, with a table in f64, by torch's own ops). Differentiable in x and in the table's cos and sin, any number
// of times. The result has x's strides if those are dense.
at::Tensor rotate(const at::Tensor& x, const TableTensors&, Dims, std::int64_t first = 0);
at::Tensor rotate(const at::Tensor& x, const rotary::Table&, Dims, std::int64_t first = 0);

// In place. Not differentiable: throws if a gradient would be recorded.
void rotate_(const at::Tensor& x, const TableTensors&, Dims, std::int64_t first = 0);

// The transposed map: the gradient of rotate with respect to x.
at::Tensor rotate_backward(const at::Tensor& grad, const TableTensors&, Dims, std::int64_t first = 0);

// cos and sin, f32, the correctly rounded values of attention_factor * cos(position * inv_freq). positions: int32,
// int64 or float64 [tokens] or [batch, tokens]; if axis (one per pair) names several axes, also [axes, tokens] or
// [axes, batch, tokens], and [tokens] is used for all axes. inv_freq: f64 [pairs]. Differentiable in inv_freq.
std::pair<at::Tensor, at::Tensor> table(const at::Tensor& positions, const at::Tensor& inv_freq,
                                        double attention_factor = 1, at::IntArrayRef axis = {});

// torch's own intra-op threads.
const rotary::Executor& threads() noexcept;

}  // namespace rotary_torch
