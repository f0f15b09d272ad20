// RoFormer: against answers of transformers (golden/roformer, made by make_roformer.py), and the notebook model against
// the same written out in double precision.
#include "torch/roformer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <torch/optim/adam.h>

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "rotary/error.h"
#include "torch/checkpoint.h"

namespace rotary_torch {
namespace {

using at::Tensor;
namespace fs = std::filesystem;

const fs::path golden = fs::path(ROTARY_SOURCE_DIR) / "torch/tests/golden/roformer";
constexpr double tolerance = 2e-5;

// The largest difference, over max(1, the largest value).
double difference(const Tensor& got, const Tensor& expected) {
  if (got.sizes() != expected.sizes()) return HUGE_VAL;
  const double largest = expected.abs().max().item<double>();
  const double apart = (got.to(at::kDouble) - expected.to(at::kDouble)).abs().max().item<double>();
  return std::isnan(apart) ? HUGE_VAL : apart / std::max(1.0, largest);
}

std::map<std::string, Tensor> read_all(const fs::path& path) {
  const rotary::SafetensorsFile file(path);
  std::map<std::string, Tensor> tensors;
  for (const rotary::TensorInfo& info : file.tensors()) tensors[info.name] = torch_tensor(file.read(info.name));
  return tensors;
}

// ---- Hugging Face's face -------------------------------------------------------------------------

class RoFormerGolden : public testing::TestWithParam<const char*> {};

TEST_P(RoFormerGolden, GivesWhatTransformersGives) {
  const at::NoGradGuard no_grad;
  const std::map<std::string, Tensor> answers = read_all(golden / GetParam() / "answers.safetensors");
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
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "rotary_roformer_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    tensors_ = read_all(golden / "masked/model.safetensors");
    std::ifstream stream(golden / "masked/config.json");
    config_ = {std::istreambuf_iterator<char>(stream), {}};
  }
  void TearDown() override { fs::remove_all(dir_); }

