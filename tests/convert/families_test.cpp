// Checkpoints of many families, read back as the models' own code reads them: the elements of each head after the
// conversion are those before it in the other order.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "folder.h"

namespace rotary::convert_tests {
namespace {

// Where element d of a head lies: the tensor, and its row.
using Place = std::pair<std::string, std::int64_t>;

struct Heads {
  int count = 0;
  std::function<Place(int head, int element)> at;
};

struct Family {
  std::string name;
  std::string config;
  std::vector<Tensor> tensors;
  std::vector<Heads> heads;  // those that rotate
  int head_dim = 0;
  int first = 0;
  int pairs = 0;
  Pairing native = Pairing::half;
};

const std::byte* row_of(const Tensors& tensors, const Place& place, std::size_t& bytes) {
  const Tensor& tensor = tensors.at(place.first);
  bytes = tensor.data.size() / static_cast<std::size_t>(tensor.shape[0]);
  return tensor.data.data() + static_cast<std::size_t>(place.second) * bytes;
}

void expect_same_row(const Tensors& a, const Place& of_a, const Tensors& b, const Place& of_b) {
  std::size_t bytes = 0;
  const std::byte* row_a = row_of(a, of_a, bytes);
  const std::byte* row_b = row_of(b, of_b, bytes);
  EXPECT_EQ(std::memcmp(row_a, row_b, bytes), 0) << of_a.first << " row " << of_a.second << " and " << of_b.second;
}

Place shifted(const Heads& heads, int head, int element) { return heads.at(head, element); }

class Families : public Checkpoint {
 protected:
  void expect_converts(const Family& family) {
    SCOPED_TRACE(family.name);
    const fs::path source = make(family.name, family.config, family.tensors);
    const Pairing other = family.native == Pairing::half ? Pairing::interleaved : Pairing::half;
    const convert::Plan plan = convert::make_plan(source, other, std::nullopt);
    std::vector<convert::LayerCheck> checks;
    convert::write_folder(
        plan, path(family.name + "-2"), [](std::uint64_t) {},
        [&](const fs::path& written) { checks = convert::verify(plan, written, nullptr); });
    EXPECT_FALSE(checks.empty());
    for (const convert::LayerCheck& check : checks) {
      EXPECT_EQ(check.largest_difference, 0) << check.layer;
      EXPECT_GT(check.difference_unconverted, 0) << check.layer;
    }
    const Tensors before = tensors_in(source), after = tensors_in(path(family.name + "-2"));
    expect_heads(family, family.native == Pairing::half ? before : after,
                 family.native == Pairing::half ? after : before);
    expect_rest(family, before, after);
    convert(path(family.name + "-2"), family.native, path(family.name + "-3"));
    expect_same_files(source, path(family.name + "-3"));
  }

 private:
  static void expect_heads(const Family& family, const Tensors& half, const Tensors& interleaved) {
    for (const Heads& heads : family.heads) {
      for (int h = 0; h < heads.count; ++h) {
        for (int j = 0; j < family.pairs; ++j) {
          const int first = family.first;
          expect_same_row(half, shifted(heads, h, first + j), interleaved, shifted(heads, h, first + 2 * j));
          expect_same_row(half, shifted(heads, h, first + family.pairs + j), interleaved,
                          shifted(heads, h, first + 2 * j + 1));
        }
      }
    }
  }

