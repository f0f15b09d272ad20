// The orders of projections, norms and layers.
#include "families.h"

namespace rotary::convert_tests {
namespace {

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

TEST_F(Families, tensors_without_elements_stay) {
  const std::string at = "model.layers.0.self_attn.";
  const fs::path source = make("empty", R"({"model_type": "llama", )" + llama + "}",
                               {rows(at + "q_proj.weight", 32), rows(at + "q_proj.lora_B.weight", 32, 0),
                                rows(at + "k_proj.weight", 16, 0), rows(at + "v_proj.weight", 16)});
  const convert::Plan plan = convert::make_plan(source, Pairing::interleaved, std::nullopt);
  ASSERT_EQ(plan.tensors.size(), 1U);
  convert(source, Pairing::interleaved, path("empty-2"));
  EXPECT_EQ(convert::verify(plan, path("empty-2"), nullptr).front().largest_difference, 0);
  convert(path("empty-2"), Pairing::half, path("empty-3"));
  expect_same_files(source, path("empty-3"));
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
