// Presets, schedules, batches, the optimiser, and training runs that go on to the same bits.
#include <ATen/Context.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rotary/tensors.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/training/trainer.h"
#include "torch/tests/tensors.h"

namespace rotary_torch {
namespace {

namespace fs = std::filesystem;
using rotary::test::expect_error;

using Training = Scratch;

// ---- presets and schedules -----------------------------------------------------------------------

// Weights and biases of four linear layers and two norms per layer, counted by hand.
std::int64_t counted(std::int64_t vocabulary, std::int64_t width, std::int64_t feed, std::int64_t layers) {
  const std::int64_t attention = 4 * width * width + 4 * width;
  const std::int64_t feed_forward = 2 * width * feed + feed + width;
  const std::int64_t norms = 4 * width;
  return vocabulary * width + layers * (attention + feed_forward + norms) + 2 * width + width * vocabulary + vocabulary;
}

std::int64_t parameters_of(const std::string& name, PositionEncoding position = PositionEncoding::rope) {
  Preset chosen = preset(name, position);
  chosen.model.vocabulary = 65;
  return parameter_count(*Decoder(chosen.model));
}

TEST_F(Training, PresetsHaveTheParametersOfTheirExperiments) {
  EXPECT_EQ(parameters_of("labml"), 1206593);
  EXPECT_EQ(parameters_of("nanogpt-cpu"), 810049);
  EXPECT_EQ(parameters_of("nanogpt-cpu", PositionEncoding::learned), 810049 + 64 * 128);
  EXPECT_EQ(parameters_of("nanogpt-cpu", PositionEncoding::alibi), 810049);
  EXPECT_EQ(parameters_of("nanogpt-gpu"), counted(65, 384, 1536, 6));
  EXPECT_EQ(parameters_of("smoke"), counted(65, 64, 256, 2));
  EXPECT_EQ(counted(65, 128, 512, 6), 1206593);
}

TEST_F(Training, TheRopeFractionIsAnEvenPartOfAHead) {
  EXPECT_EQ(preset("labml").model.rope->rope.rotary_dim, 4);
  EXPECT_EQ(preset("labml", PositionEncoding::rope, 1).model.rope->rope.rotary_dim, 8);
  EXPECT_EQ(preset("nanogpt-cpu").model.rope->rope.rotary_dim, 32);
  EXPECT_EQ(preset("nanogpt-cpu", PositionEncoding::rope, 0.0625).model.rope->rope.rotary_dim, 2);
  EXPECT_FALSE(preset("labml", PositionEncoding::none).model.rope.has_value());
  for (const double bad : {0.1, 0.3, 0.01, 1.5, -0.5, std::nan("")})
    expect_error("VALUE", "rope fraction", [bad] { preset("nanogpt-cpu", PositionEncoding::rope, bad); });
  expect_error("PRESET", "smoke, nanogpt-cpu, nanogpt-gpu, labml", [] { preset("nanogpt"); });
}

// Values of the formulas in Python's math.
TEST_F(Training, RatesFollowTheirSchedules) {
  const TrainingOptions cosine = preset("nanogpt-cpu").training;
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 128, 0), 9.900990099009901e-06);
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 128, 99), 0.0009900990099009901);
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 128, 100), 0.001);
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 128, 1050), 0.00055);
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 128, 1999), 0.00010000061514140841);
  EXPECT_DOUBLE_EQ(learning_rate(cosine, 128, 2500), 1e-4);
  const TrainingOptions noam = preset("labml").training;
  EXPECT_DOUBLE_EQ(learning_rate(noam, 128, 0), 9.882117688026186e-07);
  EXPECT_DOUBLE_EQ(learning_rate(noam, 128, 999), 0.0009882117688026187);
  EXPECT_DOUBLE_EQ(learning_rate(noam, 128, 1999), 0.0019764235376052374);
  EXPECT_DOUBLE_EQ(learning_rate(noam, 128, 15679), 0.0007058655491447276);
}

// ---- batches -------------------------------------------------------------------------------------

TEST_F(Training, ABatchDependsOnSeedAndStepAloneAndSplitsByRows) {
  const at::Tensor text = corpus(smoke_text(), 32).train;
  const Batches batches(text, 32, 7, 1);
  const auto [ids, next] = batches.draw(5, 0, 12);
  EXPECT_TRUE(at::equal(ids.narrow(1, 1, 31), next.narrow(1, 0, 31)));
  for (const std::int64_t ranks : {2, 3, 4, 6}) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const std::int64_t rows = 12 / ranks;
      EXPECT_TRUE(at::equal(batches.draw(5, rank * rows, rows).first, ids.narrow(0, rank * rows, rows)));
    }
  }
  EXPECT_TRUE(at::equal(Batches(text, 32, 7, 1).draw(5, 0, 12).first, ids));
  EXPECT_FALSE(at::equal(batches.draw(6, 0, 12).first, ids));
  EXPECT_FALSE(at::equal(Batches(text, 32, 8, 1).draw(5, 0, 12).first, ids));
  EXPECT_FALSE(at::equal(Batches(text, 32, 7, 2).draw(5, 0, 12).first, ids));
}

