// RoFormer: the notebook model against the same written out in double precision, and training. Checkpoints:
// roformer_files_test.cpp.
#include "rotary_torch/models/roformer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>

#include <cmath>
#include <map>
#include <string>

#include "rotary_torch/tests/tensors.h"
#include "rotary_torch/tests/written_out.h"

namespace rotary_torch {
namespace {

using at::Tensor;

constexpr double tolerance = 2e-5;

TEST(RoFormerTable, GoesOnPastItsStoredRows) {
  const at::NoGradGuard no_grad;
  RoFormerConfig config;
  config.vocabulary = 11;
  config.width = 16;
  config.heads = 2;
  config.layers = 2;
  config.feed_forward = 8;
  config.context = 30;
  RoFormer whole(config);
  config.context = 4;
  RoFormer short_table(config);
  for (const auto& item : whole->named_parameters()) {
    Tensor other = short_table->named_parameters()[item.key()];
    if (other.sizes() == item.value().sizes()) other.copy_(item.value());
  }
  whole->eval();
  short_table->eval();
  const Tensor ids = at::arange(22).view({1, 22}).remainder(11);
  EXPECT_TRUE(at::equal(whole->hidden(ids), short_table->hidden(ids)));
}

// ---- the notebook model --------------------------------------------------------------------------

RoFormerConfig small_notebook() {
  RoFormerConfig config = notebook_roformer();
  config.vocabulary = 23;
  config.width = 24;
  config.layers = 2;
  config.heads = 2;
  config.feed_forward = 40;
  config.context = 16;
  return config;
}

// The model written out, in f64, from the tensors by name.
class WrittenOut {
 public:
  explicit WrittenOut(const RoFormer& model) : config_(model->config()), model_(model) {
    for (const auto& item : model->named_parameters()) weights_[item.key()] = item.value().detach().to(at::kDouble);
  }

  Tensor logits(const Tensor& ids, const Tensor& padding) const {
    Tensor x = at::embedding(weights_.at("word_embeddings.weight"), ids);
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      const std::string layer = "layers." + std::to_string(i) + ".";
      const Tensor h = x + attention(norm(x, layer + "attention_norm"), padding, i);
      const Tensor n = norm(h, layer + "norm");
      const Tensor inner = linear(n, layer + "feed_forward.input");
      const Tensor gelu = inner * 0.5 * (1 + at::erf(inner / std::sqrt(2.0)));
      x = h + norm(linear(gelu, layer + "feed_forward.output") + n, layer + "feed_forward.norm");
    }
    return at::matmul(x, weights_.at("output.weight").t());
  }

 private:
  Tensor linear(const Tensor& x, const std::string& name) const {
    return at::matmul(x, weights_.at(name + ".weight").t()) + weights_.at(name + ".bias");
  }
  Tensor norm(const Tensor& x, const std::string& name) const {
    const Tensor centred = x - x.mean(-1, true);
    return centred / (centred.square().mean(-1, true) + 1e-12).sqrt() * weights_.at(name + ".weight") +
           weights_.at(name + ".bias");
  }
  Tensor attention(const Tensor& x, const Tensor& padding, std::int64_t layer) const {
    const MultiHeadAttention& module = model_->layers->at<RoFormerLayerImpl>(static_cast<std::size_t>(layer)).attention;
    const auto head_dim = static_cast<int>(config_.width / config_.heads);
    TableTensors table = table_of(head_dim, 0, x.size(1), rotary::Pairing::interleaved, 1e6);
    if (config_.bf16_table) table = as(as(as(table, at::kFloat), at::kBFloat16), at::kDouble);
    return written_out(in_double(parameters_of(module)), module->options(), x, &table, {.padding = padding});
  }

