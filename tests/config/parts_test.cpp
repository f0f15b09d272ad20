// read_config, several ropes: layer types, layers without a rope, MLA, M-RoPE, vision towers, params.json.
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/config_helpers.h"

namespace rotary {
namespace {

using namespace config_test;

// ---- layer types ----

TEST(Config, gemma3_has_two_bases_and_scales_its_full_layers_only) {
  const std::string scaling = R"("rope_scaling": {"factor": 8.0, "rope_type": "linear"})";
  const Model m = read("gemma3_text", R"("rope_theta": 1000000, "rope_local_base_freq": 11000, )" + scaling, 12);
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[0].layers, (Layers{0, 1, 2, 3, 4, 6, 7, 8, 9, 10}));
  EXPECT_EQ(m.ropes[0].rope.base, 11000);
  EXPECT_STREQ(name(m.ropes[0].rope.scaling), "default");
  EXPECT_EQ(m.ropes[1].layers, (Layers{5, 11}));
  EXPECT_EQ(m.ropes[1].rope.base, 1000000);
  EXPECT_STREQ(name(m.ropes[1].rope.scaling), "linear");
  EXPECT_TRUE(m.ropes[1].layers_without_rope.empty());
}

TEST(Config, rope_parameters_per_layer_type_are_one_rope_each) {
  const Model m = read("gemma3_text", R"("layer_types": ["full_attention", "sliding_attention", "full_attention"],
    "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 2000000.0},
                        "sliding_attention": {"rope_type": "default", "rope_theta": 12000.0}})",
                       3);
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[0].layers, (Layers{0, 2}));
  EXPECT_EQ(m.ropes[0].rope.base, 2000000);
  EXPECT_EQ(m.ropes[1].layers, (Layers{1}));
  EXPECT_EQ(m.ropes[1].rope.base, 12000);
}

TEST(Config, a_layer_type_that_is_null_has_no_rope) {
  const Model m = read("beam", R"("layer_types": ["sliding_attention", "full_attention"], "rope_parameters":
    {"sliding_attention": {"rope_type": "default", "rope_theta": 20000.0}, "full_attention": null})",
                       2);
  EXPECT_EQ(only(m).layers, (Layers{0}));
  EXPECT_EQ(only(m).layers_without_rope, (Layers{1}));
}

TEST(Config, layer_types_with_equal_ropes_are_one_rope) {
  EXPECT_EQ(only(read("olmo3", R"("rope_theta": 500000)")).layers, (Layers{0, 1, 2, 3}));
}

TEST(Config, modernbert_reads_its_two_bases_and_not_rope_theta) {
  const Model m =
      read("modernbert", R"("global_rope_theta": 150000.0, "local_rope_theta": 9000.0, "rope_theta": 7.0)", 4);
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[0].layers, (Layers{0, 3}));
  EXPECT_EQ(m.ropes[0].rope.base, 150000);
  EXPECT_EQ(m.ropes[1].rope.base, 9000);
}

TEST(Config, no_rope_layers_says_one_for_a_rope) {
  const Model listed = read("smollm3", R"("no_rope_layers": [1, 0, 1, 1])");
  EXPECT_EQ(only(listed).layers, (Layers{0, 2, 3}));
  EXPECT_EQ(only(listed).layers_without_rope, (Layers{1}));
  const Model interval = read("smollm3", R"("no_rope_layer_interval": 2)");
  EXPECT_EQ(only(interval).layers, (Layers{0, 2}));
  EXPECT_EQ(only(read("smollm3", "")).layers, (Layers{0, 1, 2}));
  EXPECT_EQ(code_of(model("smollm3", R"("no_rope_layers": [1, 0])")), "CONFIG_VALUE");
}

TEST(Config, cohere2_turns_its_sliding_layers_only) {
  const Model m = read("cohere2", R"("sliding_window_pattern": 4)", 8);
  EXPECT_EQ(only(m).layers, (Layers{0, 1, 2, 4, 5, 6}));
  EXPECT_EQ(only(m).layers_without_rope, (Layers{3, 7}));
  EXPECT_EQ(only(m).rope.pairing, Pairing::interleaved);
}

TEST(Config, exaone4_turns_all_layers_where_nothing_slides) {
  EXPECT_EQ(only(read("exaone4", R"("sliding_window": 4096)")).layers, (Layers{0, 1, 2}));
  EXPECT_EQ(only(read("exaone4", R"("sliding_window": null)")).layers, (Layers{0, 1, 2, 3}));
}

