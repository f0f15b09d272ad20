// The state of a Trainer and its batches, for trainer.cpp, trainer_checkpoint.cpp and batches.cpp.
#pragma once

#include <torch/optim/adamw.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "rotary_torch/training/trainer.h"

namespace rotary_torch {

// 64 well-mixed bits of three numbers (SplitMix64's finaliser, applied in turn).
std::uint64_t mixed(std::uint64_t a, std::uint64_t b, std::uint64_t c) noexcept;

// Random windows of a text. Batch number `step` is a function of (seed, step) only: it does not depend on earlier
// batches or on the number of processes that share it.
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

struct Trainer::State {
  State(DecoderImpl& model, const Corpus& corpus, const TrainingOptions& chosen, at::Device place,
        const ProcessGroup& ranks);

  // Mean cross-entropy of this rank's rows of a batch.
  at::Tensor loss(Decoder& model, const Batches& batches, std::int64_t number) const;
  // The optimiser's moments of a parameter, zeros before the first step.
  torch::optim::AdamWParamState& moments(const at::Tensor& parameter);
  // Averages over the ranks, in place.
  void average(at::Tensor& value) const;

  TrainingOptions options;
  at::Device device;
  const ProcessGroup& group;
  std::vector<std::string> names;
  std::vector<at::Tensor> parameters;
  std::int64_t steps = 0;         // done
  torch::optim::AdamW optimiser;  // two groups: with weight decay and without
  GradientAverager averager;
  Batches train, validation;
};

}  // namespace rotary_torch
