// Checkpoints: transformers' files against its answers (golden/decoder, made by make_parity.py), our own files written
// and read again, and files that lie.
#include "rotary_torch/models/checkpoint.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rotary/error.h"
#include "rotary_torch/models/decoder.h"
#include "torch/tests/altered.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using nlohmann::json;
using rotary::test::expect_error;
using rotary::test::read_text;
using rotary::test::ScratchFolder;
using rotary::test::write_text;
namespace fs = std::filesystem;

const fs::path golden = fs::path(ROTARY_SOURCE_DIR) / "torch/tests/golden/decoder";

// ---- transformers' answers -----------------------------------------------------------------------

TEST(FamilyGolden, GivesWhatTransformersGivesAtPaddingToo) {
  const at::NoGradGuard no_grad;
  int families = 0;
  for (const auto& entry : fs::directory_iterator(golden)) {
    const Tensors answers = read_all(entry.path() / "answers.safetensors");
    LoadedDecoder loaded = load_decoder(entry.path());
    SCOPED_TRACE(entry.path());
    expect_answers(loaded, answers);
    DecoderCache cache(loaded.model->config());
    for (std::int64_t t = 0; t < answers.at("ids").size(1); ++t) {
      const Tensor logits = loaded.model->next_logits(answers.at("ids").narrow(1, t, 1), cache);
      EXPECT_LT(difference(logits, answers.at("logits").select(1, t)), 2e-5) << "token " << t;
    }
    ++families;
  }
  EXPECT_EQ(families, 8);
}

// ---- our own files -------------------------------------------------------------------------------

DecoderConfig odd_config() {
  DecoderConfig c;
  c.vocabulary = 17, c.width = 16, c.layers = 3, c.heads = 4, c.kv_heads = 2, c.head_dim = 10, c.feed_forward = 20;
  c.context = 32, c.norm = Norm::rms, c.norm_eps = 3e-6, c.activation = Activation::quick_gelu, c.gated = true;
  c.qkv_bias = false, c.head_bias = false, c.qk_norm = true, c.tied = true, c.residual = Residual::parallel;
  c.windows = {4, 0, 9}, c.dropout = 0.25, c.padding_id = 3, c.angles = rotary::Angles::float32;
  rotary::ModelRope rope;
  rope.rope.head_dim = 10, rope.rope.rotary_dim = 6, rope.rope.base = 5000;
  rope.rope.pairing = rotary::Pairing::interleaved;
  c.rope = rope;
  return c;
}

// The scalings are judged with rope_parameters (files/tests).
TEST(OwnFiles, ConfigComesBackAsItWas) {
  const ScratchFolder folder;
  DecoderConfig config = odd_config();
  config.rope->rope.scaling = rotary::Yarn{.factor = 4, .trained_length = 8, .beta_fast = 20, .truncate = false};
  const std::string text = decoder_config_json(config, 7);
  write_text(folder / "config.json", text);
  const DecoderConfig read = read_decoder_config(folder.path());
  EXPECT_EQ(decoder_config_json(read, 7), text);
  EXPECT_EQ(read.rope->rope, config.rope->rope) << text;
  write_text(folder / "config.json", std::string(text).replace(text.find("\"float32\""), 9, "\"exakt\""));
  expect_error("CONFIG_VALUE", "angles", [&] { read_decoder_config(folder.path()); });
  for (const auto position :
       {PositionEncoding::learned, PositionEncoding::sinusoidal, PositionEncoding::none, PositionEncoding::alibi}) {
    DecoderConfig other = odd_config();
    other.position = position, other.rope.reset();
    write_text(folder / "config.json", decoder_config_json(other, 7));
    EXPECT_EQ(read_decoder_config(folder.path()).position, position);
  }
}

TEST(OwnFiles, ModelComesBackWithTheSameBits) {
  const at::NoGradGuard no_grad;
  const ScratchFolder folder;
  torch::manual_seed(4);
  Decoder model(odd_config());
  model->eval();
  save_decoder(*model, folder.path());
  LoadedDecoder loaded = load_decoder(folder.path());
  const Tensor ids = at::randint(17, {2, 9}, at::kLong);
  EXPECT_TRUE(at::equal(loaded.model->forward(ids), model->forward(ids)));
  EXPECT_EQ(json::parse(read_text(folder / "config.json"))["parameters"], parameter_count(*model));
  Tensors tensors = read_all(folder / "model.safetensors");
  tensors["layers.0.attention.extra"] = at::ones({1});
  write_all(folder / "model.safetensors", tensors);
  expect_error("TENSOR", "has no \"layers.0.attention.extra\"", [&] { load_decoder(folder.path()); });
}