TEST_F(Training, WindowsReachBothEndsOfTheTextAndNoFurther) {
  at::Tensor text = at::tensor({10, 11, 12, 13, 14}, at::kLong);
  std::set<std::int64_t> firsts, lasts;
  const Batches batches(text, 3, 1, 1);
  for (std::int64_t step = 0; step < 50; ++step) {
    const auto [ids, next] = batches.draw(step, 0, 1);
    firsts.insert(ids[0][0].item<std::int64_t>());
    lasts.insert(next[0][2].item<std::int64_t>());
  }
  EXPECT_EQ(firsts, (std::set<std::int64_t>{10, 11}));
  EXPECT_EQ(lasts, (std::set<std::int64_t>{13, 14}));
}

// ---- runs ----------------------------------------------------------------------------------------

Preset small_preset(double dropout = 0) {
  Preset chosen = preset("smoke");
  chosen.model.width = 16;
  chosen.model.heads = 2;
  chosen.model.feed_forward = 32;
  chosen.model.rope->rope.head_dim = chosen.model.rope->rope.rotary_dim = 8;
  chosen.model.dropout = dropout;
  chosen.training.batch = 4;
  chosen.training.steps = 20;
  chosen.training.evaluate_batches = 2;
  return chosen;
}

std::unique_ptr<Trainer> trainer_of(Preset chosen) {
  const Corpus text = corpus(smoke_text(), chosen.training.block);
  chosen.model.vocabulary = text.vocabulary.size();
  at::manual_seed(chosen.training.seed);
  Decoder model(chosen.model);
  if (chosen.gpt2_init) model->initialise();
  return std::make_unique<Trainer>(model, text, chosen.training);
}

void expect_same_weights(Trainer& a, Trainer& b) {
  const auto left = a.model()->parameters(), right = b.model()->parameters();
  for (std::size_t i = 0; i < left.size(); ++i) EXPECT_TRUE(at::equal(left[i], right[i]));
}

TEST_F(Training, AResumedRunHasTheBitsOfAnUnbrokenOne) {
  for (const double dropout : {0.0, 0.1}) {
    const auto unbroken = trainer_of(small_preset(dropout)), first = trainer_of(small_preset(dropout)),
               second = trainer_of(small_preset(dropout));
    std::vector<double> losses;
    for (int i = 0; i < 12; ++i) losses.push_back(unbroken->step().train_loss);
    for (int i = 0; i < 5; ++i) EXPECT_EQ(first->step().train_loss, losses[static_cast<std::size_t>(i)]);
    first->evaluate();  // draws nothing that a later step would miss
    first->save(path("c.safetensors"), {{"colour", "blue"}});
    EXPECT_EQ(saved_run(path("c.safetensors")).notes, (std::map<std::string, std::string>{{"colour", "blue"}}));
    EXPECT_EQ(saved_run(path("c.safetensors")).options.seed, 1337U);
    second->step();
    second->load(path("c.safetensors"));
    EXPECT_EQ(second->steps(), 5);
    for (std::size_t i = 5; i < 12; ++i) EXPECT_EQ(second->step().train_loss, losses[i]);
    expect_same_weights(*unbroken, *second);
    EXPECT_EQ(*unbroken->evaluate(), *second->evaluate());
  }
}

TEST_F(Training, ACheckpointKeepsTheBitsOfAModelInF64) {
  const auto saved = trainer_of(small_preset()), loaded = trainer_of(small_preset());
  for (Trainer* trainer : {saved.get(), loaded.get()}) trainer->model()->to(at::kDouble);
  for (at::Tensor& parameter : saved->model()->parameters()) parameter.detach().div_(3);
  saved->save(path("c.safetensors"));
  loaded->load(path("c.safetensors"));
  expect_same_weights(*saved, *loaded);
}

// The first step of AdamW is -rate sign(gradient), and -rate weight_decay weight for matrices; the first moments are
// (1 - beta1) times the clipped gradients.
TEST_F(Training, AStepClipsAllGradientsTogetherAndDecaysMatricesAlone) {
  for (const double clip : {0.0, 0.25}) {
    Preset chosen = small_preset();
    chosen.training.clip = clip;
    chosen.training.warm_up = 0;
    chosen.training.rate = chosen.training.last_rate = 0.01;
    const auto trainer = trainer_of(chosen);
    std::vector<at::Tensor> before;
    for (const at::Tensor& parameter : trainer->model()->parameters()) before.push_back(parameter.detach().clone());
    const StepReport report = trainer->step();
    EXPECT_GT(report.gradient_norm, 0.5);
    EXPECT_EQ(report.rate, 0.01);
    trainer->save(path("c.safetensors"));
    const rotary::SafetensorsFile file(path("c.safetensors"));
    const auto moment = [&file](const char* which, const std::string& name) {
      return torch_tensor(file.read(std::string(which) + "_moment." + name));
    };
    double squares = 0;
    std::size_t i = 0;
    for (const auto& item : trainer->model()->named_parameters()) {
      const at::Tensor gradient = moment("first", item.key()) / (1 - chosen.training.beta1);
      squares += gradient.to(at::kDouble).square().sum().item<double>();
      EXPECT_TRUE(
          at::allclose(moment("second", item.key()), gradient.square() * (1 - chosen.training.beta2), 1e-4, 1e-30));
      const double decay = item.value().dim() >= 2 ? chosen.training.weight_decay : 0;
      const at::Tensor expected = before[i] * (1 - 0.01 * decay) - 0.01 * gradient.sign();
      const at::Tensor sure = gradient.abs() > 1e-5;  // far above epsilon
      EXPECT_TRUE(at::allclose(item.value().detach().masked_select(sure), expected.masked_select(sure), 1e-4, 2e-5))
          << item.key();
      ++i;
    }
    EXPECT_NEAR(std::sqrt(squares), clip > 0 ? clip : report.gradient_norm, 1e-3 * report.gradient_norm);
  }
}

