#include "rotary_torch/training/trainer.h"

#include <ATen/Context.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/nn/utils/clip_grad.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>

#include "files/text/io.h"
#include "files/text/json.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/nn/layers.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {

namespace {

using rotary::Code;
using rotary::files::in_quotes;
using Words = std::map<std::string, std::string>;
namespace fs = std::filesystem;

// Each use of random numbers has its own stream.
enum Stream : std::uint64_t { training_rows = 1, validation_rows = 2, dropout = 3 };

// SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
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

// The model in training mode on its device.
Decoder ready(Decoder model, const TrainingOptions& options, at::Device device, const ProcessGroup& group) {
  Refusal{"train"}.unless(options.batch % group.size() == 0, rotary::Code::SHAPE, "the batch of ", options.batch,
                          " sequences must divide evenly among the processes but there are ", group.size());
  model->to(device);
  model->train();
  return model;
}

// Dropout uses torch's generator. Setting its seed makes a step independent of earlier draws.
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

// ---- the checkpoint: weights, moments and the step as tensors, the options and notes as metadata ----

namespace {

constexpr const char* format = "rotary training checkpoint 1";
constexpr std::string_view note_prefix = "note.";

std::string word(std::int64_t value) { return std::to_string(value); }
std::string word(std::uint64_t value) { return std::to_string(value); }
std::string word(double value) { return rotary::files::spelled(value); }
std::string word(Schedule value) { return value == Schedule::noam ? "noam" : "cosine"; }

// Calls visit with the name and the value of every option.
template <class Options, class Visit>
void for_each_option(Options& options, const Visit& visit) {
  visit("steps", options.steps);
  visit("batch", options.batch);
  visit("block", options.block);
  visit("schedule", options.schedule);
  visit("rate", options.rate);
  visit("last_rate", options.last_rate);
  visit("warm_up", options.warm_up);
  visit("beta1", options.beta1);
  visit("beta2", options.beta2);
  visit("epsilon", options.epsilon);
  visit("weight_decay", options.weight_decay);
  visit("clip", options.clip);
  visit("evaluate_every", options.evaluate_every);
  visit("evaluate_batches", options.evaluate_batches);
  visit("seed", options.seed);
}

template <class... Rule>
[[noreturn]] void refuse(const fs::path& path, const Rule&... rule) {
  Refusal{"checkpoint"}(Code::FORMAT, path.string(), ": ", rule...);
}

// The metadata. Options that earlier versions did not have are there with the value that their runs had.
Words words_of(const fs::path& path) {
  Words words = rotary::SafetensorsFile(path).metadata();
  if (words["format"] != format) refuse(path, "a training checkpoint must say format ", in_quotes(format));
  words.insert({{"option.weight_decay", "0"}, {"option.clip", "0"}});
  return words;
}

std::string word_of(const fs::path& path, const Words& words, const std::string& key) {
  const auto found = words.find(key);
  if (found == words.end()) refuse(path, "the metadata must hold ", key);
  return found->second;
}

template <class Number>
Number number_of(const fs::path& path, const Words& words, const std::string& key) {
  const std::string text = word_of(path, words, key);
  Number number{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size())
    refuse(path, key, " must be a number but is ", in_quotes(text));
  return number;
}

TrainingOptions options_of(const fs::path& path, const Words& words) {
  TrainingOptions options;
  for_each_option(options, [&](const std::string& name, auto& value) {
    using Value = std::decay_t<decltype(value)>;
    const std::string key = "option." + name;
    if constexpr (std::is_same_v<Value, Schedule>) {
      const std::string text = word_of(path, words, key);
      if (text != "noam" && text != "cosine") refuse(path, key, " must be cosine or noam");
      value = text == "noam" ? Schedule::noam : Schedule::cosine;
    } else {
      value = number_of<Value>(path, words, key);
    }
  });
  return options;
}

// Throws RESUME, naming the first option that differs.
void check_same(const TrainingOptions& now, const Words& words) {
  for_each_option(now, [&](const std::string& name, const auto& value) {
    const bool steps = name == "steps", only_the_end = steps && now.schedule == Schedule::noam;
    const std::string& then = words.at("option." + name);
    if (only_the_end || then == word(value)) return;
    Refusal{"resume"}(Code::RESUME, name, " must be ", then, ", as the run began,",
                      steps ? " since the cosine schedule leads to the last step," : "", " but got ", word(value));
  });
}

}  // namespace

void Trainer::save(const fs::path& checkpoint, const Words& notes) const {
  Words words = {{"format", format}, {"step", word(steps())}};
  for_each_option(options_,
                  [&words](const std::string& name, const auto& value) { words["option." + name] = word(value); });
  for (const auto& [name, value] : notes) words[std::string(note_prefix) + name] = value;
  write_tensors(checkpoint, tensors(), words);
}

void Trainer::load(const fs::path& checkpoint) {
  const Words words = words_of(checkpoint);
  options_of(checkpoint, words);
  check_same(options_, words);
  const auto done = number_of<std::int64_t>(checkpoint, words, "step");
  if (done < 0) refuse(checkpoint, "step must be 0 or more but is ", done);
  Refusal{"checkpoint"}.unless(parameters_.front().scalar_type() == at::kFloat, Code::DTYPE, checkpoint.string(),
                               ": a checkpoint is read into f32 weights alone");
  Checkpoint file(checkpoint);
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // applied only after everything has been read
  for (const auto& [name, target] : tensors()) copies.emplace_back(target, file.read(name, target.sizes()));
  if (const std::vector<std::string> others = file.unused(); !others.empty()) {
    Refusal{"checkpoint"}(Code::TENSOR, checkpoint.string(), ": the model must have all tensors but has no ",
                          in_quotes(others.front()));
  }
  const c10::NoGradGuard no_grad;
  for (auto& [target, value] : copies) target.copy_(value);
  steps_ = done;
  for (const at::Tensor& parameter : parameters_) moments(parameter).step(done);
}

TrainingOptions checkpoint_options(const fs::path& checkpoint) { return options_of(checkpoint, words_of(checkpoint)); }

Words checkpoint_notes(const fs::path& checkpoint) {
  Words notes;
  for (const auto& [key, value] : words_of(checkpoint)) {
    if (key.starts_with(note_prefix)) notes.emplace(key.substr(note_prefix.size()), value);
  }
  return notes;
}

}  // namespace rotary_torch