  LoadedRoFormer load() const {
    write_tensors(dir_ / "model.safetensors", {tensors_.begin(), tensors_.end()});
    std::ofstream(dir_ / "config.json") << config_;
    return load_roformer(dir_);
  }
  void replace(const std::string& old, const std::string& now) {
    const std::size_t place = config_.find(old);
    ASSERT_NE(place, std::string::npos) << old;
    config_.replace(place, old.size(), now);
  }
  // Refused with this code, in a sentence that has this word.
  void expect_refused(const std::string& code, const std::string& word) const {
    try {
      load();
      ADD_FAILURE() << "nothing was refused";
    } catch (const rotary::Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  }

  Tensor logits(RoFormer& model) const {
    const at::NoGradGuard no_grad;
    return model->logits(model->hidden(at::arange(1, 5).view({1, 4})));
  }

  fs::path dir_;
  std::map<std::string, Tensor> tensors_;
  std::string config_;
};

const std::string words = "roformer.embeddings.word_embeddings.weight";
const std::string key_weight = "roformer.encoder.layer.1.attention.self.key.weight";

TEST_F(RoFormerFiles, AMissingTensorIsRefusedByName) {
  tensors_.erase(key_weight);
  expect_refused("TENSOR", key_weight);
}
TEST_F(RoFormerFiles, MissingWordEmbeddingsAreRefusedByName) {
  tensors_.erase(words);
  expect_refused("TENSOR", words);
}
TEST_F(RoFormerFiles, AMissingHeadOfALanguageModelIsRefusedByName) {
  std::erase_if(tensors_, [](const auto& item) { return item.first.starts_with("cls."); });
  expect_refused("TENSOR", "cls.predictions.transform.dense.weight");
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
TEST_F(RoFormerFiles, AMissingTensorOfTheHeadIsRefusedByName) {
  tensors_.erase("cls.predictions.transform.dense.weight");
  expect_refused("TENSOR", "cls.predictions.transform.dense.weight");
}
TEST_F(RoFormerFiles, AMisshapenTensorIsRefusedByName) {
  tensors_[key_weight] = at::zeros({8, 7});
  expect_refused("TENSOR", key_weight);
}
TEST_F(RoFormerFiles, AMisshapenPositionTableIsRefusedByName) {
  tensors_["roformer.encoder.embed_positions.weight"] = at::zeros({12, 8});
  expect_refused("TENSOR", "embed_positions");
}
TEST_F(RoFormerFiles, AnUnknownTensorInsideTheTrunkIsRefusedByName) {
  tensors_["roformer.encoder.layer.0.attention.self.q_norm.weight"] = at::zeros({4});
  expect_refused("TENSOR", "q_norm");
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
  const std::map<std::string, Tensor> answers = read_all(golden / "masked/answers.safetensors");
  LoadedRoFormer loaded = load();
  loaded.model->to(at::kDouble);
  const Tensor hidden = loaded.model->hidden(answers.at("ids"), answers.at("mask"));
  EXPECT_EQ(hidden.scalar_type(), at::kDouble);
  EXPECT_LE(difference(hidden, answers.at("hidden")), tolerance);
}
TEST_F(RoFormerFiles, TiedWordEmbeddingsMayStandInTheHeadOnly) {
  LoadedRoFormer usual = load();
  tensors_["cls.predictions.decoder.weight"] = tensors_[words];
  tensors_.erase(words);
  LoadedRoFormer swapped = load();
  EXPECT_TRUE(at::equal(logits(swapped.model), logits(usual.model)));
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
  WrittenOut(const RoFormer& model) : config_(model->config()) {
    for (const auto& item : model->named_parameters()) weights_[item.key()] = item.value().detach().to(at::kDouble);
  }

  Tensor logits(const Tensor& ids, const Tensor& padding) const {
    Tensor x = at::embedding(weights_.at("word_embeddings.weight"), ids);
    for (std::int64_t i = 0; i < config_.layers; ++i) {
      const std::string layer = "layers." + std::to_string(i) + ".";
      const Tensor h = x + attention(norm(x, layer + "attention_norm"), padding, layer + "attention.");
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
  // x [tokens, head_dim] as complex numbers times exp(i position theta).
  Tensor turned(const Tensor& x) const {
    Tensor out = x.clone();
    const std::int64_t head_dim = x.size(1);
    for (std::int64_t t = 0; t < x.size(0); ++t) {
      for (std::int64_t i = 0; i < head_dim / 2; ++i) {
        const double angle =
            static_cast<double>(t) * std::pow(1e6, -2.0 * static_cast<double>(i) / static_cast<double>(head_dim));
        const double c = entry(std::cos(angle)), s = entry(std::sin(angle));
        const double a = x[t][2 * i].item<double>(), b = x[t][2 * i + 1].item<double>();
        out[t][2 * i] = a * c - b * s;
        out[t][2 * i + 1] = b * c + a * s;
      }
    }
    return out;
  }
  double entry(double value) const {
    return config_.bf16_table ? at::scalar_tensor(value, at::kFloat).to(at::kBFloat16).item<double>() : value;
  }
  Tensor attention(const Tensor& x, const Tensor& padding, const std::string& name) const {
    const std::int64_t head_dim = config_.width / config_.heads;
    const Tensor qkv = linear(x, name + "qkv");
    Tensor seen = at::zeros_like(x);
    for (std::int64_t b = 0; b < x.size(0); ++b) {
      for (std::int64_t h = 0; h < config_.heads; ++h) {
        const auto part = [&](std::int64_t which) {
          return qkv[b].narrow(1, which * config_.width + h * head_dim, head_dim);
        };
        Tensor scores = at::matmul(turned(part(0)), turned(part(1)).t()) / std::sqrt(static_cast<double>(head_dim));
        if (padding.defined()) scores = scores.masked_fill(padding[b] == 0, -1e300);
        seen[b].narrow(1, h * head_dim, head_dim).copy_(at::matmul(at::softmax(scores, -1), part(2)));
      }
    }
    return linear(seen, name + "output");
  }

  RoFormerConfig config_;
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
  const double apart = difference(rounded->hidden(ids), exact->hidden(ids));
  EXPECT_GT(apart, 1e-6);
  EXPECT_LT(apart, 2e-2);
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
