#include "rotary_torch/training/trainer.h"

#include <ATen/Context.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/nn/utils/clip_grad.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <limits>
#include <mutex>
#include <numbers>
#include <set>
#include <stdexcept>

#include "rotary_torch/op/refusal.h"
#include "text/io.h"
#include "text/json.h"

namespace rotary::embedded {
std::string_view training_presets() noexcept;  // presets.json
}

namespace rotary_torch {

// Options and runs as JSON.
NLOHMANN_JSON_SERIALIZE_ENUM(Schedule, {{Schedule::cosine, "cosine"}, {Schedule::noam, "noam"}})
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainingOptions, steps, batch, block, schedule, rate, last_rate, warm_up, beta1,
                                   beta2, epsilon, weight_decay, clip, evaluate_every, evaluate_batches, seed)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SavedRun, options, steps, notes)

namespace {

using rotary::Code;
using rotary::files::in_quotes;
using rotary::files::Json;
using torch::optim::AdamWOptions;
using torch::optim::AdamWParamState;
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

// Weight decay is for parameters with two dimensions or more. Without it AdamW is Adam. The moments are made at once,
// as its first step makes them.
torch::optim::AdamW optimiser_of(const std::vector<at::Tensor>& parameters, const TrainingOptions& options) {
  std::vector<at::Tensor> decayed, others;
  for (const at::Tensor& parameter : parameters) (parameter.dim() >= 2 ? decayed : others).push_back(parameter);
  AdamWOptions plain(options.rate);
  plain.betas({options.beta1, options.beta2}).eps(options.epsilon).weight_decay(0);
  AdamWOptions decaying = plain;
  decaying.weight_decay(options.weight_decay);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(decayed, std::make_unique<AdamWOptions>(decaying));
  groups.emplace_back(others, std::make_unique<AdamWOptions>(plain));
  torch::optim::AdamW optimiser(groups, plain);
  for (const at::Tensor& parameter : parameters) {
    auto zeros = std::make_unique<AdamWParamState>();
    zeros->exp_avg(at::zeros_like(parameter.detach()));
    zeros->exp_avg_sq(at::zeros_like(parameter.detach()));
    optimiser.state()[parameter.unsafeGetTensorImpl()] = std::move(zeros);
  }
  return optimiser;
}

AdamWParamState& moments(const torch::optim::AdamW& optimiser, const at::Tensor& parameter) {
  return static_cast<AdamWParamState&>(*optimiser.state().at(parameter.unsafeGetTensorImpl()));
}

// The model in training mode on its device.
Decoder ready(Decoder model, const TrainingOptions& options, at::Device device, const ProcessGroup& group) {
  Refusal{"train"}.unless(options.batch % group.size() == 0, rotary::Code::SHAPE, "the batch of ", options.batch,
                          " sequences must divide evenly among the processes but there are ", group.size());
  model->to(device);
  model->train();
  return model;
}

// Dropout uses torch's generator. Setting its seed makes a step independent of earlier draws and of other ranks.
void seed_dropout(std::uint64_t seed, std::int64_t step, at::Device device, int rank) {
  const auto number = mixed(seed, dropout + static_cast<std::uint64_t>(rank) * 16, static_cast<std::uint64_t>(step));
  at::Generator generator = at::globalContext().defaultGenerator(device);
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(number >> 11);  // 53 bits, which every generator accepts
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  characters.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); i += characters.back().size()) {
    const rotary::files::Character point = rotary::files::first_character(text.substr(i));
    if (point.length == 0 || point.code == 0) {
      Refusal{"text"}(Code::TEXT, "a text must be UTF-8 without a byte 0 but byte ", i, " begins with ",
                      in_quotes(text.substr(i, 1)));
    }
    characters.push_back(text.substr(i, point.length));
  }
  return characters;
}

const Json& presets() {
  static const Json rows = rotary::files::parse_json(rotary::embedded::training_presets()).at("presets");
  return rows;
}

