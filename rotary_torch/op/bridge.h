// Conversions between torch and the core, for the library's own files: heads, tables, positions, errors.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <cstdint>
#include <string_view>

#include "rotary/rotary.h"
#include "rotary_torch/op/op.h"

namespace rotary_torch {

// Rethrows the core's errors as torch's, with the same sentence.
template <class Work>
decltype(auto) translated(Work&& work) {
  try {
    return work();
  } catch (const rotary::Error& error) {
    TORCH_CHECK(false, error.what());
  }
}

// The dimensions of batch, tokens and heads; -1: there is none. `layout` names them as "bthd" does, in any order,
// head_dim last. Throws c10::Error.
struct Places {
  std::int64_t batch;
  std::int64_t tokens;
  std::int64_t heads;
  std::int64_t dimensions;
};
Places places_of(const char* operation, std::string_view layout);

// A view of x, which is f32, f16 or bf16, with inner stride 1.
rotary::Heads heads_of(const at::Tensor& x, const Places&);
rotary::ConstHeads const_heads_of(const at::Tensor& x, const Places&);

// The rows of a table, [tokens, pairs], [batch, tokens, pairs] or [batch, tokens, heads, pairs], in a shape that
// broadcasts to heads laid out so. parts: how many heads turn; each of them shares rows per head among its own.
at::Tensor spread(const at::Tensor& rows, const Places&, c10::SymIntArrayRef parts);
// The reverse: of what has the shape of spread(rows), the sums that have the shape of rows.
at::Tensor gathered(at::Tensor wide, const at::Tensor& rows, const Places&, c10::SymIntArrayRef parts);

// A table that borrows cos and sin from two tensors, which must outlive it: f32, contiguous, shaped as above, with at
// least one pair; of tensors on a device a view that is not read. Throws rotary::Error.
rotary::Table borrowed(const at::Tensor& cos, const at::Tensor& sin, rotary::Pairing);

// Positions from a tensor on the CPU, and the view of them that rotary::Table takes; axes as in table().
struct PositionTensor {
  PositionTensor(const at::Tensor& positions, int axes);
  rotary::Positions view() const;
  std::int64_t length() const;  // the largest position + 1, at least 0

  at::Tensor values;  // int64 or float64, contiguous
  int axes;
  int batch;
  bool batched;  // the table has a batch dimension
};

// The table of these positions, which may be empty: [tokens, pairs], or [batch, tokens, pairs] if positions are
// batched. Computed on torch's threads.
TableTensors table_tensors(const rotary::Frequencies&, const PositionTensor&, rotary::Angles = rotary::Angles::exact,
                           rotary::Rounding = rotary::Rounding::f32);

}  // namespace rotary_torch