TEST_F(Training, ACheckpointOfOtherOptionsIsRefusedByName) {
  const auto trainer = trainer_of(small_preset());
  trainer->step();
  trainer->save(path("c.safetensors"));
  const auto expect_refused = [this](const std::string& words, const std::function<void(TrainingOptions&)>& change) {
    Preset other = small_preset();
    change(other.training);
    const auto judge = trainer_of(other);
    expect_error("RESUME", words, [&] { judge->load(path("c.safetensors")); });
    EXPECT_EQ(judge->steps(), 0);
  };
  expect_refused("seed must be 1337", [](TrainingOptions& options) { options.seed = 1; });
  expect_refused("steps must be 20", [](TrainingOptions& options) { options.steps = 40; });
  expect_refused("batch must be 4", [](TrainingOptions& options) { options.batch = 8; });
  expect_refused("schedule must be \"cosine\"", [](TrainingOptions& options) { options.schedule = Schedule::noam; });
  expect_refused("weight_decay must be 0.1", [](TrainingOptions& options) { options.weight_decay = 0.2; });

  Preset noam = small_preset();
  noam.training.schedule = Schedule::noam;
  trainer_of(noam)->save(path("n.safetensors"));
  noam.training.steps = 500;
  trainer_of(noam)->load(path("n.safetensors"));
}

TEST_F(Training, AFileThatIsNoCheckpointOfThisModelIsRefused) {
  const auto trainer = trainer_of(small_preset());
  trainer->save(path("c.safetensors"));
  const auto before = trainer_of(small_preset());
  Preset wide = small_preset();
  wide.model.feed_forward = 48;
  expect_error("TENSOR", "feed.up", [&] { trainer_of(wide)->load(path("c.safetensors")); });
  wide = small_preset();
  wide.model.layers = 1;
  expect_error("TENSOR", "must have", [&] { trainer_of(wide)->load(path("c.safetensors")); });
  expect_error("FILE", "none.safetensors", [&] { trainer->load(path("none.safetensors")); });
  expect_error("FORMAT", "", [&] { trainer->load(write("x.safetensors", "not a checkpoint")); });

  const rotary::SafetensorsFile file(path("c.safetensors"));
  const rotary::Tensor tensor = file.read(file.tensors().front().name);
  const rotary::Tensor* only = &tensor;
  const std::string key = "rotary training run", record = file.metadata().at(key);
  const auto rewrite = [&](const std::string& from, const std::string& to) {
    auto words = file.metadata();
    words[key].replace(record.find(from), from.size(), to);
    rotary::write_safetensors(path("w.safetensors"), {&only, 1}, words);
    trainer->load(path("w.safetensors"));
  };
  expect_error("FORMAT", "options, steps and notes", [&] { rewrite("{", ""); });
  expect_error("FORMAT", "options, steps and notes", [&] { rewrite("\"batch\":4", "\"batch\":\"4x\""); });
  expect_error("FORMAT", "options, steps and notes", [&] { rewrite("\"steps\":0", "\"steps\":-1"); });
  expect_error("FORMAT", "options, steps and notes", [&] { rewrite("\"rate\"", "\"speed\""); });
  expect_error("FORMAT", "at least 1 but got 0", [&] { rewrite("\"batch\":4", "\"batch\":0"); });
  expect_error("FORMAT", "at least 1 but got 0", [&] { rewrite("\"block\":32", "\"block\":0"); });
  expect_error("FORMAT", "at least 1 but got 0", [&] { rewrite("\"evaluate_every\":100", "\"evaluate_every\":0"); });
  expect_error("FORMAT", "at least 1 but got -2", [&] { rewrite("\"evaluate_batches\":", "\"evaluate_batches\":-"); });
  expect_error("TENSOR", "must have", [&] { rewrite("\"steps\":0", "\"steps\":1"); });
  EXPECT_EQ(trainer->steps(), 0);
  expect_same_weights(*trainer, *before);
}

}  // namespace
}  // namespace rotary_torch
