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

// The dimensions of batch (-1: there is none), tokens and heads.
struct Places {
  std::int64_t batch;
  std::int64_t tokens;
  std::int64_t heads;
  std::int64_t dimensions() const noexcept { return batch < 0 ? 3 : 4; }
};
Places places_of(Dims);
Dims dims_named(std::string_view operation, std::string_view word);

// A view of x, which is on the CPU, f32, f16 or bf16, with inner stride 1.
rotary::Heads heads_of(const at::Tensor& x, const Places&);
rotary::ConstHeads const_heads_of(const at::Tensor& x, const Places&);

// A table that borrows cos and sin from two tensors and keeps these alive. They are on the CPU, f32, [tokens, pairs] or
// [batch, tokens, pairs], with at least one pair; strided ones are made contiguous. Throws rotary::Error.
struct BorrowedTable {
  BorrowedTable(const at::Tensor& cos, const at::Tensor& sin, rotary::Pairing);

  at::Tensor cos;
  at::Tensor sin;
  rotary::Table table;
};

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
