// The order of a tensor's dimensions, and views of tensors as the core's Heads.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string_view>

#include "rotary/rotary.h"
#include "rotary_torch/op/op.h"

namespace rotary_torch {

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

}  // namespace rotary_torch