TEST(Config, layer_rope_theta_gives_each_layer_its_base_and_zero_means_none) {
  const Model m = read("granite_swa", R"("layer_rope_theta": [10000.0, 0, 500.0, 10000.0])");
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[0].layers, (Layers{0, 3}));
  EXPECT_EQ(m.ropes[1].layers, (Layers{2}));
  EXPECT_EQ(m.ropes[1].rope.base, 500);
  EXPECT_EQ(m.ropes[0].layers_without_rope, (Layers{1}));
}

TEST(Config, step_reads_lists_of_bases_and_of_partial_factors) {
  const Model m = read("step3p5", R"("layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
    "rope_theta": [5000000.0, 10000.0, 10000.0], "partial_rotary_factors": [0.5, 1.0, 1.0])",
                       3);
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[0].rope.base, 5000000);
  EXPECT_EQ(m.ropes[0].rope.rotary_dim, 64);
  EXPECT_EQ(m.ropes[1].layers, (Layers{1, 2}));
  EXPECT_EQ(m.ropes[1].rope.rotary_dim, 128);
}

TEST(Config, layers_without_attention_have_no_rope) {
  const Model m = read("qwen3_next", "", 8);
  EXPECT_EQ(only(m).layers, (Layers{3, 7}));
  EXPECT_EQ(only(m).layers_without_rope.size(), 6u);
  EXPECT_EQ(only(m).rope.rotary_dim, 32);
}

TEST(Config, falcon_with_alibi_has_no_rope) {
  const Model m = read("falcon", R"("alibi": true, "rope_theta": 10000.0)");
  EXPECT_TRUE(m.ropes.empty());
  EXPECT_TRUE(noted(m, "alibi is true"));
  EXPECT_EQ(only(read("falcon", R"("alibi": false, "multi_query": true)")).kv_heads, 1);
}

// ---- MLA, M-RoPE, vision ----

TEST(Config, an_mla_head_turns_its_last_block) {
  const std::string json = R"({"model_type": "deepseek_v3", "hidden_size": 7168, "num_attention_heads": 128,
    "num_hidden_layers": 3, "num_key_value_heads": 128, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "max_position_embeddings": 163840, "rope_theta": 10000, "rope_scaling": {"beta_fast": 32, "beta_slow": 1,
    "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"})";
  const Model m = parse_config(json + "}");
  EXPECT_EQ(only(m).rope.head_dim, 192);
  EXPECT_EQ(only(m).first, 128);
  EXPECT_EQ(only(m).rope.rotary_dim, 64);
  EXPECT_EQ(only(m).rope.pairing, Pairing::interleaved_to_half);
  expect_near_relative(inv_freq(only(m))[16], 0.0055);
  expect_near_relative(inv_freq(only(m))[31], 3.33380358e-06);
  EXPECT_EQ(frequencies(only(m).rope, 0).attention_factor, 1);
  EXPECT_EQ(only(parse_config(json + R"(, "rope_interleave": false})")).rope.pairing, Pairing::half);
}

TEST(Config, qwen2_vl_reads_text_keys_at_the_top_and_the_tower_by_embed_dim) {
  const Model m = parse_config(R"({"model_type": "qwen2_vl", "hidden_size": 3584, "num_attention_heads": 28,
    "num_key_value_heads": 4, "num_hidden_layers": 2, "rope_theta": 1000000.0,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
    "vision_config": {"depth": 3, "embed_dim": 1280, "num_heads": 16, "hidden_size": 3584, "model_type": "qwen2_vl"}})");
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[0].part, "");
  const auto& axis = m.ropes[0].rope.axis;
  EXPECT_EQ(axis[15], 0);
  EXPECT_EQ(axis[16], 1);
  EXPECT_EQ(axis[40], 2);
  EXPECT_STREQ(name(m.ropes[0].rope.scaling), "default");
  EXPECT_EQ(m.ropes[1].part, "vision_config");
  EXPECT_EQ(m.ropes[1].rope.head_dim, 80);
  EXPECT_EQ(m.ropes[1].layers, (Layers{0, 1, 2}));
  const auto w = inv_freq(m.ropes[1]);
  ASSERT_EQ(w.size(), 40u);
  EXPECT_EQ(w[0], 1);
  EXPECT_EQ(w[20], 1);
  expect_near_relative(w[39], std::pow(10000.0, -38.0 / 40));
  EXPECT_EQ(m.ropes[1].rope.axis[19], 0);
  EXPECT_EQ(m.ropes[1].rope.axis[20], 1);
}