  // Rows that belong to no rotated element keep their bytes.
  static void expect_rest(const Family& family, const Tensors& before, const Tensors& after) {
    std::map<std::string, std::vector<bool>> rotated;
    for (const Heads& heads : family.heads) {
      for (int h = 0; h < heads.count; ++h) {
        for (int d = family.first; d < family.first + 2 * family.pairs; ++d) {
          const Place place = heads.at(h, d);
          std::vector<bool>& rows = rotated[place.first];
          rows.resize(static_cast<std::size_t>(before.at(place.first).shape[0]));
          rows[static_cast<std::size_t>(place.second)] = true;
        }
      }
    }
    ASSERT_EQ(before.size(), after.size());
    for (const auto& [name, tensor] : before) {
      const std::vector<bool>& rows = rotated[name];
      for (std::int64_t row = 0; row < tensor.shape[0]; ++row) {
        const bool moves = !rows.empty() && rows[static_cast<std::size_t>(row)];
        if (!moves) expect_same_row(before, {name, row}, after, {name, row});
      }
    }
  }
};

Tensor rows(const std::string& name, std::int64_t count, std::int64_t in = 12) {
  return some_tensor(name, ElementType::f32, {count, in});
}
Tensor vector(const std::string& name, std::int64_t count) { return some_tensor(name, ElementType::f32, {count}); }

Heads plain(const std::string& name, int count, int stride) {
  return {count, [=](int head, int d) { return Place{name, head * stride + d}; }};
}
// One weight for every head.
Heads shared(const std::string& name) {
  return {1, [=](int, int d) { return Place{name, d}; }};
}

const std::string llama =
    R"("hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "num_hidden_layers": 1,
 "intermediate_size": 16, "max_position_embeddings": 64, "rope_theta": 10000.0, "vocab_size": 8)";

TEST_F(Families, weights_biases_and_norms_of_every_kind) {
  const std::string at = "model.layers.0.self_attn.";
  Family family{.name = "qwen3",
                .config = R"({"model_type": "qwen3", )" + llama + "}",
                .tensors = {},
                .heads = {},
                .head_dim = 8,
                .first = 0,
                .pairs = 4};
  family.tensors = {rows(at + "q_proj.weight", 32),
                    vector(at + "q_proj.bias", 32),
                    rows(at + "k_proj.weight", 16),
                    vector(at + "k_proj.bias", 16),
                    rows(at + "v_proj.weight", 16),
                    vector(at + "v_proj.bias", 16),
                    rows(at + "o_proj.weight", 12),
                    vector(at + "q_norm.weight", 8),
                    vector(at + "k_norm.weight", 8),
                    rows("model.embed_tokens.weight", 8),
                    rows("model.layers.0.mlp.up_proj.weight", 16)};
  family.heads = {plain(at + "q_proj.weight", 4, 8), plain(at + "q_proj.bias", 4, 8), plain(at + "k_proj.weight", 2, 8),
                  plain(at + "k_proj.bias", 2, 8),   shared(at + "q_norm.weight"),    shared(at + "k_norm.weight")};
  expect_converts(family);
}

TEST_F(Families, norms_across_heads) {
  const std::string at = "model.layers.0.self_attn.";
  Family family{.name = "olmo2",
                .config = R"({"model_type": "olmo2", )" + llama + "}",
                .tensors = {},
                .heads = {},
                .head_dim = 8,
                .first = 0,
                .pairs = 4};
  family.tensors = {rows(at + "q_proj.weight", 32), rows(at + "k_proj.weight", 16), rows(at + "v_proj.weight", 16),
                    vector(at + "q_norm.weight", 32), vector(at + "k_norm.weight", 16)};
  family.heads = {plain(at + "q_proj.weight", 4, 8), plain(at + "k_proj.weight", 2, 8),
                  plain(at + "q_norm.weight", 4, 8), plain(at + "k_norm.weight", 2, 8)};
  expect_converts(family);
}

TEST_F(Families, gated_queries) {
  const std::string at = "model.layers.0.self_attn.";
  Family family{.name = "qwen3_next",
                .config = R"({"model_type": "qwen3_next", "layer_types": ["full_attention"],
 "partial_rotary_factor": 0.5, )" +
                          llama + "}",
                .tensors = {},
                .heads = {},
                .head_dim = 8,
                .first = 0,
                .pairs = 2};
  family.tensors = {rows(at + "q_proj.weight", 64), rows(at + "k_proj.weight", 16), rows(at + "v_proj.weight", 16),
                    vector(at + "q_norm.weight", 8), vector(at + "k_norm.weight", 8)};
  family.heads = {plain(at + "q_proj.weight", 4, 16), plain(at + "k_proj.weight", 2, 8), shared(at + "q_norm.weight"),
                  shared(at + "k_norm.weight")};
  expect_converts(family);
}