TEST(OwnFiles, AModelThatConfigJsonCannotHoldIsRefusedBeforeAnythingIsWritten) {
  const auto refused = [](const auto& change) {
    const ScratchFolder folder;
    DecoderConfig config = odd_config();
    change(config);
    Decoder model(config);
    expect_error("CONFIG_VALUE", "a causal decoder", [&] { save_decoder(*model, folder.path()); });
    EXPECT_TRUE(fs::is_empty(folder.path()));
  };
  refused([](DecoderConfig& c) { c.causal = false; });
  refused([](DecoderConfig& c) { c.rotary_value = true; });
  refused([](DecoderConfig& c) { c.stored_table = true, c.rope->rope.rotary_dim = 10; });
  refused([](DecoderConfig& c) { c.masked_head = true; });
  refused([](DecoderConfig& c) { c.token_types = 2; });
  refused([](DecoderConfig& c) { c.embedding_width = 8; });
}

TEST(OwnFiles, TensorsOfEveryTypeGoThereAndBack) {
  const ScratchFolder folder;
  Tensors tensors;
  for (const auto type :
       {at::kFloat, at::kHalf, at::kBFloat16, at::kDouble, at::kLong, at::kInt, at::kBool, at::kByte}) {
    tensors[c10::toString(type)] = at::arange(6).reshape({2, 3}).to(type).t();
  }
  tensors["empty"] = at::empty({0, 3});
  write_all(folder / "all.safetensors", tensors);
  for (const auto& [name, tensor] : read_all(folder / "all.safetensors")) {
    EXPECT_TRUE(at::equal(tensor, tensors.at(name))) << name;
    EXPECT_EQ(tensor.scalar_type(), tensors.at(name).scalar_type()) << name;
  }
  expect_error("DTYPE", "must be f32", [&] { file_tensor("c", at::zeros({1}, at::kComplexFloat)); });
}

// ---- files that lie ------------------------------------------------------------------------------

struct AlteredFamily : rotary_torch::Altered<load_decoder> {
  explicit AlteredFamily(const char* family) : rotary_torch::Altered<load_decoder>(golden / family) {}
};

TEST(HostileCheckpoint, TensorsThatDoNotMatchTheConfigAreNamed) {
  const std::string q = "model.layers.1.self_attn.q_proj.weight";
  const auto lacks = [](const char* family, const std::string& name) {
    AlteredFamily(family).tensors([&](Tensors& t) { t.erase(name); }).refused("TENSOR", name);
  };
  lacks("llama", q);
  lacks("llama", "lm_head.weight");
  lacks("qwen3", "model.layers.0.self_attn.k_norm.weight");
  lacks("gpt_neox", "gpt_neox.layers.0.attention.query_key_value.bias");
  const auto holds = [](const std::string& name, const Tensor& tensor, const std::string& words) {
    AlteredFamily("llama").tensors([&](Tensors& t) { t[name] = tensor; }).refused("TENSOR", words);
  };
  holds(q, at::zeros({4, 16}), q);
  holds(q, at::zeros({16, 16}, at::kInt), "but is I32");
  holds("model.layers.0.self_attn.q_norm.weight", at::ones({4}), "has no \"model.layers.0.self_attn.q_norm.weight\"");
  const auto says = [](const char* key, const json& value, const char* words) {
    AlteredFamily("llama").config([&](json& c) { c[key] = value; }).refused("TENSOR", words);
  };
  says("num_hidden_layers", 1, "model.layers.1.");
  says("num_hidden_layers", 3, "model.layers.2.");
  says("attention_bias", false, "_proj.bias");
  says("intermediate_size", 25, "gate_proj.weight");
  // A model of these sizes would not fit into memory: the contradiction in the file is found before.
  says("vocab_size", 1'000'000'000'000, "embed_tokens.weight");
  says("hidden_size", 1 << 30, "embed_tokens.weight");
  says("intermediate_size", 1'000'000'000'000, "layers.0.mlp.gate_proj.weight");
  says("head_dim", 16384, "layers.0.self_attn.q_proj.weight");
  says("num_hidden_layers", 10000, "layers.9999.input_layernorm.weight");
}

