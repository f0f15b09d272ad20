#include "rotary_torch/training/trainer.h"

#include <ATen/Context.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/nn/utils/clip_grad.h>

#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "rotary_torch/nn/layers.h"
#include "rotary_torch/op/refusal.h"
#include "rotary_torch/training/trainer_state.h"

namespace rotary_torch {

namespace {

// Each use of random numbers has its own stream.
enum Stream : std::uint64_t { training_rows = 1, validation_rows = 2, dropout = 3 };

std::vector<std::string> names_of(const DecoderImpl& model) {
  std::vector<std::string> names;
  for (const auto& item : model.named_parameters()) names.push_back(item.key());
  return names;
}

// Weight decay is for parameters with two dimensions or more. Without it AdamW is Adam.
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

void check_batch(const TrainingOptions& options, const ProcessGroup& group) {
  if (options.batch % group.size() != 0) {
    Refusal{"train"}(rotary::Code::SHAPE, "the batch of ", options.batch,
                     " sequences must divide evenly among the processes but there are ", group.size());
  }
}

// Dropout uses torch's generator. Setting its seed makes a step independent of earlier draws.
void seed_dropout(std::uint64_t seed, std::int64_t step, at::Device device, int rank) {
  const auto number = mixed(seed, dropout + static_cast<std::uint64_t>(rank) * 16, static_cast<std::uint64_t>(step));
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(number >> 11);  // 53 bits, which every generator accepts
}

}  // namespace

Trainer::State::State(DecoderImpl& model, const Corpus& corpus, const TrainingOptions& chosen, at::Device place,
                      const ProcessGroup& ranks)
    : options(chosen),
      device(place),
      group(ranks),
      names(names_of(model)),
      parameters(model.parameters()),
      optimiser(optimiser_of(parameters, chosen)),
      averager(parameters, ranks),
      train(corpus.train, chosen.block, chosen.seed, training_rows),
      validation(corpus.validation, chosen.block, chosen.seed, validation_rows) {}

torch::optim::AdamWParamState& Trainer::State::moments(const at::Tensor& parameter) {
  std::unique_ptr<torch::optim::OptimizerParamState>& state = optimiser.state()[parameter.unsafeGetTensorImpl()];
  if (!state) {
    auto zeros = std::make_unique<torch::optim::AdamWParamState>();
    zeros->exp_avg(at::zeros_like(parameter, at::TensorOptions().requires_grad(false)));
    zeros->exp_avg_sq(at::zeros_like(parameter, at::TensorOptions().requires_grad(false)));
    state = std::move(zeros);
  }
  return static_cast<torch::optim::AdamWParamState&>(*state);
}

at::Tensor Trainer::State::loss(Decoder& model, const Batches& batches, std::int64_t number) const {
  const std::int64_t rows = options.batch / group.size();
  const auto [ids, next] = batches.draw(number, group.rank() * rows, rows);
  const at::Tensor logits = model->forward(ids.to(device));
  return at::cross_entropy_loss(logits.flatten(0, -2), next.to(device).flatten());
}

void Trainer::State::average(at::Tensor& value) const {
  if (group.size() == 1) return;
  group.sum(value);
  value.div_(group.size());
}

Trainer::Trainer(Decoder model, Corpus corpus, TrainingOptions options, at::Device device, const ProcessGroup& group)
    : model_(std::move(model)) {
  check_batch(options, group);
  model_->to(device);
  model_->train();
  state_ = std::make_unique<State>(*model_, corpus, options, device, group);
}

Trainer::~Trainer() = default;

std::int64_t Trainer::steps() const noexcept { return state_->steps; }

StepReport Trainer::step() {
  const auto begin = std::chrono::steady_clock::now();
  State& state = *state_;
  const std::int64_t number = steps();
  seed_dropout(state.options.seed, number, state.device, state.group.rank());
  for (at::Tensor& parameter : state.parameters) parameter.mutable_grad().reset();

  const at::Tensor loss = state.loss(model_, state.train, number);
  state.averager.begin();
  loss.backward();
  state.averager.finish();
  at::Tensor mean = loss.detach();
  state.average(mean);

  StepReport report;
  report.rate = learning_rate(state.options, model_->config().width, number);
  for (torch::optim::OptimizerParamGroup& part : state.optimiser.param_groups()) part.options().set_lr(report.rate);
  const double clip = state.options.clip > 0 ? state.options.clip : std::numeric_limits<double>::infinity();
  report.gradient_norm = torch::nn::utils::clip_grad_norm_(state.parameters, clip);
  state.optimiser.step();
  report.step = ++state.steps;
  report.train_loss = mean.item<double>();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

std::optional<double> Trainer::evaluate(const std::function<bool()>& stop) {
  const c10::InferenceMode inference;
  const Evaluation without_dropout(*model_);
  double sum = 0;
  for (std::int64_t batch = 0; batch < state_->options.evaluate_batches; ++batch) {
    if (stop && stop()) return std::nullopt;
    at::Tensor loss = state_->loss(model_, state_->validation, batch);
    state_->average(loss);
    sum += loss.item<double>();
  }
  return sum / static_cast<double>(state_->options.evaluate_batches);
}

}  // namespace rotary_torch
