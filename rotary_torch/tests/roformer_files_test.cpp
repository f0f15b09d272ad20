// RoFormer's checkpoints: against answers of transformers (golden/roformer, made by make_roformer.py), and files that
// lie.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "rotary/error.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/models/roformer.h"
#include "rotary_torch/tests/tensors.h"
#include "tests/support/file_helpers.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::test::expect_error;
using rotary::test::read_text;
using rotary::test::ScratchFolder;
using rotary::test::write_text;
namespace fs = std::filesystem;

const fs::path golden = fs::path(ROTARY_SOURCE_DIR) / "rotary_torch/tests/golden/roformer";
constexpr double tolerance = 2e-5;

class RoFormerGolden : public testing::TestWithParam<const char*> {};

TEST_P(RoFormerGolden, GivesWhatTransformersGives) {
  const at::NoGradGuard no_grad;
  const Tensors answers = read_all(golden / GetParam() / "answers.safetensors");
  LoadedRoFormer loaded = load_roformer(golden / GetParam());
  EXPECT_EQ(loaded.has_head, answers.count("logits") == 1);
  EXPECT_TRUE(loaded.warnings.empty());
  for (const bool masked : {true, false}) {
    const std::string suffix = masked ? "" : "_without_mask";
    const Tensor hidden = loaded.model->hidden(answers.at("ids"), masked ? answers.at("mask") : Tensor());
    EXPECT_LE(difference(hidden, answers.at("hidden" + suffix)), tolerance) << suffix;
    if (!loaded.has_head) continue;
    EXPECT_LE(difference(loaded.model->logits(hidden), answers.at("logits" + suffix)), tolerance) << suffix;
  }
}
INSTANTIATE_TEST_SUITE_P(Checkpoints, RoFormerGolden, testing::Values("masked", "projected", "trunk", "causal"),
                         [](const auto& chosen) { return std::string(chosen.param); });

// A copy of a golden checkpoint whose tensors and config a test may spoil.
class RoFormerFiles : public testing::Test {
 protected:
  LoadedRoFormer load() const {
    write_tensors(dir_ / "model.safetensors", {tensors_.begin(), tensors_.end()});
    write_text(dir_ / "config.json", config_);
    return load_roformer(dir_.path());
  }
  void replace(const std::string& old, const std::string& now) {
    const std::size_t place = config_.find(old);
    ASSERT_NE(place, std::string::npos) << old;
    config_.replace(place, old.size(), now);
  }
  // Refused with this code, in a sentence that has this word.
  void expect_refused(const std::string& code, const std::string& word) const {
    expect_error(code, word, [this] { load(); });
  }

  Tensor logits(RoFormer& model) const {
    const at::NoGradGuard no_grad;
    return model->logits(model->hidden(at::arange(1, 5).view({1, 4})));
  }

  ScratchFolder dir_;
  Tensors tensors_ = read_all(golden / "masked/model.safetensors");
  std::string config_ = read_text(golden / "masked/config.json");
};

const std::string words = "roformer.embeddings.word_embeddings.weight";
const std::string key_weight = "roformer.encoder.layer.1.attention.self.key.weight";