// Pairs (x[i], x[i + pairs]) of the first rotary_dim elements of each head, base 10000.
rotary::ModelRope rope_of(const DecoderConfig& model, double fraction) {
  const auto head_dim = static_cast<int>(model.width / model.heads);
  constexpr double rounding = 1e-9;  // 0.3 * 10 is 3
  const double rotated = std::floor(fraction * head_dim + rounding);
  Refusal{"preset"}.unless(fraction > 0 && fraction <= 1 && rotated >= 2 && std::fmod(rotated, 2) == 0, Code::VALUE,
                           "the rope fraction must be at most 1 and rotate an even number of the ", head_dim,
                           " elements of a head, 2 at least, but ", fraction, " rotates ", rotated);
  rotary::ModelRope rope;
  rope.rope.head_dim = head_dim;
  rope.rope.rotary_dim = static_cast<int>(rotated);
  rope.rope.pairing = rotary::Pairing::half;
  return rope;
}

constexpr const char* run_key = "rotary training run";

// Throws RESUME, naming the first option that differs.
void check_same(const TrainingOptions& begun, TrainingOptions now) {
  if (now.schedule == Schedule::noam) now.steps = begun.steps;
  const Json then = begun, asked = now;
  for (const auto& [name, value] : asked.items()) {
    if (value != then.at(name))
      Refusal{"resume"}(Code::RESUME, name, " must be ", then.at(name), ", as the run began, but got ", value);
  }
}

}  // namespace

// ---- texts ---------------------------------------------------------------------------------------

Vocabulary Vocabulary::of(std::string_view utf8) {
  const std::vector<std::string_view> all = characters_of(utf8);
  const std::set<std::string_view> characters(all.begin(), all.end());
  Vocabulary vocabulary;
  vocabulary.characters_.assign(characters.begin(), characters.end());
  return vocabulary;
}

Vocabulary Vocabulary::read(const std::filesystem::path& vocab_json) {
  const Json json = rotary::files::parse_json(read_text(vocab_json));
  if (!json.is_object() || json.empty()) {
    Refusal{"vocabulary"}(Code::FORMAT, vocab_json.string(),
                          ": must be an object {\"a\": 0, \"b\": 1, ...} with a character or more");
  }
  Vocabulary vocabulary;
  for (const auto& [key, id] : json.items()) {  // rising by bytes
    const rotary::files::Character point = rotary::files::first_character(key);
    const bool follows = !key.empty() && point.length == key.size() && point.code != 0 && id == vocabulary.size();
    if (!follows) {
      Refusal{"vocabulary"}(Code::FORMAT, vocab_json.string(),
                            ": ids must be 0, 1, 2, ... of single characters, rising, but ", in_quotes(key), " has ",
                            id);
    }
    vocabulary.characters_.push_back(key);
  }
  return vocabulary;
}

void Vocabulary::write(const std::filesystem::path& vocab_json) const {
  std::string text = "{";
  for (std::int64_t id = 0; id < size(); ++id)
    text += (id == 0 ? "\n  " : ",\n  ") + Json(decode(id)).dump() + ": " + std::to_string(id);
  rotary::files::write_whole("vocabulary", vocab_json, text + "\n}\n");
}

at::Tensor Vocabulary::encode(std::string_view utf8) const {
  const std::vector<std::string_view> all = characters_of(utf8);
  at::Tensor ids = at::empty({static_cast<std::int64_t>(all.size())}, at::kLong);
  auto* out = ids.data_ptr<std::int64_t>();
  for (const std::string_view character : all) {
    const auto place = std::lower_bound(characters_.begin(), characters_.end(), character);
    if (place == characters_.end() || *place != character) {
      Refusal{"text"}(Code::TEXT, "every character must be one of the vocabulary's ", size(), " but got ",
                      in_quotes(character));
    }
    *out++ = place - characters_.begin();
  }
  return ids;
}

