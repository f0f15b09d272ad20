#include "rotary_torch/training/trainer.h"

#include <ATen/Context.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/nn/utils/clip_grad.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "rotary_torch/nn/layers.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {

namespace {

// Each use of random numbers has its own stream.
enum Stream : std::uint64_t { training_rows = 1, validation_rows = 2, dropout = 3 };

// SplitMix64's finaliser: Steele, Lea, Flood, "Fast splittable pseudorandom
// number generators", OOPSLA 2014.
std::uint64_t finalised(std::uint64_t z) noexcept {
  z += 0x9e3779b97f4a7c15;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

// 64 well-mixed bits of three numbers.
std::uint64_t mixed(std::uint64_t a, std::uint64_t b, std::uint64_t c) noexcept {
  return finalised(finalised(finalised(a) ^ b) ^ c);
}

// Weight decay is for parameters with two dimensions or more. Without it AdamW
// is Adam.
torch::optim::AdamW optimiser_of(const std::vector<at::Tensor>& parameters, const TrainingOptions& options) {
  std::vector<at::Tensor> decayed, others;
  for (const at::Tensor& parameter : parameters) (parameter.dim() >= 2 ? decayed : others).push_back(parameter);
  torch::optim::AdamWOptions shared(options.rate);
  shared.betas({options.beta1, options.beta2}).eps(options.epsilon).weight_decay(0);
  auto with_decay = std::make_unique<torch::optim::AdamWOptions>(shared);
  with_decay->weight_decay(options.weight_decay);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(decayed, std::move(with_decay));
  groups.emplace_back(others, std::make_unique<torch::optim::AdamWOptions>(shared));
  return torch::optim::AdamW(groups, shared);
}

// The model in training mode on its device.
Decoder ready(Decoder model, const TrainingOptions& options, at::Device device, const ProcessGroup& group) {
  if (options.batch % group.size() != 0) {
    Refusal{"train"}(rotary::Code::SHAPE, "the batch of ", options.batch,
                     " sequences must divide evenly among the processes but there are ", group.size());
  }
  model->to(device);
  model->train();
  return model;
}

// Dropout uses torch's generator. Setting its seed makes a step independent of
// earlier draws.
void seed_dropout(std::uint64_t seed, std::int64_t step, at::Device device, int rank) {
  const auto number = mixed(seed, dropout + static_cast<std::uint64_t>(rank) * 16, static_cast<std::uint64_t>(step));
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(number >> 11);  // 53 bits, which every generator accepts
}

// Averages over the ranks, in place.
void average(at::Tensor& value, const ProcessGroup& group) {
  if (group.size() == 1) return;
  group.sum(value);
  value.div_(group.size());
}

}  // namespace

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

Trainer::Trainer(Decoder model, Corpus corpus, TrainingOptions options, at::Device device, const ProcessGroup& group)
    : model_(ready(std::move(model), options, device, group)),
      options_(options),
      device_(device),
      group_(group),
      parameters_(model_->parameters()),
      optimiser_(optimiser_of(parameters_, options)),
      averager_(parameters_, group),
      train_(corpus.train, options.block, options.seed, training_rows),
      validation_(corpus.validation, options.block, options.seed, validation_rows) {
  for (const at::Tensor& parameter : parameters_) {  // as AdamW makes them in its first step
    auto zeros = std::make_unique<torch::optim::AdamWParamState>();
    zeros->exp_avg(at::zeros_like(parameter, at::TensorOptions().requires_grad(false)));
    zeros->exp_avg_sq(at::zeros_like(parameter, at::TensorOptions().requires_grad(false)));
    optimiser_.state()[parameter.unsafeGetTensorImpl()] = std::move(zeros);
  }
}

torch::optim::AdamWParamState& Trainer::moments(const at::Tensor& parameter) const {
  return static_cast<torch::optim::AdamWParamState&>(*optimiser_.state().at(parameter.unsafeGetTensorImpl()));
}

std::vector<std::pair<std::string, at::Tensor>> Trainer::tensors() const {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& item : model_->named_parameters()) {
    const torch::optim::AdamWParamState& moments = this->moments(item.value());
    all.emplace_back("model." + item.key(), item.value());
    all.emplace_back("first_moment." + item.key(), moments.exp_avg());
    all.emplace_back("second_moment." + item.key(), moments.exp_avg_sq());
  }
  return all;
}

at::Tensor Trainer::loss(const Batches& batches, std::int64_t number) {
  const std::int64_t rows = options_.batch / group_.size();
  const auto [ids, next] = batches.draw(number, group_.rank() * rows, rows);
  const at::Tensor logits = model_->forward(ids.to(device_));
  return at::cross_entropy_loss(logits.flatten(0, -2), next.to(device_).flatten());
}

StepReport Trainer::step() {
  const auto begin = std::chrono::steady_clock::now();
  const std::int64_t number = steps_;
  seed_dropout(options_.seed, number, device_, group_.rank());
  for (at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();

  const at::Tensor loss = this->loss(train_, number);
  averager_.begin();
  loss.backward();
  averager_.finish();
  at::Tensor mean = loss.detach();
  average(mean, group_);

  StepReport report;
  report.rate = learning_rate(options_, model_->config().width, number);
  for (torch::optim::OptimizerParamGroup& part : optimiser_.param_groups()) part.options().set_lr(report.rate);
  const double clip = options_.clip > 0 ? options_.clip : std::numeric_limits<double>::infinity();
  report.gradient_norm = torch::nn::utils::clip_grad_norm_(parameters_, clip);
  optimiser_.step();
  report.step = ++steps_;
  report.train_loss = mean.item<double>();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

std::optional<double> Trainer::evaluate(const std::function<bool()>& stop) {
  const c10::InferenceMode inference;
  const Evaluation without_dropout(*model_);
  double sum = 0;
  for (std::int64_t batch = 0; batch < options_.evaluate_batches; ++batch) {
    if (stop && stop()) return std::nullopt;
    at::Tensor loss = this->loss(validation_, batch);
    average(loss, group_);
    sum += loss.item<double>();
  }
  return sum / static_cast<double>(options_.evaluate_batches);
}

}  // namespace rotary_torch
