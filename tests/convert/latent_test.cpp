// Latent attention, keys of the config, and keys that serve as values.
#include "families.h"

namespace rotary::convert_tests {
namespace {

const std::string mla =
    R"({"model_type": "deepseek_v3", "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 4,
  "num_hidden_layers": 1, "kv_lora_rank": 6, "q_lora_rank": 10, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4,
  "v_head_dim": 8, "max_position_embeddings": 64, "num_nextn_predict_layers": 1, "rope_theta": 10000)";

std::vector<Tensor> latent(const std::string& at) {
  return {rows(at + "q_a_proj.weight", 10),        vector(at + "q_a_layernorm.weight", 10),
          rows(at + "q_b_proj.weight", 48, 10),    rows(at + "kv_a_proj_with_mqa.weight", 10),
          vector(at + "kv_a_layernorm.weight", 6), rows(at + "kv_b_proj.weight", 64, 6),
          rows(at + "o_proj.weight", 32)};
}

TEST_F(Families, latent_attention_rotates_the_last_rows_and_its_config_says_the_pairing) {
  Family family{.name = "deepseek",
                .config = mla + "\n}\n",
                .tensors = latent("model.layers.0.self_attn."),
                .heads = {},
                .head_dim = 12,
                .first = 8,
                .pairs = 2,
                .native = Pairing::interleaved};
  for (Tensor& tensor : latent("model.layers.1.self_attn.")) family.tensors.push_back(tensor);  // it drafts tokens
  for (const char* layer : {"0", "1"}) {
    const std::string at = std::string("model.layers.") + layer + ".self_attn.";
    family.heads.push_back(plain(at + "q_b_proj.weight", 4, 12));
    family.heads.push_back({1, [=](int, int d) { return Place{at + "kv_a_proj_with_mqa.weight", 6 - 8 + d}; }});
  }
  expect_converts(family);
  const std::string converted = read_text(path("deepseek-2") / "config.json");
  EXPECT_EQ(converted, mla + ", \"rope_interleave\": false\n}\n");
  EXPECT_EQ(read_config(path("deepseek-2")).ropes.front().rope.pairing, Pairing::half);
}

TEST_F(Families, the_checkpoints_own_code_may_not_read_the_key) {
  const std::string own_code =
      mla + R"(, "auto_map": {"AutoModelForCausalLM": "modeling_deepseek.DeepseekV3ForCausalLM"})";
  const std::vector<Tensor> tensors = latent("model.layers.0.self_attn.");
  const auto notes = [&](const std::string& name, const std::string& config, Pairing to) {
    return convert::make_plan(make(name, config, tensors), to, std::nullopt).notes;
  };
  ASSERT_EQ(notes("own", own_code + "}", Pairing::half).size(), 1U);
  EXPECT_NE(notes("own", own_code + "}", Pairing::half)[0].find("(auto_map)"), std::string::npos);
  EXPECT_TRUE(notes("said", own_code + ", \"rope_interleave\": true}", Pairing::half).empty());
  EXPECT_TRUE(notes("back", own_code + ", \"rope_interleave\": false}", Pairing::interleaved).empty());
  EXPECT_TRUE(notes("plain", mla + "}", Pairing::half).empty());
}

TEST_F(Families, queries_with_a_gate_as_wide_as_a_value) {
  const std::string at = "model.layers.0.self_attn.";
  Family family{.name = "axk2",
                .config = mla + "\n}\n",
                .tensors = {rows(at + "q_b_proj.weight", 80, 20), rows(at + "kv_a_proj_with_mqa.weight", 10)},
                .heads = {},
                .head_dim = 12,
                .first = 8,
                .pairs = 2,
                .native = Pairing::interleaved};
  family.config.replace(family.config.find("deepseek_v3"), 11, "axk2");
  family.heads = {plain(at + "q_b_proj.weight", 4, 20), {1, [=](int, int d) {
                                                           return Place{at + "kv_a_proj_with_mqa.weight", 6 - 8 + d};
                                                         }}};
  expect_converts(family);
}

TEST_F(Families, latent_attention_in_the_native_names_of_mistral) {
  const std::string at = "layers.0.attention.";
  Family family{.name = "mistral-large-3",
                .config = R"({"dim": 12, "n_layers": 1, "n_heads": 4, "n_kv_heads": 4, "head_dim": 8, "hidden_dim": 16,
 "vocab_size": 8, "norm_eps": 1e-6, "rope_theta": 10000.0, "q_lora_rank": 10, "qk_nope_head_dim": 8,
 "qk_rope_head_dim": 4, "kv_lora_rank": 6, "v_head_dim": 8})",
                .tensors = {rows(at + "wq_a.weight", 10), vector(at + "q_a_norm.weight", 10),
                            rows(at + "wq_b.weight", 48, 10), rows(at + "wkv_a_with_mqa.weight", 10),
                            vector(at + "kv_a_norm.weight", 6), rows(at + "wkv_b.weight", 64, 6)},
                .heads = {},
                .head_dim = 12,
                .first = 8,
                .pairs = 2,
                .native = Pairing::interleaved};
  family.heads = {plain(at + "wq_b.weight", 4, 12), {1, [=](int, int d) {
                                                       return Place{at + "wkv_a_with_mqa.weight", 6 - 8 + d};
                                                     }}};
  expect_converts(family);
}

