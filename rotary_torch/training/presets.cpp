// The presets of `rotary train`: nanoGPT's character models, labml's RoPE experiment, and one that runs in seconds.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <numeric>

#include "files/text/io.h"
#include "files/text/json.h"
#include "rotary/error.h"
#include "rotary_torch/training/trainer.h"

namespace rotary_torch {

namespace {

using rotary::Code;
using rotary::Error;

struct Named {
  Preset preset;
  double rope_fraction;
};

// Takes a few seconds on one core, with the bundled text.
Named smoke() {
  Preset preset;
  preset.name = "smoke";
  preset.model.width = 64;
  preset.model.layers = 2;
  preset.model.heads = 4;
  preset.model.feed_forward = 256;
  preset.training.steps = 300;
  preset.training.batch = 12;
  preset.training.block = 32;
  preset.training.rate = 3e-3;
  preset.training.last_rate = 3e-4;
  preset.training.warm_up = 20;
  preset.training.evaluate_every = 100;
  preset.training.evaluate_batches = 20;
  return {preset, 1.0};
}

// nanoGPT, commit 3adf61e1: README ("I only have a macbook"), with GELU, biases and an output layer of its own.
Named nanogpt_cpu() {
  Preset preset;
  preset.name = "nanogpt-cpu";
  preset.model.width = 128;
  preset.model.layers = 4;
  preset.model.heads = 4;
  preset.model.feed_forward = 512;
  return {preset, 1.0};
}

// nanoGPT, commit 3adf61e1: config/train_shakespeare_char.py.
Named nanogpt_gpu() {
  Preset preset;
  preset.name = "nanogpt-gpu";
  preset.model.width = 384;
  preset.model.layers = 6;
  preset.model.heads = 6;
  preset.model.feed_forward = 1536;
  preset.model.dropout = 0.2;
  preset.training.steps = 5000;
  preset.training.batch = 64;
  preset.training.block = 256;
  return {preset, 1.0};
}

// labml_nn/transformers/rope/experiment.py, commit e6b3c8a6: 32 epochs of 490 steps on random windows.
Named labml() {
  Preset preset;
  preset.name = "labml";
  preset.gpt2_init = false;
  preset.model.width = 128;
  preset.model.layers = 6;
  preset.model.heads = 16;
  preset.model.feed_forward = 512;
  preset.model.activation = Activation::relu;
  TrainingOptions& training = preset.training;
  training.steps = 15680;
  training.batch = 4;
  training.block = 512;
  training.schedule = Schedule::noam;
  training.rate = 1;
  training.warm_up = 2000;
  training.beta2 = 0.999;
  training.weight_decay = 0;
  training.evaluate_every = 490;
  training.evaluate_batches = 50;
  return {preset, 0.5};
}

constexpr std::array makers = {&smoke, &nanogpt_cpu, &nanogpt_gpu, &labml};

// Pairs (x[i], x[i + pairs]) of the first rotary_dim elements of each head, base 10000.
rotary::ModelRope rope_of(const DecoderConfig& model, double fraction) {
  const auto head_dim = static_cast<int>(model.width / model.heads);
  constexpr double rounding = 1e-9;  // 0.3 * 10 is 3
  const double rotated = std::floor(fraction * head_dim + rounding);
  if (!(fraction > 0 && fraction <= 1))
    throw Error(Code::VALUE,
                "[preset] the rope fraction must be above 0 and at most 1 but got " + rotary::files::spelled(fraction));
  if (rotated < 2 || std::fmod(rotated, 2) != 0) {
    throw Error(Code::VALUE, "[preset] the rope fraction must rotate an even number of the " +
                                 std::to_string(head_dim) + " elements of a head, 2 at least, but " +
                                 rotary::files::spelled(fraction) + " rotates " + rotary::files::spelled(rotated));
  }
  rotary::ModelRope rope;
  rope.layers.resize(static_cast<std::size_t>(model.layers));
  std::iota(rope.layers.begin(), rope.layers.end(), 0);
  rope.heads = rope.kv_heads = static_cast<int>(model.heads);
  rope.rope.head_dim = head_dim;
  rope.rope.rotary_dim = static_cast<int>(rotated);
  rope.rope.pairing = rotary::Pairing::half;
  rope.context = model.context;
  return rope;
}

}  // namespace

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto maker : makers) all.push_back(maker().preset.name);
    return all;
  }();
  return names;
}

Preset preset(std::string_view name, PositionEncoding position, double rope_fraction) {
  for (const auto maker : makers) {
    auto [chosen, own_fraction] = maker();
    if (chosen.name != name) continue;
    chosen.model.context = chosen.training.block;
    chosen.model.position = position;
    if (position == PositionEncoding::rope)
      chosen.model.rope = rope_of(chosen.model, rope_fraction == 0 ? own_fraction : rope_fraction);
    return chosen;
  }
  std::string names;
  for (const std::string& known : preset_names()) names += (names.empty() ? "" : ", ") + known;
  throw Error(Code::PRESET, "[preset] a preset must be one of " + names + " but got " + rotary::files::in_quotes(name));
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

}  // namespace rotary_torch