TEST(Config, qwen3_vl_interleaves_its_axes) {
  const Model m = read("qwen3_vl_text", R"("rope_scaling": {"mrope_interleaved": true, "mrope_section": [24, 20, 20],
                                           "rope_type": "default"})");
  std::string axes;
  for (const auto a : only(m).rope.axis) axes += std::to_string(a);
  std::string expected;
  for (int i = 0; i < 20; ++i) expected += "012";
  EXPECT_EQ(axes, expected + "0000");
}

TEST(Config, mrope_has_three_sections) {
  const auto sections = [](const std::string& list) {
    return code_of(model("qwen2_vl_text", R"("rope_scaling": {"type": "mrope", "mrope_section": )" + list + "}"));
  };
  EXPECT_EQ(sections("[16, 24, 24]"), "none");
  EXPECT_EQ(sections("[32, 32]"), "CONFIG_VALUE");
  EXPECT_EQ(sections("[16, 16, 16, 16]"), "CONFIG_VALUE");
  EXPECT_EQ(sections("[16, 24, 23]"), "CONFIG_VALUE");
}

TEST(Config, pixtral_gives_rows_the_even_and_columns_the_odd_frequencies) {
  const Model m =
      parse_config(R"({"model_type": "mistral3", "text_config": {"model_type": "mistral", "hidden_size": 5120,
    "num_hidden_layers": 2, "head_dim": 128, "num_key_value_heads": 8, "rope_theta": 1000000000.0},
    "vision_config": {"head_dim": 64, "image_size": 1024, "model_type": "pixtral", "patch_size": 16, "rope_theta": 10000.0}})");
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[0].part, "text_config");
  EXPECT_EQ(m.ropes[0].heads, 32);
  EXPECT_TRUE(noted(m, "text_config: num_attention_heads is not given: 32, the default of mistral"));
  const auto w = inv_freq(m.ropes[1]);
  EXPECT_EQ(w[0], 1);
  expect_near_relative(w[1], std::pow(10000.0, -4.0 / 64));
  expect_near_relative(w[16], std::pow(10000.0, -2.0 / 64));
  EXPECT_EQ(m.ropes[1].layers.size(), 24u);
}

TEST(Config, gemma4s_tower_turns_two_blocks_of_the_head) {
  const Model m = parse_config(R"({"model_type": "gemma4", "vision_config": {"model_type": "gemma4_vision",
    "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 2, "head_dim": 64}})");
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[0].first, 0);
  EXPECT_EQ(m.ropes[1].first, 32);
  EXPECT_EQ(m.ropes[0].rope.rotary_dim, 32);
  EXPECT_EQ(m.ropes[0].rope.axis, std::vector<std::uint8_t>(16, 1));  // columns first
  EXPECT_EQ(m.ropes[0].rope.base, 100);
}

TEST(Config, minimax_m3s_tower_turns_78_of_80_elements_on_three_axes) {
  const Model m =
      parse_config(R"({"model_type": "minimax_m3_vl", "vision_config": {"model_type": "minimax_m3_vl_vision",
    "hidden_size": 1280, "num_attention_heads": 16, "num_hidden_layers": 2}})");
  EXPECT_EQ(only(m).rope.rotary_dim, 78);
  EXPECT_EQ(frequencies(only(m).rope, 0).axes(), 3);
}

TEST(Config, a_nested_path_is_the_part) {
  const Model m =
      parse_config(R"({"model_type": "qwen2_5_omni", "thinker_config": {"model_type": "qwen2_5_omni_thinker",
    "text_config": {"model_type": "qwen2_5_omni_text", "hidden_size": 3584, "num_attention_heads": 28,
    "num_hidden_layers": 2, "rope_scaling": {"mrope_section": [16, 24, 24], "rope_type": "default", "type": "default"}}}})");
  EXPECT_EQ(only(m).part, "thinker_config.text_config");
}

// ---- whose layers and heads ----

TEST(Config, layers_that_attend_to_the_image_have_no_rope) {
  const Model m = read("mllama_text_model", R"("cross_attention_layers": [1, 3])", 5);
  EXPECT_EQ(only(m).layers, (Layers{0, 2, 4}));
  EXPECT_EQ(only(m).layers_without_rope, (Layers{1, 3}));
  EXPECT_EQ(only(read("mllama_text_model", "", 5)).layers_without_rope, (Layers{3}));
}

