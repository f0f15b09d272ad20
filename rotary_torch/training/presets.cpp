// The presets of `rotary-torch train`: nanoGPT's character models, labml's RoPE experiment, and one that runs in
// seconds.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "files/text/io.h"
#include "rotary_torch/op/refusal.h"
#include "rotary_torch/training/trainer.h"

namespace rotary_torch {

namespace {

using rotary::Code;
constexpr Refusal refuse{"preset"};

// What the presets of nanoGPT share, commit 3adf61e1; with GELU, biases and an output layer of its own.
DecoderConfig gelu_decoder(std::int64_t width, std::int64_t layers, std::int64_t heads) {
  return {.width = width, .layers = layers, .heads = heads, .feed_forward = 4 * width};
}

std::vector<Preset> all_presets() {
  // Takes a few seconds on one core, with its own text.
  Preset smoke{.name = "smoke", .model = gelu_decoder(64, 2, 4)};
  smoke.training = {.steps = 300,
                    .block = 32,
                    .rate = 3e-3,
                    .last_rate = 3e-4,
                    .warm_up = 20,
                    .evaluate_every = 100,
                    .evaluate_batches = 20};
  // nanoGPT's README: "I only have a macbook".
  Preset nanogpt_cpu{.name = "nanogpt-cpu", .model = gelu_decoder(128, 4, 4)};
  // nanoGPT's config/train_shakespeare_char.py.
  Preset nanogpt_gpu{.name = "nanogpt-gpu", .model = gelu_decoder(384, 6, 6)};
  nanogpt_gpu.model.dropout = 0.2;
  nanogpt_gpu.training = {.steps = 5000, .batch = 64, .block = 256};
  // labml_nn/transformers/rope/experiment.py, commit e6b3c8a6: 32 epochs of 490 steps on random windows.
  Preset labml{.name = "labml", .model = gelu_decoder(128, 6, 16), .gpt2_init = false, .rope_fraction = 0.5};
  labml.model.activation = Activation::relu;
  labml.training = {.steps = 15680,
                    .batch = 4,
                    .block = 512,
                    .schedule = Schedule::noam,
                    .rate = 1,
                    .warm_up = 2000,
                    .beta2 = 0.999,
                    .weight_decay = 0,
                    .evaluate_every = 490,
                    .evaluate_batches = 50};
  return {smoke, nanogpt_cpu, nanogpt_gpu, labml};
}

// Pairs (x[i], x[i + pairs]) of the first rotary_dim elements of each head, base 10000.
rotary::ModelRope rope_of(const DecoderConfig& model, double fraction) {
  const auto head_dim = static_cast<int>(model.width / model.heads);
  constexpr double rounding = 1e-9;  // 0.3 * 10 is 3
  const double rotated = std::floor(fraction * head_dim + rounding);
  refuse.unless(fraction > 0 && fraction <= 1 && rotated >= 2 && std::fmod(rotated, 2) == 0, Code::VALUE,
                "the rope fraction must be at most 1 and rotate an even number of the ", head_dim,
                " elements of a head, 2 at least, but ", fraction, " rotates ", rotated);
  rotary::ModelRope rope;
  rope.rope.head_dim = head_dim;
  rope.rope.rotary_dim = static_cast<int>(rotated);
  rope.rope.pairing = rotary::Pairing::half;
  return rope;
}

}  // namespace

const std::vector<std::string>& preset_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Preset& preset : all_presets()) all.push_back(preset.name);
    return all;
  }();
  return names;
}

Preset preset(std::string_view name, PositionEncoding position, double rope_fraction) {
  std::string names;
  for (Preset& preset : all_presets()) {
    names += (names.empty() ? "" : ", ") + preset.name;
    if (preset.name != name) continue;
    preset.model.context = preset.training.block;
    preset.model.position = position;
    if (rope_fraction != 0) preset.rope_fraction = rope_fraction;
    if (position == PositionEncoding::rope) preset.model.rope = rope_of(preset.model, preset.rope_fraction);
    return preset;
  }
  refuse(Code::PRESET, "a preset must be one of ", names, " but got ", rotary::files::in_quotes(name));
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
