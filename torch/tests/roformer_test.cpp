// RoFormer: its checkpoints against answers of transformers (golden/roformer, made by make_parity.py), files that lie,
// and training. The layers are judged in decoder_test.cpp.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "rotary/error.h"
#include "rotary_torch/models/decoder.h"
#include "torch/tests/altered.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using nlohmann::json;
namespace fs = std::filesystem;

const fs::path roformer_golden = fs::path(ROTARY_SOURCE_DIR) / "torch/tests/golden/roformer";

TEST(RoFormerGolden, GivesWhatTransformersGives) {
  for (const char* name : {"masked", "projected", "trunk", "causal"}) {
    SCOPED_TRACE(name);
    LoadedDecoder loaded = load_decoder(roformer_golden / name);
    expect_answers(loaded, read_all(roformer_golden / name / "answers.safetensors"));
  }
}

Altered<load_decoder> masked() { return Altered<load_decoder>(roformer_golden / "masked"); }

Tensor logits(LoadedDecoder loaded) {
  const at::NoGradGuard no_grad;
  return loaded.model->forward(at::arange(1, 5).view({1, 4}));
}

const std::string word_matrix = "roformer.embeddings.word_embeddings.weight";
const std::string head_matrix = "cls.predictions.decoder.weight";

TEST(RoFormerFiles, AHeadThatIsMissingAndATableThatIsMisshapenAreRefused) {
  const std::string table = "roformer.encoder.embed_positions.weight";
  masked()
      .tensors([](Tensors& t) { std::erase_if(t, [](const auto& item) { return item.first.starts_with("cls."); }); })
      .refused("TENSOR", "has no head");
  masked().tensors([&](Tensors& t) { t[table] = at::zeros({12, 8}); }).refused("TENSOR", table);
}

TEST(RoFormerFiles, ForeignHeadsAreWarningsAndThePositionTableMayBeAbsent) {
  const LoadedDecoder loaded = masked()
                                   .tensors([](Tensors& t) {
                                     t["classifier.weight"] = at::zeros({2, 8});
                                     t["roformer.pooler.dense.weight"] = at::zeros({8, 8});
                                     t["roformer.embeddings.position_ids"] = at::arange(12).unsqueeze(0);
                                     t.erase("roformer.encoder.embed_positions.weight");
                                   })
                                   .loaded();
  ASSERT_EQ(loaded.warnings.size(), 2U);
  EXPECT_NE(loaded.warnings[0].find("classifier.weight"), std::string::npos);
  EXPECT_NE(loaded.warnings[1].find("pooler"), std::string::npos);
  EXPECT_LE(difference(logits(loaded), logits(masked().loaded())), 1e-6);
}

TEST(RoFormerFiles, TheHeadsMatrixMayBeItsOwnOrTheWordEmbeddings) {
  const Tensor tied = logits(masked().loaded());
  const Tensor bias = read_all(roformer_golden / "masked/model.safetensors").at("cls.predictions.bias");
  const LoadedDecoder own = masked().tensors([](Tensors& t) { t[head_matrix] = 2 * t[word_matrix]; }).loaded();
  EXPECT_LE(difference(logits(own) - bias, 2 * (tied - bias)), 1e-6);
  EXPECT_TRUE(masked().tensors([](Tensors& t) { t[head_matrix] = t[word_matrix]; }).loaded().model->head.is_empty());
}

TEST(RoFormerFiles, AModelInF64GivesTheSame) {
  const at::NoGradGuard no_grad;
  const Tensors answers = read_all(roformer_golden / "masked/answers.safetensors");
  LoadedDecoder loaded = masked().loaded();
  loaded.model->to(at::kDouble);
  const Tensor hidden = loaded.model->hidden(answers.at("ids"), answers.at("left"));
  EXPECT_EQ(hidden.scalar_type(), at::kDouble);
  EXPECT_LE(difference(hidden, answers.at("left_hidden")), 2e-5);
}

TEST(RoFormerFiles, ConfigsThatItCannotHonourAreRefused) {
  masked().config([](json& c) { c["add_cross_attention"] = true; }).refused("CONFIG_VALUE", "add_cross_attention");
  masked().config([](json& c) { c["rope_theta"] = 5e5; }).refused("CONFIG_KEY", "rope_theta");
}

// ---- the model -----------------------------------------------------------------------------------

DecoderConfig small(DecoderConfig config) {
  config.vocabulary = 23, config.width = 24, config.layers = config.heads = 2, config.feed_forward = 40;
  config.context = 16, config.rope->rope.head_dim = 12;
  return config;
}

TEST(RoFormerTable, GoesOnPastItsStoredRows) {
  const at::NoGradGuard no_grad;
  const auto hidden = [](std::int64_t context) {
    DecoderConfig config = small(roformer_base());
    config.context = context;
    Decoder model(config);
    for (Tensor& parameter : model->parameters()) {
      if (parameter.requires_grad()) parameter.copy_(at::arange(parameter.numel()).view(parameter.sizes()).sin());
    }
    model->eval();
    return model->hidden(at::arange(22).view({1, 22}));
  };
  EXPECT_TRUE(at::equal(hidden(30), hidden(4)));
}

// Trains on sequences that count upwards, in which the last id masks some tokens: each follows from its neighbours.
double masked_loss_falls_by(DecoderConfig config) {
  at::manual_seed(5);
  config.dropout = 0;
  Decoder model(config);
  model->initialise(0.1);
  torch::optim::Adam optimiser(model->parameters(), torch::optim::AdamOptions(3e-3));
  const std::int64_t hidden_id = config.vocabulary - 1;
  constexpr int steps = 150, window = 10;
  double first = 0, last = 0;
  for (int step = 0; step < steps; ++step) {
    const Tensor ids = (at::randint(hidden_id, {16, 1}, at::kLong) + at::arange(12)).remainder(hidden_id);
    const Tensor hide = at::rand({16, 12}) < 0.15;
    const Tensor targets = ids.masked_fill(hide.logical_not(), -100);
    const Tensor out = model->forward(ids.masked_fill(hide, hidden_id));
    const Tensor loss = at::cross_entropy_loss(out.view({-1, config.vocabulary}), targets.view(-1));
    optimiser.zero_grad();
    loss.backward();
    optimiser.step();
    if (step < window) first += loss.item<double>() / window;
    if (step >= steps - window) last += loss.item<double>() / window;
  }
  return first - last;
}

TEST(RoFormer, LearnsMaskedTokens) {
  EXPECT_GT(masked_loss_falls_by(small(notebook_roformer())), 1.5);
  EXPECT_GT(masked_loss_falls_by(small(roformer_base())), 1.5);
}

}  // namespace
}  // namespace rotary_torch