TEST(Config, block_configs_say_which_layers_attend_and_with_how_many_key_heads) {
  const auto block = [](const std::string& attention) { return R"({"attention": {)" + attention + "}}"; };
  const Model m =
      read("nemotron-nas",
           R"("block_configs": [)" + block(R"("n_heads_in_group": 8, "no_op": false)") + "," +
               block(R"("n_heads_in_group": null, "no_op": true)") + "," + block(R"("n_heads_in_group": 16)") + "]",
           3);
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[0].layers, (Layers{0}));
  EXPECT_EQ(m.ropes[0].kv_heads, 4);
  EXPECT_EQ(m.ropes[1].layers, (Layers{2}));
  EXPECT_EQ(m.ropes[1].kv_heads, 2);
  EXPECT_EQ(m.ropes[0].layers_without_rope, (Layers{1}));
  EXPECT_EQ(code_of(model("nemotron-nas", R"("block_configs": [])")), "CONFIG_VALUE");
  EXPECT_EQ(code_of(model("deci", R"("num_key_value_heads_per_layer": [4, 4, 4, -1])")), "CONFIG_VALUE");
}

TEST(Config, an_mla_family_may_say_that_its_heads_are_ordinary) {
  const Model m = parse_config(R"({"model_type": "deepseek_vl_v2", "language_config": {"model_type": "deepseek_v2",
    "hidden_size": 1280, "num_attention_heads": 10, "num_hidden_layers": 2, "num_key_value_heads": 10,
    "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "use_mla": false}})");
  EXPECT_EQ(only(m).rope.head_dim, 128);
  EXPECT_EQ(only(m).first, 0);
  EXPECT_EQ(only(m).rope.pairing, Pairing::half);
}

TEST(Config, xlm_roberta_turns_only_where_it_says_rotary) {
  const Model jina = read("xlm-roberta", R"("position_embedding_type": "rotary", "rotary_emb_base": 20000.0)");
  EXPECT_EQ(only(jina).rope.base, 20000);
  EXPECT_TRUE(read("xlm-roberta", R"("position_embedding_type": "absolute")").ropes.empty());
}

TEST(Config, a_composite_with_its_text_keys_at_the_top_is_its_text_model) {
  const Model m = parse_config(R"({"model_type": "fuyu", "hidden_size": 4096, "num_attention_heads": 64,
    "num_hidden_layers": 2, "rope_theta": 25000.0})");
  EXPECT_EQ(only(m).rope.rotary_dim, 32);  // Persimmon's half
  EXPECT_EQ(only(m).rope.base, 25000);
}

TEST(Config, an_object_that_only_names_a_model_is_no_part) {
  const Model m = read("minicpmv", R"("slice_config": {"max_slice_nums": 9, "model_type": "minicpmv"})");
  EXPECT_EQ(only(m).part, "");
}

TEST(Config, moonshine_turns_32_of_its_36_elements_interleaved) {
  const Model m = parse_config(R"({"model_type": "moonshine", "hidden_size": 288, "decoder_num_attention_heads": 8,
    "decoder_num_hidden_layers": 6, "encoder_num_attention_heads": 8, "encoder_num_hidden_layers": 6,
    "partial_rotary_factor": 0.9, "rope_theta": 10000.0})");
  EXPECT_EQ(only(m).rope.head_dim, 36);
  EXPECT_EQ(only(m).rope.rotary_dim, 32);
  EXPECT_EQ(only(m).rope.pairing, Pairing::interleaved);
}

TEST(Config, dual_chunk_attention_leaves_the_frequencies_and_is_noted) {
  const Model m = read("qwen2", R"("dual_chunk_attention_config": {"chunk_size": 262144, "local_size": 8192,
                                    "original_max_position_embeddings": 262144})");
  EXPECT_TRUE(noted(m, "dual_chunk_attention_config remaps positions"));
}

// ---- params.json ----

TEST(Config, mistrals_params_pair_interleaved) {
  const Model m = parse_config(R"({"dim": 4096, "n_layers": 2, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32,
    "n_kv_heads": 8, "norm_eps": 1e-05, "vocab_size": 32768, "rope_theta": 1000000.0})");
  EXPECT_EQ(only(m).rope.pairing, Pairing::interleaved);
  EXPECT_EQ(only(m).kv_heads, 8);
  EXPECT_EQ(only(m).rope.base, 1000000);
}

TEST(Config, mistrals_yarn_names_its_betas_alpha_and_beta) {
  const std::string yarn = R"({"dim": 4096, "n_layers": 2, "head_dim": 128, "n_heads": 32, "rope_theta": 1000000.0,
    "yarn": {"original_max_position_embeddings": 16384, "factor": 16, "apply_scale": false, "beta": 30, "alpha": 2}})";
  const Yarn read = std::get<Yarn>(only(parse_config(yarn)).rope.scaling);
  EXPECT_EQ(read.beta_fast, 30);
  EXPECT_EQ(read.beta_slow, 2);
  EXPECT_EQ(frequencies(only(parse_config(yarn)).rope, 0).attention_factor, 1);
}

