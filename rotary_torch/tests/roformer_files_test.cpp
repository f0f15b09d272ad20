// RoFormer's checkpoints: against answers of transformers (golden/roformer, made by make_parity.py), and files that
// lie.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "rotary/error.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/models/roformer.h"
#include "rotary_torch/tests/altered.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using nlohmann::json;
namespace fs = std::filesystem;

const fs::path golden = fs::path(ROTARY_SOURCE_DIR) / "rotary_torch/tests/golden/roformer";

TEST(RoFormerGolden, GivesWhatTransformersGives) {
  for (const char* name : {"masked", "projected", "trunk", "causal"}) {
    SCOPED_TRACE(name);
    LoadedRoFormer loaded = load_roformer(golden / name);
    expect_answers(loaded, read_all(golden / name / "answers.safetensors"));
  }
}

Altered<load_roformer> masked() { return Altered<load_roformer>(golden / "masked"); }

Tensor logits(LoadedRoFormer loaded) {
  const at::NoGradGuard no_grad;
  return loaded.model->logits(loaded.model->hidden(at::arange(1, 5).view({1, 4})));
}

const std::string words = "roformer.embeddings.word_embeddings.weight";
const std::string decoder = "cls.predictions.decoder.weight";

TEST(RoFormerFiles, TensorsThatAreMissingMisshapenOrUnknownAreRefusedByName) {
  const std::string head = "cls.predictions.transform.dense.weight", table = "roformer.encoder.embed_positions.weight";
  const std::string key = "roformer.encoder.layer.1.attention.self.key.weight";
  const std::string unknown = "roformer.encoder.layer.0.attention.self.q_norm.weight";
  const auto refused = [](const std::string& name, const std::function<void(Tensors&)>& spoil) {
    masked().tensors(spoil).refused("TENSOR", name);
  };
  for (const std::string& name : {key, words, head}) refused(name, [&](Tensors& t) { t.erase(name); });
  refused(head, [](Tensors& t) { std::erase_if(t, [](const auto& item) { return item.first.starts_with("cls."); }); });
  refused(key, [&](Tensors& t) { t[key] = at::zeros({8, 7}); });
  refused(table, [&](Tensors& t) { t[table] = at::zeros({12, 8}); });
  refused(unknown, [&](Tensors& t) { t[unknown] = at::zeros({4}); });
}

// A model of these sizes would not fit into memory: the file denies them first.
TEST(RoFormerFiles, SizesThatTheFileDeniesTakeNoMemory) {
  for (const char* key : {"vocab_size", "intermediate_size", "type_vocab_size"}) {
    masked()
        .config([&](json& c) { c[key] = c[key].get<std::int64_t>() * 100'000'000; })
        .refused("TENSOR", "00000000, 8]");
  }
}

TEST(RoFormerFiles, AForeignHeadIsAWarning) {
  const LoadedRoFormer loaded = masked()
                                    .tensors([](Tensors& t) {
                                      t["classifier.weight"] = at::zeros({2, 8});
                                      t["roformer.pooler.dense.weight"] = at::zeros({8, 8});
                                    })
                                    .loaded();
  ASSERT_EQ(loaded.warnings.size(), 2U);
  EXPECT_NE(loaded.warnings[0].find("classifier.weight"), std::string::npos);
  EXPECT_NE(loaded.warnings[1].find("pooler"), std::string::npos);
}

TEST(RoFormerFiles, BuffersAreAcceptedAndThePositionTableMayBeAbsent) {
  const LoadedRoFormer without = masked()
                                     .tensors([](Tensors& t) {
                                       t.erase("roformer.encoder.embed_positions.weight");
                                       t["roformer.embeddings.position_ids"] = at::arange(12).unsqueeze(0);
                                     })
                                     .loaded();
  EXPECT_TRUE(without.warnings.empty());
  EXPECT_LE(difference(logits(without), logits(masked().loaded())), 1e-6);
}

TEST(RoFormerFiles, TheHeadsMatrixMayBeItsOwnOrTheWordEmbeddings) {
  const Tensor tied = logits(masked().loaded());
  const Tensor bias = read_all(golden / "masked/model.safetensors").at("cls.predictions.bias");
  const LoadedRoFormer own = masked().tensors([](Tensors& t) { t[decoder] = 2 * t[words]; }).loaded();
  EXPECT_LE(difference(logits(own) - bias, 2 * (tied - bias)), 1e-6);
  EXPECT_FALSE(
      masked().tensors([](Tensors& t) { t[decoder] = t[words]; }).loaded().model->prediction->decoder.defined());
  const LoadedRoFormer only_there = masked()
                                        .tensors([](Tensors& t) {
                                          t[decoder] = t[words];
                                          t.erase(words);
                                        })
                                        .loaded();
  EXPECT_TRUE(at::equal(logits(only_there), tied));
}

TEST(RoFormerFiles, AModelInF64GivesTheSame) {
  const at::NoGradGuard no_grad;
  const Tensors answers = read_all(golden / "masked/answers.safetensors");
  LoadedRoFormer loaded = masked().loaded();
  loaded.model->to(at::kDouble);
  const Tensor hidden = loaded.model->hidden(answers.at("ids"), answers.at("left"));
  EXPECT_EQ(hidden.scalar_type(), at::kDouble);
  EXPECT_LE(difference(hidden, answers.at("left_hidden")), 2e-5);
}

TEST(RoFormerFiles, ConfigsThatItCannotHonourAreRefused) {
  const auto refused = [](const char* key, const json& value, const char* code, const char* word) {
    masked().config([&](json& c) { c[key] = value; }).refused(code, word);
  };
  refused("hidden_act", "snake", "CONFIG_VALUE", "hidden_act");
  refused("add_cross_attention", true, "CONFIG_VALUE", "add_cross_attention");
  refused("hidden_size", -8, "CONFIG_VALUE", "hidden_size");
  refused("model_type", "llama", "MODEL_TYPE", "llama");
  refused("rope_theta", 5e5, "CONFIG_KEY", "rope_theta");
  refused("num_hidden_layers", 2'000'000'000, "CONFIG_VALUE", "num_hidden_layers");
  refused("num_hidden_layers", 1, "TENSOR", "encoder.layer.1.");
  refused("vocab_size", 18, "TENSOR", "word_embeddings");
  for (const int heads : {3, 8}) {
    EXPECT_THROW(masked().config([&](json& c) { c["num_attention_heads"] = heads; }).loaded(), rotary::Error) << heads;
  }
}

TEST(RoFormerFiles, WrongShapesAreRefused) {
  LoadedRoFormer loaded = masked().loaded();
  const Tensor ids = at::zeros({2, 3}, at::kLong);
  EXPECT_THROW(loaded.model->hidden(at::zeros({3}, at::kLong)), rotary::Error);
  EXPECT_THROW(loaded.model->hidden(at::zeros({2, 0}, at::kLong)), rotary::Error);
  EXPECT_THROW(loaded.model->hidden(ids, at::ones({2, 4}, at::kLong)), rotary::Error);
  EXPECT_THROW(loaded.model->hidden(ids, {}, at::zeros({2, 1}, at::kLong)), rotary::Error);
}

}  // namespace
}  // namespace rotary_torch