TEST(HostileCheckpoint, AForeignHeadIsAWarningAndBuffersAreNothing) {
  LoadedDecoder loaded = AlteredFamily("llama")
                             .tensors([](Tensors& t) {
                               t["score.weight"] = at::ones({2, 16});
                               t["model.layers.0.self_attn.rotary_emb.inv_freq"] = at::ones({2});
                               t["model.embed_positions.weight"] = at::ones({2});
                               t["position_ids"] = at::ones({2});
                             })
                             .loaded();
  ASSERT_EQ(loaded.warnings.size(), 1U);
  EXPECT_NE(loaded.warnings[0].find("score.weight"), std::string::npos);
  EXPECT_TRUE(loaded.has_head);
  AlteredFamily trunk("llama");
  trunk.config([](json& c) { c["architectures"] = {"LlamaModel"}; }).tensors([](Tensors& t) {
    Tensors base;
    for (const auto& [name, tensor] : t) {
      if (name.starts_with("model.")) base[name.substr(6)] = tensor;
    }
    t = base;
  });
  EXPECT_FALSE(trunk.loaded().has_head);
  trunk.tensors([](Tensors& t) { t["layers.0.mlp.gate_proj.bias"] = at::ones({20}); })
      .refused("TENSOR", "layers.0.mlp.gate_proj.bias");
}

TEST(HostileCheckpoint, ATiedHeadThatDiffersIsUsed) {
  const at::NoGradGuard no_grad;
  LoadedDecoder untied = AlteredFamily("llama").config([](json& c) { c["tie_word_embeddings"] = true; }).loaded();
  ASSERT_EQ(untied.warnings.size(), 1U);
  const Tensors answers = read_all(golden / "llama/answers.safetensors");
  EXPECT_LT(difference(untied.model->forward(answers.at("ids")), answers.at("logits")), 2e-5);
}

TEST(HostileCheckpoint, ConfigsThatCannotBeHonouredAreRefused) {
  const auto refused = [](const char* family, const char* code, const char* words, const char* key, json value) {
    AlteredFamily(family).config([&](json& c) { c[key] = value; }).refused(code, words);
  };
  refused("llama", "MODEL_TYPE", "but got \"gpt2\"", "model_type", "gpt2");
  refused("llama", "MODEL_TYPE", "but got none", "model_type", nullptr);
  refused("llama", "CONFIG_VALUE", "hidden_act", "hidden_act", "prelu");
  refused("llama", "CONFIG_VALUE", "quantization_config", "quantization_config", {{"quant_method", "gptq"}});
  refused("llama", "CONFIG_VALUE", "num_key_value_heads", "num_key_value_heads", "two");
  refused("llama", "CONFIG_VALUE", "num_key_value_heads must divide", "num_key_value_heads", 3);
  refused("llama", "CONFIG_VALUE", "rms_norm_eps", "rms_norm_eps", "small");
  refused("llama", "CONFIG_VALUE", "is_causal", "is_causal", false);
  refused("llama", "CONFIG_KEY", "rope_magic", "rope_magic", 1);
  refused("mistral", "CONFIG_VALUE", "sliding_window", "sliding_window", 0);
  refused("qwen2", "CONFIG_VALUE", "layer_types", "layer_types", {"full_attention"});
  refused("qwen2", "CONFIG_VALUE", "layer_types", "layer_types", {"full_attention", "chunked_attention"});
  refused("qwen2", "ROPE", "layer 1 does not", "layer_types", {"full_attention", "linear_attention"});
  refused("gptj", "CONFIG_VALUE", "activation_function", "activation_function", "gelu_newer");
  refused("gpt_neox", "CONFIG_VALUE", "hidden_act", "hidden_act", 7);
}

TEST(HostileCheckpoint, FoldersAndShardsThatLieAreRefused) {
  const auto shard = [](const char* file) {
    return [file](json& index) { index["weight_map"]["model.norm.weight"] = file; };
  };
  AlteredFamily("mistral").index(shard("../model.safetensors")).refused("FORMAT", "files beside the index");
  AlteredFamily("mistral").index(shard("absent.safetensors")).refused("FILE", "absent.safetensors");
  AlteredFamily nothing("llama");
  fs::remove(nothing / "model.safetensors");
  nothing.refused("FILE", "has neither");
  write_text(nothing / "pytorch_model.bin", "");
  nothing.refused("FILE", "save it as safetensors");
  write_text(nothing / "model.safetensors", "12345");
  nothing.refused("FORMAT", "");
  fs::remove(nothing / "config.json");
  nothing.refused("FILE", "config.json");
}

}  // namespace
}  // namespace rotary_torch