std::string Vocabulary::decode(std::int64_t id) const {
  Refusal{"vocabulary"}.unless(id >= 0 && id < size(), Code::VALUE, "an id must be in 0..", size() - 1, " but got ",
                               id);
  return characters_[static_cast<std::size_t>(id)];
}

std::string read_text(const std::filesystem::path& path) { return rotary::files::InputFile("text", path).text(); }

std::string text_hash(std::string_view text) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211U;
  std::array<char, 17> word{};
  std::snprintf(word.data(), word.size(), "%016llx", static_cast<unsigned long long>(hash));
  return word.data();
}

Corpus corpus(std::string_view utf8, std::int64_t block) {
  Corpus parts{Vocabulary::of(utf8), {}, {}};
  const at::Tensor ids = parts.vocabulary.encode(utf8);
  const std::int64_t tokens = ids.numel(), split = tokens * 9 / 10;
  Refusal{"text"}.unless(split > block && tokens - split > block, Code::TEXT,
                         "the last tenth of a text must be longer than a block of ", block, " characters (at least ",
                         10 * block + 1, " in all) but got ", tokens);
  parts.train = ids.narrow(0, 0, split);
  parts.validation = ids.narrow(0, split, tokens - split);
  return parts;
}

// ---- presets and schedules -----------------------------------------------------------------------

Preset preset(std::string_view name, PositionEncoding position, double rope_fraction) {
  std::string names;
  for (const Json& row : presets()) {
    names += (names.empty() ? "" : ", ") + row.at("name").get<std::string>();
    if (row.at("name") != name) continue;
    Json training = TrainingOptions{};
    training.update(row.at("training"));
    Preset preset{.name = std::string(name),
                  .model = decoder_fields(row.at("model").dump()),
                  .training = training.get<TrainingOptions>()};
    preset.gpt2_init = row.value("gpt2_init", true);
    preset.rope_fraction = rope_fraction != 0 ? rope_fraction : row.value("rope_fraction", 1.0);
    preset.model.feed_forward = 4 * preset.model.width;
    preset.model.context = preset.training.block;
    preset.model.position = position;
    if (position == PositionEncoding::rope) preset.model.rope = rope_of(preset.model, preset.rope_fraction);
    return preset;
  }
  Refusal{"preset"}(Code::PRESET, "a preset must be one of ", names, " but got ", in_quotes(name));
}