TEST(Config, metas_params_scale_by_eight_where_they_say_use_scaled_rope) {
  const Model m = parse_config(R"({"dim": 4096, "ffn_dim_multiplier": 1.3, "multiple_of": 1024, "n_heads": 32,
    "n_kv_heads": 8, "n_layers": 2, "norm_eps": 1e-05, "rope_theta": 500000.0, "use_scaled_rope": true, "vocab_size": 128256})");
  expect_near_relative(inv_freq(only(m))[32], 5.24846161e-4);
  EXPECT_EQ(only(m).rope.pairing, Pairing::interleaved);
}

TEST(Config, the_original_file_of_gpt_oss_is_yarn_without_truncation) {
  const Model m =
      parse_config(R"({"num_hidden_layers": 2, "hidden_size": 2880, "head_dim": 64, "num_attention_heads": 64,
    "num_key_value_heads": 8, "initial_context_length": 4096, "rope_theta": 150000, "rope_scaling_factor": 32.0,
    "rope_ntk_alpha": 1, "rope_ntk_beta": 32})");
  EXPECT_EQ(m.model_type, "gpt_oss");
  expect_near_relative(inv_freq(only(m))[12], 0.00679495949);
}

TEST(Config, text_config_beats_the_same_keys_at_the_top) {
  const Model m = parse_config(R"({"model_type": "qwen2_5_vl", "hidden_size": 1536, "num_attention_heads": 12,
    "num_hidden_layers": 3, "rope_theta": 5.0, "text_config": {"model_type": "qwen2_5_vl_text", "hidden_size": 1536,
    "num_attention_heads": 12, "num_hidden_layers": 3, "rope_theta": 1000000.0, "rope_scaling": {"type": "mrope",
    "mrope_section": [16, 24, 24]}}})");
  EXPECT_EQ(only(m).part, "text_config");
  EXPECT_EQ(only(m).rope.base, 1000000);
}

TEST(Config, per_layer_config_overrides_the_heads_of_single_layers) {
  const Model m = parse_config(R"({"model_type": "gemma4_text", "hidden_size": 2304, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 256, "num_hidden_layers": 6,
    "per_layer_config": {"5": {"head_dim": 128, "num_key_value_heads": 2}}})");
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[1].rope.head_dim, 128);
  EXPECT_EQ(m.ropes[1].kv_heads, 2);
}

TEST(Config, truncate_counts_beside_the_layer_types_only) {
  const std::string start = R"("layer_types": ["full_attention", "full_attention", "full_attention", "full_attention"],
    "rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 2.0, "rope_theta": 10000.0,
    "original_max_position_embeddings": 4096)";
  const Model inside = read("mellum", start + R"(, "truncate": false}})");
  EXPECT_TRUE(std::get<Yarn>(only(inside).rope.scaling).truncate);
  EXPECT_TRUE(noted(inside, "has no effect"));
  const Model beside = read("mellum", start + R"(}, "truncate": false})");
  EXPECT_FALSE(std::get<Yarn>(only(beside).rope.scaling).truncate);
}

TEST(Config, deepseek_v4_turns_the_end_of_the_head_and_scales_compressed_layers_only) {
  const Model m = parse_config(R"({"model_type": "deepseek_v4", "hidden_size": 4096, "num_attention_heads": 64,
    "num_key_value_heads": 1, "head_dim": 512, "qk_rope_head_dim": 64, "num_hidden_layers": 3, "rope_theta": 10000,
    "compress_rope_theta": 160000, "layer_types": ["sliding_attention", "compressed_sparse_attention",
    "heavily_compressed_attention"], "max_position_embeddings": 1048576, "rope_scaling": {"type": "yarn", "factor": 16,
    "beta_fast": 32, "beta_slow": 1, "original_max_position_embeddings": 65536}})");
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[0].layers, (Layers{0}));
  EXPECT_EQ(m.ropes[0].first, 448);
  EXPECT_EQ(m.ropes[0].rope.base, 10000);
  EXPECT_STREQ(name(m.ropes[0].rope.scaling), "default");
  EXPECT_EQ(m.ropes[1].layers, (Layers{1, 2}));
  EXPECT_EQ(m.ropes[1].rope.base, 160000);
  EXPECT_EQ(frequencies(m.ropes[1].rope, 0).attention_factor, 1);
}

}  // namespace
}  // namespace rotary