TEST_F(Families, keys_that_serve_as_values) {
  const std::string at = "model.layers.0.self_attn.";
  const fs::path source =
      make("gemma4_text",
           R"({"model_type": "gemma4_text", "layer_types": ["full_attention"], "hidden_size": 12,
 "num_attention_heads": 4, "num_key_value_heads": 2, "num_global_key_value_heads": 2, "global_head_dim": 8,
 "head_dim": 8, "num_hidden_layers": 1, "attention_k_eq_v": true})",
           {rows(at + "q_proj.weight", 32), rows(at + "k_proj.weight", 16), rows(at + "o_proj.weight", 12, 32),
            vector(at + "q_norm.weight", 8), vector(at + "k_norm.weight", 8)});
  convert(source, Pairing::interleaved, path("gemma4_text-2"));
  const std::vector<float> before = test::values_of(tensors_in(source).at(at + "o_proj.weight"));
  const std::vector<float> after = test::values_of(tensors_in(path("gemma4_text-2")).at(at + "o_proj.weight"));
  for (std::size_t row = 0; row < 12; ++row) {
    for (std::size_t c = 0; c < 32; ++c)
      EXPECT_EQ(after[row * 32 + c], before[row * 32 + c / 8 * 8 + c % 8 / 2 + c % 2 * 4]);
  }
  convert(path("gemma4_text-2"), Pairing::half, path("gemma4_text-3"));
  expect_same_files(source, path("gemma4_text-3"));
}

TEST_F(Families, a_key_that_is_null_means_half_and_comes_back) {
  const std::string config = mla + R"(, "rope_interleave": null})";
  const fs::path source = make("null", config, latent("model.layers.0.self_attn."));
  convert(source, Pairing::interleaved, path("null-2"));
  EXPECT_EQ(read_text(path("null-2") / "config.json"), mla + R"(, "rope_interleave": true})");
  convert(path("null-2"), Pairing::half, path("null-3"));
  expect_same_files(source, path("null-3"));
}

TEST_F(Families, the_indexer_of_glm_rotates_as_its_attention_does) {
  const std::string at = "model.layers.0.self_attn.";
  Family family{.name = "glm_moe_dsa",
                .config = mla + R"(, "index_n_heads": 2, "index_head_dim": 6, "indexer_rope_interleave": true})",
                .tensors = latent(at),
                .heads = {plain(at + "q_b_proj.weight", 4, 12)},
                .head_dim = 12,
                .first = 8,
                .pairs = 2,
                .native = Pairing::interleaved};
  family.config.replace(family.config.find("deepseek_v3"), 11, "glm_moe_dsa");
  family.heads.push_back({1, [=](int, int d) { return Place{at + "kv_a_proj_with_mqa.weight", 6 - 8 + d}; }});
  family.tensors.push_back(rows(at + "indexer.wq_b.weight", 12, 10));
  family.tensors.push_back(rows(at + "indexer.wk.weight", 6));
  family.tensors.push_back(vector(at + "indexer.k_norm.weight", 6));
  family.tensors.push_back(vector(at + "indexer.k_norm.bias", 6));
  family.tensors.push_back(rows(at + "indexer.weights_proj.weight", 2));
  family.heads.push_back({2, [=](int h, int d) { return Place{at + "indexer.wq_b.weight", 6 * h - 8 + d}; }});
  for (const char* name : {"wk.weight", "k_norm.weight", "k_norm.bias"})
    family.heads.push_back({1, [=](int, int d) { return Place{at + "indexer." + name, d - 8}; }});
  expect_converts(family);
  EXPECT_NE(read_text(path("glm_moe_dsa-2") / "config.json").find(R"("indexer_rope_interleave": false)"),
            std::string::npos);
}

