// Between torch and the core: what the door's own files share.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include "rotary/rotary.h"
#include "torch/op.h"

namespace rotary_torch {

// The core's errors as torch's, with the same sentence.
template <class Work>
decltype(auto) translated(Work&& work) {
  try {
    return work();
  } catch (const rotary::Error& error) {
    TORCH_CHECK(false, error.what());
  }
}

// cos and sin on the CPU, f32, [tokens, pairs] or [batch, tokens, pairs], at least one pair. Throws rotary::Error.
rotary::Table core_table(const at::Tensor& cos, const at::Tensor& sin, rotary::Pairing);

// The table of positions, also of none: [tokens, pairs], or [batch, tokens, pairs] where positions are batched.
TableTensors table_tensors(const rotary::Frequencies&, rotary::Pairing, const PositionTensor&, rotary::TableOptions);

}  // namespace rotary_torch