TEST_F(Families, phi3_joins_q_k_and_v) {
  const std::string name = "model.layers.0.self_attn.qkv_proj.weight";
  Family family{.name = "phi3",
                .config = R"({"model_type": "phi3", )" + llama + "}",
                .tensors = {rows(name, 64)},
                .heads = {},
                .head_dim = 8,
                .first = 0,
                .pairs = 4};
  family.heads = {plain(name, 4, 8), {2, [=](int h, int d) { return Place{name, 32 + 8 * h + d}; }}};
  expect_converts(family);
}

TEST_F(Families, gpt_neox_has_q_k_v_head_by_head_and_rotates_a_part) {
  const std::string at = "gpt_neox.layers.0.attention.query_key_value.";
  Family family{.name = "gpt_neox",
                .config = R"({"model_type": "gpt_neox", "hidden_size": 32, "num_attention_heads": 4, "rotary_pct": 0.5,
 "num_hidden_layers": 1, "max_position_embeddings": 64, "rotary_emb_base": 10000})",
                .tensors = {rows(at + "weight", 96), vector(at + "bias", 96),
                            vector("gpt_neox.layers.0.attention.rotary_emb.inv_freq", 2)},
                .heads = {},
                .head_dim = 8,
                .first = 0,
                .pairs = 2};
  for (const char* suffix : {"weight", "bias"}) {
    for (const int part : {0, 1})
      family.heads.push_back({4, [=](int h, int d) { return Place{at + suffix, (3 * h + part) * 8 + d}; }});
  }
  expect_converts(family);
}

TEST_F(Families, codegen_has_four_parts_of_q_v_k) {
  const std::string name = "transformer.h.0.attn.qkv_proj.weight";
  Family family{.name = "codegen",
                .config = R"({"model_type": "codegen", "n_embd": 64, "n_head": 8, "n_layer": 1, "rotary_dim": 4,
 "n_positions": 64})",
                .tensors = {rows(name, 192)},
                .heads = {},
                .head_dim = 8,
                .first = 0,
                .pairs = 2,
                .native = Pairing::interleaved};
  for (const int part : {0, 2})  // view(4, 3, 2 heads, 8)
    family.heads.push_back({8, [=](int h, int d) { return Place{name, ((h / 2 * 3 + part) * 2 + h % 2) * 8 + d}; }});
  expect_converts(family);
}

TEST_F(Families, falcon_has_three_orders) {
  const std::string name = "transformer.h.0.self_attention.query_key_value.weight";
  const auto falcon = [&](const std::string& which, const std::string& keys, std::int64_t count) {
    return Family{.name = which,
                  .config = R"({"model_type": "falcon", "hidden_size": 32, "num_attention_heads": 4,
 "num_hidden_layers": 1, "alibi": false, )" +
                            keys + "}",
                  .tensors = {rows(name, count)},
                  .heads = {},
                  .head_dim = 8,
                  .first = 0,
                  .pairs = 4};
  };
  Family groups = falcon("falcon-40b", R"("new_decoder_architecture": true, "num_kv_heads": 2)", 64);
  groups.heads = {{4,
                   [=](int h, int d) {
                     return Place{name, (h / 2 * 4 + h % 2) * 8 + d};
                   }},
                  {2, [=](int k, int d) {
                     return Place{name, (k * 4 + 2) * 8 + d};
                   }}};
  expect_converts(groups);
  Family one_key = falcon("falcon-7b", R"("multi_query": true)", 48);
  one_key.heads = {plain(name, 4, 8), {1, [=](int, int d) { return Place{name, 32 + d}; }}};
  expect_converts(one_key);
  Family by_head = falcon("falcon-rw", R"("multi_query": false)", 96);
  for (const int part : {0, 1})
    by_head.heads.push_back({4, [=](int h, int d) { return Place{name, (3 * h + part) * 8 + d}; }});
  expect_converts(by_head);
}

