// The state of a Trainer, for trainer.cpp and trainer_checkpoint.cpp.
#pragma once

#include <torch/optim/adamw.h>

#include "rotary_torch/training/batches.h"
#include "rotary_torch/training/trainer.h"

namespace rotary_torch {

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
