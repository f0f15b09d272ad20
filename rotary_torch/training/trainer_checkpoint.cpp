// The checkpoint of a training run: weights, moments and the step as tensors, the options and notes as metadata.
#include <c10/core/GradMode.h>

#include <charconv>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "files/text/io.h"
#include "files/text/json.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/op/refusal.h"
#include "rotary_torch/training/trainer_state.h"

namespace rotary_torch {

namespace {

using rotary::Code;
using Words = std::map<std::string, std::string>;
namespace fs = std::filesystem;

constexpr const char* format = "rotary training checkpoint 1";
constexpr std::string_view note_prefix = "note.";

std::string word(std::int64_t value) { return std::to_string(value); }
std::string word(std::uint64_t value) { return std::to_string(value); }
std::string word(double value) { return rotary::files::spelled(value); }
std::string word(Schedule value) { return value == Schedule::noam ? "noam" : "cosine"; }

// Calls visit with the name and value of every option, for writing and for reading. A third argument is the value for
// checkpoints without the key; without a third argument the key is required. A new option passes the value that earlier
// runs had, so that their checkpoints stay readable.
template <typename Options, typename Visit>
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
  visit("weight_decay", options.weight_decay, 0.0);
  visit("clip", options.clip, 0.0);
  visit("evaluate_every", options.evaluate_every);
  visit("evaluate_batches", options.evaluate_batches);
  visit("seed", options.seed);
}

template <class... Rule>
[[noreturn]] void refuse(const fs::path& path, const Rule&... rule) {
  Refusal{"checkpoint"}(Code::FORMAT, path.string(), ": ", rule...);
}

// The metadata's word for a key, or the word for an absent key.
template <typename... Absent>
std::string word_of_key(const fs::path& path, const Words& words, const std::string& key, const Absent&... absent) {
  const auto found = words.find(key);
  if (found != words.end()) return found->second;
  if constexpr (sizeof...(absent) == 1) return (word(absent), ...);
  refuse(path, "the metadata must hold ", key);
}

template <typename Number>
Number parsed(const fs::path& path, const std::string& key, const std::string& text) {
  Number number{};
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc() || end != text.data() + text.size())
    refuse(path, key, " must be a number but is ", rotary::files::in_quotes(text));
  return number;
}

void check_format(const fs::path& path, const Words& words) {
  const auto found = words.find("format");
  if (found == words.end() || found->second != format)
    refuse(path, "a training checkpoint must say format ", rotary::files::in_quotes(format));
}

TrainingOptions options_of(const fs::path& path, const Words& words) {
  check_format(path, words);
  TrainingOptions options;
  for_each_option(options, [&](const char* name, auto& value, const auto&... absent) {
    using Value = std::decay_t<decltype(value)>;
    const std::string key = std::string("option.") + name;
    const std::string text = word_of_key(path, words, key, absent...);
    if constexpr (std::is_same_v<Value, Schedule>) {
      if (text != "noam" && text != "cosine") refuse(path, key, " must be cosine or noam");
      value = text == "noam" ? Schedule::noam : Schedule::cosine;
    } else {
      value = parsed<Value>(path, key, text);
    }
  });
  return options;
}

// Throws RESUME, naming the first option that differs.
void check_same(const TrainingOptions& now, const fs::path& path, const Words& words) {
  for_each_option(now, [&](const char* name, const auto& value, const auto&... absent) {
    const bool only_the_end = now.schedule == Schedule::noam && std::string_view(name) == "steps";
    const std::string then = word_of_key(path, words, std::string("option.") + name, absent...);
    if (only_the_end || then == word(value)) return;
    const bool steps = std::string_view(name) == "steps";
    Refusal{"resume"}(Code::RESUME, name, " must be ", then, ", as the run began,",
                      steps ? " since the cosine schedule leads to the last step," : "", " but got ", word(value));
  });
}

}  // namespace

void Trainer::save(const fs::path& checkpoint, const Words& notes) const {
  State& state = *state_;
  Words words = {{"format", format}, {"step", word(steps())}};
  for_each_option(state.options, [&words](const char* name, const auto& value, const auto&...) {
    words[std::string("option.") + name] = word(value);
  });
  for (const auto& [name, value] : notes) words[std::string(note_prefix) + name] = value;
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (std::size_t i = 0; i < state.names.size(); ++i) {
    tensors.emplace_back("model." + state.names[i], state.parameters[i]);
    const torch::optim::AdamWParamState& moments = state.moments(state.parameters[i]);
    tensors.emplace_back("first_moment." + state.names[i], moments.exp_avg());
    tensors.emplace_back("second_moment." + state.names[i], moments.exp_avg_sq());
  }
  write_tensors(checkpoint, tensors, words);
}

void Trainer::load(const fs::path& checkpoint) {
  const Words words = rotary::SafetensorsFile(checkpoint).metadata();
  options_of(checkpoint, words);
  check_same(state_->options, checkpoint, words);
  const auto done = parsed<std::int64_t>(checkpoint, "step", word_of_key(checkpoint, words, "step"));
  if (done < 0) refuse(checkpoint, "step must be 0 or more but is ", done);
  if (state_->parameters.front().scalar_type() != at::kFloat)
    Refusal{"checkpoint"}(Code::DTYPE, checkpoint.string(), ": a checkpoint is read into f32 weights alone");
  Checkpoint file(checkpoint);
  std::vector<std::pair<at::Tensor, at::Tensor>> copies;  // applied only after everything has been read
  for (std::size_t i = 0; i < state_->names.size(); ++i) {
    const std::string& name = state_->names[i];
    const torch::optim::AdamWParamState& moments = state_->moments(state_->parameters[i]);
    for (const auto& [prefix, target] :
         {std::pair{"model.", state_->parameters[i]}, std::pair{"first_moment.", moments.exp_avg()},
          std::pair{"second_moment.", moments.exp_avg_sq()}}) {
      copies.emplace_back(target, file.read(prefix + name, target.sizes()));
    }
  }
  if (const std::vector<std::string> others = file.unused(); !others.empty()) {
    Refusal{"checkpoint"}(Code::TENSOR, checkpoint.string(), ": the model must have all tensors but has no ",
                          rotary::files::in_quotes(others.front()));
  }
  const c10::NoGradGuard no_grad;
  for (auto& [target, value] : copies) target.copy_(value);
  state_->steps = done;
  for (const at::Tensor& parameter : state_->parameters) state_->moments(parameter).step(done);
}

TrainingOptions checkpoint_options(const fs::path& checkpoint) {
  return options_of(checkpoint, rotary::SafetensorsFile(checkpoint).metadata());
}

Words checkpoint_notes(const fs::path& checkpoint) {
  const rotary::SafetensorsFile file(checkpoint);
  check_format(checkpoint, file.metadata());
  Words notes;
  for (const auto& [key, value] : file.metadata()) {
    if (key.starts_with(note_prefix)) notes.emplace(key.substr(note_prefix.size()), value);
  }
  return notes;
}

}  // namespace rotary_torch
