// The C++ side of bench_decoder.py: bench_decoder THREADS, then one request a line on standard input,
// "train PRESET STEPS" or "generate PRESET TOKENS"; the answer is the milliseconds per step or per token.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <malloc.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <string>

#include "rotary_torch/models/generate.h"
#include "rotary_torch/training/trainer.h"

namespace {

using rotary_torch::Corpus;
using rotary_torch::Decoder;
using rotary_torch::Preset;
using rotary_torch::Trainer;

constexpr std::int64_t vocabulary = 65;

rotary_torch::Vocabulary characters() {
  std::string text;
  for (std::int64_t i = 0; i < vocabulary; ++i) text += static_cast<char>('0' + i);
  return rotary_torch::Vocabulary::of(text);
}

Decoder decoder(Preset preset) {
  preset.model.vocabulary = vocabulary;
  Decoder model(preset.model);
  if (preset.gpt2_init) model->initialise();
  return model;
}

Trainer& trainer(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Trainer>> trainers;
  std::unique_ptr<Trainer>& found = trainers[name];
  if (!found) {
    const Preset preset = rotary_torch::preset(name);
    const Corpus corpus{characters(), at::randint(vocabulary, {100000}, at::kLong),
                        at::randint(vocabulary, {10000}, at::kLong)};
    found = std::make_unique<Trainer>(decoder(preset), corpus, preset.training);
  }
  return *found;
}

double milliseconds(const auto& work, std::int64_t times) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  return spent.count() / static_cast<double>(times);
}

double train(const std::string& name, std::int64_t steps) {
  Trainer& run = trainer(name);
  return milliseconds(
      [&] {
        for (std::int64_t i = 0; i < steps; ++i) run.step();
      },
      steps);
}

double generate(const std::string& name, std::int64_t tokens) {
  static std::map<std::string, Decoder> models;
  const auto found = models.try_emplace(name, decoder(rotary_torch::preset(name))).first;
  const at::Tensor prompt = at::zeros({1, 1}, at::kLong);
  return milliseconds([&] { rotary_torch::generate(found->second, prompt, {.tokens = tokens, .temperature = 0}); },
                      tokens);
}

}  // namespace

int main(int argc, char** argv) {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 30);  // as rotary-torch has it
  mallopt(M_TRIM_THRESHOLD, -1);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
  at::set_num_threads(argc > 1 ? std::atoi(argv[1]) : 1);
  at::manual_seed(1);
  std::string what, preset;
  std::int64_t count = 0;
  while (std::cin >> what >> preset >> count) {
    std::cout << (what == "train" ? train(preset, count) : generate(preset, count)) << std::endl;
  }
}