TEST_F(Families, internlm2_has_groups) {
  const std::string name = "model.layers.0.attention.wqkv.weight";
  Family family{.name = "internlm2",
                .config = R"({"model_type": "internlm2", )" + llama + "}",
                .tensors = {rows(name, 64)},
                .heads = {},
                .head_dim = 8,
                .first = 0,
                .pairs = 4};
  family.heads = {{4,
                   [=](int h, int d) {
                     return Place{name, (h / 2 * 4 + h % 2) * 8 + d};
                   }},
                  {2, [=](int k, int d) {
                     return Place{name, (k * 4 + 2) * 8 + d};
                   }}};
  expect_converts(family);
}

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

TEST_F(Families, layers_that_draft_have_the_rope_whose_heads_they_have) {
  const std::string main = "model.layers.0.self_attn.", draft = "model.mtp.layers.0.self_attn.";
  Family family{.name = "gemma3_text",
                .config = R"({"model_type": "gemma3_text", "layer_types": ["sliding_attention", "full_attention"],
 "rope_local_base_freq": 500.0, )" +
                          llama + "}",
                .tensors = {},
                .heads = {},
                .head_dim = 8,
                .first = 0,
                .pairs = 4};
  family.config.replace(family.config.find(R"("num_hidden_layers": 1)"), 22, R"("num_hidden_layers": 2)");
  for (const std::string& at : {main, std::string("model.layers.1.self_attn."), draft}) {
    for (const auto& [name, count] : {std::pair("q_proj.weight", 32), {"k_proj.weight", 16}, {"v_proj.weight", 16}})
      family.tensors.push_back(rows(at + name, count));
    family.heads.push_back(plain(at + "q_proj.weight", 4, 8));
    family.heads.push_back(plain(at + "k_proj.weight", 2, 8));
  }
  expect_converts(family);
  for (Tensor& tensor : family.tensors) {
    if (tensor.name == draft + "k_proj.weight") tensor = rows(tensor.name, 24);
  }
  const fs::path other = make("other_heads", family.config, family.tensors);
  expect_error("SHAPE", "those of one of the config's ropes", [&] { convert(other, Pairing::interleaved, path("x")); });
}

// Values that are keys give the columns of the output's projection their order.
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

TEST_F(Families, layers_without_rope_stay) {
  Family family{.name = "smollm3",
                .config = R"({"model_type": "smollm3", "no_rope_layers": [1, 0], "hidden_size": 32,
 "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "max_position_embeddings": 64,
 "rope_theta": 10000.0})",
                .tensors = {},
                .heads = {},
                .head_dim = 8,
                .first = 0,
                .pairs = 4};
  for (const std::string at : {"model.layers.0.self_attn.", "model.layers.1.self_attn."}) {
    for (const auto& [name, count] : {std::pair("q_proj.weight", 32), {"k_proj.weight", 16}, {"v_proj.weight", 16}})
      family.tensors.push_back(rows(at + name, count));
  }
  family.heads = {plain("model.layers.0.self_attn.q_proj.weight", 4, 8),
                  plain("model.layers.0.self_attn.k_proj.weight", 2, 8)};
  expect_converts(family);
}

TEST_F(Families, a_text_model_beside_a_tower) {
  const std::string at = "model.language_model.layers.0.self_attn.";
  Family family{
      .name = "qwen2_vl",
      .config = R"({"model_type": "qwen2_vl", "text_config": {"model_type": "qwen2_vl_text",
 "rope_scaling": {"type": "mrope", "mrope_section": [1, 1, 2]}, )" +
                llama +
                R"(}, "vision_config": {"model_type": "qwen2_vl", "depth": 1, "embed_dim": 16, "num_heads": 2}})",
      .tensors = {rows(at + "q_proj.weight", 32), rows(at + "k_proj.weight", 16), rows(at + "v_proj.weight", 16),
                  rows("model.visual.blocks.0.attn.qkv.weight", 48)},
      .heads = {plain(at + "q_proj.weight", 4, 8), plain(at + "k_proj.weight", 2, 8)},
      .head_dim = 8,
      .first = 0,
      .pairs = 4};
  expect_converts(family);
}

}  // namespace
}  // namespace rotary::convert_tests
