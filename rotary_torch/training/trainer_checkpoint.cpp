// The checkpoint of a training run: weights, moments and the step as tensors,
// the options and notes as metadata.
#include <c10/core/GradMode.h>

#include <charconv>
#include <type_traits>
#include <utility>

#include "files/text/io.h"
#include "files/text/json.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/op/refusal.h"
#include "rotary_torch/training/trainer.h"

namespace rotary_torch {

namespace {

using rotary::Code;
using rotary::files::in_quotes;
using Words = std::map<std::string, std::string>;
namespace fs = std::filesystem;

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

// The metadata. Options that earlier versions did not have are there with the
// value that their runs had.
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
  if (parameters_.front().scalar_type() != at::kFloat)
    Refusal{"checkpoint"}(Code::DTYPE, checkpoint.string(), ": a checkpoint is read into f32 weights alone");
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
