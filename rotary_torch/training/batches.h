// Random windows of a text. Batch number `step` is a function of (seed, step) only: it does not depend on earlier
// batches or on the number of processes that share it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

namespace rotary_torch {

// 64 well-mixed bits of three numbers (SplitMix64's finaliser, applied in turn).
std::uint64_t mixed(std::uint64_t a, std::uint64_t b, std::uint64_t c) noexcept;

class Batches {
 public:
  // text: int64 [tokens] on the CPU, longer than block. Batches of equal seed and stream are equal.
  Batches(at::Tensor text, std::int64_t block, std::uint64_t seed, std::uint64_t stream);

  // Rows [first, first + rows) of the batch: ids and, for each, the id that follows it; both int64 [rows, block].
  std::pair<at::Tensor, at::Tensor> draw(std::int64_t step, std::int64_t first, std::int64_t rows) const;

 private:
  at::Tensor text_;
  std::int64_t block_;
  std::uint64_t seed_;
};

}  // namespace rotary_torch