double learning_rate(const TrainingOptions& options, std::int64_t width, std::int64_t step) {
  const auto done = static_cast<double>(step);
  const auto warm_up = static_cast<double>(options.warm_up);
  if (options.schedule == Schedule::noam) {
    const double t = done + 1;
    return options.rate / std::sqrt(static_cast<double>(width)) *
           std::min(1 / std::sqrt(t), t / (warm_up * std::sqrt(warm_up)));
  }
  if (step < options.warm_up) return options.rate * (done + 1) / (warm_up + 1);
  if (step >= options.steps) return options.last_rate;
  const double part = (done - warm_up) / (static_cast<double>(options.steps) - warm_up);
  return options.last_rate + (options.rate - options.last_rate) * 0.5 * (1 + std::cos(std::numbers::pi * part));
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

// ---- training ------------------------------------------------------------------------------------

Trainer::Trainer(Decoder model, Corpus corpus, TrainingOptions options, at::Device device, const ProcessGroup& group)
    : model_(ready(std::move(model), options, device, group)),
      options_(options),
      device_(device),
      group_(group),
      parameters_(model_->parameters()),
      optimiser_(optimiser_of(parameters_, options)),
      train_(corpus.train, options.block, options.seed, training_rows),
      validation_(corpus.validation, options.block, options.seed, validation_rows) {
  group.copy_first(parameters_);
}

std::vector<std::pair<std::string, at::Tensor>> Trainer::tensors() const {
  std::vector<std::pair<std::string, at::Tensor>> all;
  for (const auto& item : model_->named_parameters()) {
    const AdamWParamState& moment = moments(optimiser_, item.value());
    all.emplace_back("model." + item.key(), item.value());
    all.emplace_back("first_moment." + item.key(), moment.exp_avg());
    all.emplace_back("second_moment." + item.key(), moment.exp_avg_sq());
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
  loss.backward();
  std::vector<at::Tensor> shared{loss.detach()};
  for (const at::Tensor& parameter : parameters_) {
    if (parameter.grad().defined()) shared.push_back(parameter.grad());
  }
  group_.average(shared);

  StepReport report;
  report.rate = learning_rate(options_, model_->config().width, number);
  for (torch::optim::OptimizerParamGroup& part : optimiser_.param_groups()) part.options().set_lr(report.rate);
  const double clip = options_.clip > 0 ? options_.clip : std::numeric_limits<double>::infinity();
  report.gradient_norm = torch::nn::utils::clip_grad_norm_(parameters_, clip);
  optimiser_.step();
  report.step = ++steps_;
  report.train_loss = loss.item<double>();
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return report;
}

std::optional<double> Trainer::evaluate(const std::function<bool()>& stop) {
  const c10::InferenceMode inference;
  const Evaluation without_dropout(*model_);
  double sum = 0;
  for (std::int64_t batch = 0; batch < options_.evaluate_batches; ++batch) {
    if (stop && stop()) return std::nullopt;
    const at::Tensor loss = this->loss(validation_, batch);
    group_.average({loss});
    sum += loss.item<double>();
  }
  return sum / static_cast<double>(options_.evaluate_batches);
}

// ---- the checkpoint: weights and moments as tensors, the rest as JSON in the metadata ----

void Trainer::save(const fs::path& checkpoint, const std::map<std::string, std::string>& notes) const {
  write_tensors(checkpoint, tensors(), {{run_key, Json(SavedRun{options_, steps_, notes}).dump()}});
}

SavedRun saved_run(const fs::path& checkpoint) {
  const std::map<std::string, std::string> metadata = rotary::SafetensorsFile(checkpoint).metadata();
  try {
    SavedRun saved = Json::parse(metadata.at(run_key)).get<SavedRun>();
    const TrainingOptions& o = saved.options;
    const std::int64_t least = std::min({o.batch, o.block, o.evaluate_every, o.evaluate_batches});
    Refusal{"checkpoint"}.unless(least >= 1, Code::FORMAT, checkpoint.string(),
                                 ": batch, block, evaluate_every and evaluate_batches must be at least 1 but got ",
                                 least);
    if (saved.steps >= 0) return saved;
  } catch (const std::out_of_range&) {  // metadata without a run
  } catch (const Json::exception&) {
  }
  Refusal{"checkpoint"}(Code::FORMAT, checkpoint.string(), ": a checkpoint of a run must have its options, steps and ",
                        "notes as ", in_quotes(run_key), " in its metadata but has not");
}

void Trainer::load(const fs::path& checkpoint) {
  const SavedRun saved = saved_run(checkpoint);
  check_same(saved.options, options_);
  Checkpoint file(checkpoint);
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // applied only after everything has been read
  for (const auto& [name, target] : tensors())
    copies.emplace_back(target, file.read(name, target.sizes(), target.scalar_type()));
  if (const std::vector<std::string> others = file.unused(); !others.empty()) {
    Refusal{"checkpoint"}(Code::TENSOR, checkpoint.string(), ": the model must have all tensors but has no ",
                          in_quotes(others.front()));
  }
  const c10::NoGradGuard no_grad;
  for (auto& [target, value] : copies) target.copy_(value);
  steps_ = saved.steps;
  for (const at::Tensor& parameter : parameters_) moments(optimiser_, parameter).step(steps_);
}

}  // namespace rotary_torch