TEST_F(RoFormerFiles, TensorsThatAreMissingMisshapenOrUnknownAreRefusedByName) {
  const std::string head = "cls.predictions.transform.dense.weight", table = "roformer.encoder.embed_positions.weight";
  const std::string unknown = "roformer.encoder.layer.0.attention.self.q_norm.weight";
  const std::vector<std::pair<std::string, std::function<void(Tensors&)>>> cases = {
      {key_weight, [](Tensors& t) { t.erase(key_weight); }},
      {key_weight,
       [](Tensors& t) {
         t[key_weight] = at::zeros({8, 7});
       }},
      {words, [](Tensors& t) { t.erase(words); }},
      {head, [&](Tensors& t) { t.erase(head); }},
      {head, [](Tensors& t) { std::erase_if(t, [](const auto& item) { return item.first.starts_with("cls."); }); }},
      {table,
       [&](Tensors& t) {
         t[table] = at::zeros({12, 8});
       }},
      {unknown, [&](Tensors& t) { t[unknown] = at::zeros({4}); }},
  };
  const Tensors whole = tensors_;
  for (const auto& [name, spoil] : cases) {
    tensors_ = whole;
    spoil(tensors_);
    expect_refused("TENSOR", name);
  }
}
// A model of these sizes would not fit into memory: the file denies them first.
TEST_F(RoFormerFiles, SizesThatTheFileDeniesTakeNoMemory) {
  const std::string known = config_;
  for (const char* size : {"\"vocab_size\": 17", "\"intermediate_size\": 12", "\"type_vocab_size\": 2"}) {
    config_ = known;
    replace(size, std::string(size) + "00000000");
    expect_refused("TENSOR", "00000000, 8]");
  }
}
TEST_F(RoFormerFiles, ALayerMoreThanTheConfigSaysIsRefusedByName) {
  replace("\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
  expect_refused("TENSOR", "encoder.layer.1.");
}
TEST_F(RoFormerFiles, AForeignHeadIsAWarning) {
  tensors_["classifier.weight"] = at::zeros({2, 8});
  tensors_["roformer.pooler.dense.weight"] = at::zeros({8, 8});
  const LoadedRoFormer loaded = load();
  ASSERT_EQ(loaded.warnings.size(), 2U);
  EXPECT_NE(loaded.warnings[0].find("classifier.weight"), std::string::npos);
  EXPECT_NE(loaded.warnings[1].find("pooler"), std::string::npos);
}
TEST_F(RoFormerFiles, BuffersAreAcceptedAndThePositionTableMayBeAbsent) {
  LoadedRoFormer with = load();
  tensors_.erase("roformer.encoder.embed_positions.weight");
  tensors_["roformer.embeddings.position_ids"] = at::arange(12).unsqueeze(0);
  LoadedRoFormer without = load();
  EXPECT_TRUE(without.warnings.empty());
  EXPECT_LE(difference(logits(without.model), logits(with.model)), 1e-6);
}
TEST_F(RoFormerFiles, AHeadMatrixOfItsOwnInATiedFileIsUsed) {
  LoadedRoFormer tied = load();
  tensors_["cls.predictions.decoder.weight"] = 2 * tensors_[words];
  LoadedRoFormer own = load();
  const Tensor bias = tensors_["cls.predictions.bias"];
  EXPECT_LE(difference(logits(own.model) - bias, 2 * (logits(tied.model) - bias)), 1e-6);
}
TEST_F(RoFormerFiles, AHeadMatrixEqualToTheWordEmbeddingsStaysTied) {
  tensors_["cls.predictions.decoder.weight"] = tensors_[words];
  EXPECT_FALSE(load().model->prediction->decoder.defined());
}
TEST_F(RoFormerFiles, AModelInF64GivesTheSame) {
  const at::NoGradGuard no_grad;
  const Tensors answers = read_all(golden / "masked/answers.safetensors");
  LoadedRoFormer loaded = load();
  loaded.model->to(at::kDouble);
  const Tensor hidden = loaded.model->hidden(answers.at("ids"), answers.at("mask"));
  EXPECT_EQ(hidden.scalar_type(), at::kDouble);
  EXPECT_LE(difference(hidden, answers.at("hidden")), tolerance);
}
TEST_F(RoFormerFiles, TiedWordEmbeddingsMayStandInTheHeadOnly) {
  LoadedRoFormer plain = load();
  tensors_["cls.predictions.decoder.weight"] = tensors_[words];
  tensors_.erase(words);
  LoadedRoFormer swapped = load();
  EXPECT_TRUE(at::equal(logits(swapped.model), logits(plain.model)));
}
TEST_F(RoFormerFiles, ConfigsThatItCannotHonourAreRefused) {
  const std::vector<std::array<const char*, 4>> cases = {
      {"\"hidden_act\": \"gelu\"", "\"hidden_act\": \"snake\"", "CONFIG_VALUE", "hidden_act"},
      {"\"add_cross_attention\": false", "\"add_cross_attention\": true", "CONFIG_VALUE", "add_cross_attention"},
      {"\"hidden_size\": 8", "\"hidden_size\": -8", "CONFIG_VALUE", "hidden_size"},
      {"\"num_attention_heads\": 2", "\"num_attention_heads\": 3", "", ""},
      {"\"num_attention_heads\": 2", "\"num_attention_heads\": 8", "", ""},
      {"\"model_type\": \"roformer\"", "\"model_type\": \"llama\"", "MODEL_TYPE", "llama"},
      {"\"rotary_value\": false", "\"rotary_value\": false, \"rope_theta\": 5e5", "CONFIG_KEY", "rope_theta"},
      {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 2000000000", "CONFIG_VALUE", "num_hidden_layers"},
      {"\"vocab_size\": 17", "\"vocab_size\": 18", "TENSOR", "word_embeddings"},
  };
  const std::string whole = config_;
  for (const auto& [old, now, code, word] : cases) {
    config_ = whole;
    replace(old, now);
    if (*code != '\0') {
      expect_refused(code, word);
    } else {
      EXPECT_THROW(load(), rotary::Error) << now;
    }
  }
}
TEST_F(RoFormerFiles, WrongShapesAreRefused) {
  LoadedRoFormer loaded = load();
  const Tensor ids = at::zeros({2, 3}, at::kLong);
  EXPECT_THROW(loaded.model->hidden(at::zeros({3}, at::kLong)), rotary::Error);
  EXPECT_THROW(loaded.model->hidden(at::zeros({2, 0}, at::kLong)), rotary::Error);
  EXPECT_THROW(loaded.model->hidden(ids, at::ones({2, 4}, at::kLong)), rotary::Error);
  EXPECT_THROW(loaded.model->hidden(ids, {}, at::zeros({2, 1}, at::kLong)), rotary::Error);
}

}  // namespace
}  // namespace rotary_torch