  RoFormerConfig config_;
  RoFormer model_;
  std::map<std::string, Tensor> weights_;
};

TEST(RoFormerNotebook, EqualsTheFormulasWrittenOut) {
  const at::NoGradGuard no_grad;
  at::manual_seed(3);
  for (const bool bf16_table : {false, true}) {
    RoFormerConfig config = small_notebook();
    config.bf16_table = bf16_table;
    RoFormer model(config);
    model->initialise(0.3);
    for (Tensor& parameter : model->parameters()) {  // no bias stays 0, no norm 1
      if (parameter.dim() == 1) parameter.add_(0.2 * at::randn_like(parameter));
    }
    model->eval();
    const WrittenOut written(model);
    const Tensor ids = at::randint(23, {3, 11}, at::kLong);
    const Tensor padding = at::ones({3, 11}, at::kLong);
    padding[1].narrow(0, 7, 4).zero_();
    padding[2].narrow(0, 0, 3).zero_();
    EXPECT_LE(difference(model->logits(model->hidden(ids)), written.logits(ids, {})), tolerance);
    EXPECT_LE(difference(model->logits(model->hidden(ids, padding)), written.logits(ids, padding)), tolerance);
  }
}

TEST(RoFormerNotebook, TheBf16TableIsAnotherTable) {
  const at::NoGradGuard no_grad;
  RoFormerConfig config = small_notebook();
  at::manual_seed(4);
  RoFormer exact(config);
  config.bf16_table = true;
  at::manual_seed(4);
  RoFormer rounded(config);
  exact->eval();
  rounded->eval();
  const Tensor ids = at::arange(15).view({1, 15});
  const double distance = difference(rounded->hidden(ids), exact->hidden(ids));
  EXPECT_GT(distance, 1e-6);
  EXPECT_LT(distance, 2e-2);
}

TEST(RoFormerNotebook, InitialisesWithTheDeviationAsked) {
  RoFormer model(small_notebook());
  model->initialise();
  const auto parameters = model->named_parameters();
  EXPECT_NEAR(parameters["output.weight"].std().item<double>(), 0.02, 0.003);
  EXPECT_NEAR(parameters["layers.1.attention.qkv.weight"].std().item<double>(), 0.02, 0.002);
  EXPECT_EQ(parameters["layers.0.feed_forward.input.bias"].abs().max().item<double>(), 0);
  EXPECT_TRUE(parameters["layers.0.norm.weight"].eq(1).all().item<bool>());
}

// Sequences that count upwards, some tokens hidden behind the last id: what is hidden follows from what is not.
double masked_loss_falls_by(RoFormerConfig config) {
  at::manual_seed(5);
  config.dropout = config.attention_dropout = 0;
  RoFormer model(config);
  model->initialise(0.1);
  model->train();
  torch::optim::Adam optimiser(model->parameters(), torch::optim::AdamOptions(3e-3));
  const std::int64_t hidden_id = config.vocabulary - 1;
  constexpr int steps = 150, window = 10;
  double first = 0, last = 0;
  for (int step = 0; step < steps; ++step) {
    const Tensor ids = (at::randint(hidden_id, {16, 1}, at::kLong) + at::arange(12)).remainder(hidden_id);
    const Tensor hide = at::rand({16, 12}) < 0.15;
    const Tensor targets = ids.masked_fill(hide.logical_not(), -100);
    const Tensor logits = model->logits(model->hidden(ids.masked_fill(hide, hidden_id)));
    const Tensor loss = at::cross_entropy_loss(logits.view({-1, config.vocabulary}), targets.view(-1));
    optimiser.zero_grad();
    loss.backward();
    optimiser.step();
    if (step < window) first += loss.item<double>() / window;
    if (step >= steps - window) last += loss.item<double>() / window;
  }
  return first - last;
}

TEST(RoFormerNotebook, LearnsMaskedTokens) { EXPECT_GT(masked_loss_falls_by(small_notebook()), 1.5); }

TEST(RoFormerTraining, HuggingFacesFaceLearnsMaskedTokens) {
  RoFormerConfig config = small_notebook();
  config.notebook = false;
  config.token_types = 2;
  config.base = 10000;
  config.tied = true;
  EXPECT_GT(masked_loss_falls_by(config), 1.5);
}

}  // namespace
}  // namespace rotary_torch