TEST_F(Families, the_key_of_the_indexer_is_turned_over_where_the_indexer_is) {
  const std::string at = "model.layers.0.self_attn.";
  std::vector<Tensor> tensors = latent(at);
  tensors.push_back(rows(at + "indexer.wq_b.weight", 12, 10));
  tensors.push_back(rows(at + "indexer.wk.weight", 6));
  const auto glm = [](const std::string& keys) {
    std::string config = mla + R"(, "index_n_heads": 2, "index_head_dim": 6, )" + keys + "}";
    return config.replace(config.find("deepseek_v3"), 11, "glm_moe_dsa");
  };
  const auto there_and_back = [&](const std::string& name, const std::string& config, const std::string& wanted) {
    SCOPED_TRACE(name);
    const fs::path source = make(name, config, tensors);
    convert(source, Pairing::half, path(name + "-2"));
    EXPECT_EQ(read_text(path(name + "-2") / "config.json"), wanted);
    convert(path(name + "-2"), Pairing::interleaved, path(name + "-3"));
    expect_same_files(source, path(name + "-3"));
    return tensors_in(path(name + "-2")).at(at + "indexer.wk.weight").data != tensors.back().data;
  };
  EXPECT_TRUE(there_and_back("both", glm(R"("rope_interleave": true, "indexer_rope_interleave": true)"),
                             glm(R"("rope_interleave": true, "indexer_rope_interleave": false)")));
  // The indexer has a pairing of its own: it stays.
  const std::string own = glm(R"("indexer_rope_interleave": false)");
  EXPECT_FALSE(there_and_back("own", own, own));
}

TEST_F(Families, a_key_that_is_there_is_turned_over_in_its_place) {
  const std::string config = mla + R"(, "rope_interleave": true, "tie_word_embeddings": false})";
  const fs::path source = make("keyed", config, latent("model.layers.0.self_attn."));
  convert(source, Pairing::half, path("keyed-2"));
  EXPECT_EQ(read_text(path("keyed-2") / "config.json"),
            mla + R"(, "rope_interleave": false, "tie_word_embeddings": false})");
  convert(path("keyed-2"), Pairing::interleaved, path("keyed-3"));
  expect_same_files(source, path("keyed-3"));
}

TEST_F(Families, keys_of_remote_code_are_turned_over_where_they_are_there) {
  const std::string name = "encoder.layers.0.attn.Wqkv.weight";
  const auto nomic = [&](const std::string& which, const std::string& more) {
    return Family{.name = which,
                  .config = R"({"model_type": "nomic_bert", )" + llama + more + "}",
                  .tensors = {rows(name, 96)},
                  .heads = {plain(name, 8, 8)},
                  .head_dim = 8,
                  .first = 0,
                  .pairs = 4};
  };
  Family with_key = nomic("nomic-key", R"(, "rotary_emb_interleaved": false)");
  for (Family family : {with_key, nomic("nomic", "")}) {
    family.config.replace(family.config.find(R"("num_key_value_heads": 2, )"), 26, "");
    expect_converts(family);
    const std::string converted = read_text(path(family.name + "-2") / "config.json");
    EXPECT_EQ(converted.find("\"rotary_emb_interleaved\": true") != std::string::npos, family.name == "nomic-key");
  }
  EXPECT_EQ(read_config(path("nomic-key-2")).ropes.front().rope.pairing, Pairing::interleaved);
}

}  // namespace
}  // namespace rotary::convert_tests
