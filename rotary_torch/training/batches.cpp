#include <ATen/ops/empty.h>

#include <algorithm>

#include "rotary_torch/training/trainer_state.h"

namespace rotary_torch {

namespace {

// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
std::uint64_t finalised(std::uint64_t z) noexcept {
  z += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

}  // namespace

std::uint64_t mixed(std::uint64_t a, std::uint64_t b, std::uint64_t c) noexcept {
  return finalised(finalised(finalised(a) ^ b) ^ c);
}

Batches::Batches(at::Tensor text, std::int64_t block, std::uint64_t seed, std::uint64_t stream)
    : text_(text.contiguous()), block_(block), seed_(mixed(seed, stream, 0)) {}

std::pair<at::Tensor, at::Tensor> Batches::draw(std::int64_t step, std::int64_t first, std::int64_t rows) const {
  at::Tensor ids = at::empty({rows, block_}, at::kLong);
  at::Tensor next = at::empty({rows, block_}, at::kLong);
  const auto* text = text_.const_data_ptr<std::int64_t>();
  const auto starts = static_cast<std::uint64_t>(text_.numel() - block_);
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::uint64_t bits = mixed(seed_, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(first + row));
    // The bias of the modulus is at most starts / 2^64.
    const auto* window = text + bits % starts;
    std::copy_n(window, block_, ids.mutable_data_ptr<std::int64_t>() + row * block_);
    std::copy_n(window + 1, block_, next.mutable_data_ptr<std::int64_t>() + row * block_);
  }
  return {ids, next};
}

}  // namespace rotary_torch
