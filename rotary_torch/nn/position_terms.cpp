#include "rotary_torch/nn/position_terms.h"

#include <ATen/ATen.h>

#include <cmath>

#include "rotary_torch/op/op.h"

namespace rotary_torch {

at::Tensor sinusoids(std::int64_t tokens, std::int64_t width) {
  rotary::Rope angles;  // the angles of a rope as wide as the model
  angles.head_dim = static_cast<int>(width);
  angles.pairing = rotary::Pairing::interleaved;
  const TableTensors rows = tensors(rotary::Table(rotary::frequencies(angles), rotary::positions(0, tokens)));
  return at::stack({rows.sin, rows.cos}, -1).flatten(-2);
}

std::vector<double> alibi_slopes(std::int64_t heads) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (std::int64_t i = 1; i <= power; ++i) {
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(power)));
  }
  for (std::int64_t i = 1; power + i <= heads; ++i) {
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(2 * i - 1) / static_cast<double>(2 * power)));
  }
  return slopes;
}

at::Tensor alibi_bias(std::int64_t heads, std::int64_t queries, std::int64_t past, const at::TensorOptions& options) {
  const at::Tensor slopes = at::tensor(alibi_slopes(heads), at::kFloat).to(options.device()).view({1, heads, 1, 1});
  const at::TensorOptions floats = options.dtype(at::kFloat);
  const at::Tensor keys = at::arange(past + queries, floats), own = at::arange(past, past + queries, floats);
  return slopes * (keys - own.unsqueeze(-1));
}

}  // namespace rotary_torch
