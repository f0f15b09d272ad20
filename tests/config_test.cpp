// read_config: every spelling, every error. Expected numbers are the published formulas' (rope-variants.md section 11),
// or plain powers; never our own frequencies' code alone.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "rotary/files.h"

namespace rotary {
namespace {

// A llama-like file with more keys; head_dim 128, 32 heads of which 8 for keys.
std::string model(const std::string& type, const std::string& more, int layers = 4) {
  return R"({"model_type": ")" + type + R"(", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 128, "max_position_embeddings": 131072, "num_hidden_layers": )" +
         std::to_string(layers) + (more.empty() ? "" : ", " + more) + "}";
}

Model read(const std::string& type, const std::string& more, int layers = 4) {
  return parse_config(model(type, more, layers));
}

const ModelRope& only(const Model& m) {
  EXPECT_EQ(m.ropes.size(), 1u);
  return m.ropes.at(0);
}

std::string code_of(const std::string& json, const ConfigOptions& options = {}) {
  try {
    parse_config(json, options);
  } catch (const Error& e) {
    return e.code();
  }
  return "none";
}

std::string sentence_of(const std::string& json, const ConfigOptions& options = {}) {
  try {
    parse_config(json, options);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

bool noted(const Model& m, const std::string& words) {
  for (const std::string& note : m.notes) {
    if (note.find(words) != std::string::npos) return true;
  }
  return false;
}

std::vector<double> inv_freq(const ModelRope& rope, std::int64_t length = 0) {
  return frequencies(rope.rope, length).inv_freq;
}

void expect_near_relative(double value, double expected, double tolerance = 1e-8) {
  EXPECT_NEAR(value, expected, std::fabs(expected) * tolerance);
}

using Layers = std::vector<int>;

// ---- spellings of one rope ----

TEST(Config, the_old_spelling_and_the_new_one_give_the_same_llama3_rope) {
  const std::string scaling = R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                 "original_max_position_embeddings": 8192)";
  const Model old = read("llama", R"("rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", )" + scaling + "}");
  const Model older = read("llama", R"("rope_theta": 500000.0, "rope_scaling": {"type": "llama3", )" + scaling + "}");
  const Model fresh =
      read("llama", R"("rope_parameters": {"rope_theta": 500000.0, "rope_type": "llama3", )" + scaling + "}");
  const auto w = inv_freq(only(old));
  expect_near_relative(w[29], 0.00216657076);
  expect_near_relative(w[32], 5.24846161e-4);
  expect_near_relative(w[63], 3.06892599e-07);
  EXPECT_EQ(w, inv_freq(only(older)));
  EXPECT_EQ(w, inv_freq(only(fresh)));
  EXPECT_EQ(old.ropes[0].rope.pairing, Pairing::half);
  EXPECT_EQ(old.ropes[0].heads, 32);
  EXPECT_EQ(old.ropes[0].kv_heads, 8);
  EXPECT_EQ(old.ropes[0].rope.rotary_dim, 128);
  EXPECT_EQ(old.ropes[0].layers, (Layers{0, 1, 2, 3}));
}

TEST(Config, a_base_inside_the_object_beats_the_one_at_the_top) {
  const Model m = read("llama", R"("rope_theta": 5.0, "rope_parameters": {"rope_type": "default", "rope_theta": 7000})");
  EXPECT_EQ(only(m).rope.base, 7000);
  EXPECT_TRUE(noted(m, "rope_theta at the top is not read"));
}

TEST(Config, rope_scaling_beats_rope_parameters_and_an_empty_one_does_not) {
  const std::string parameters = R"("rope_parameters": {"rope_type": "linear", "factor": 3.0, "rope_theta": 999.0})";
  const Model both = read("llama", parameters + R"(, "rope_scaling": {"rope_type": "linear", "factor": 2.0})");
  EXPECT_EQ(std::get<Linear>(only(both).rope.scaling).factor, 2);
  const Model empty = read("llama", parameters + R"(, "rope_scaling": {})");
  EXPECT_EQ(std::get<Linear>(only(empty).rope.scaling).factor, 3);
}

TEST(Config, rope_type_beats_type) {
  const Model m = read("llama", R"("rope_scaling": {"type": "linear", "rope_type": "dynamic", "factor": 2.0})");
  EXPECT_TRUE(std::holds_alternative<Dynamic>(only(m).rope.scaling));
  EXPECT_TRUE(noted(m, "beats type"));
}

TEST(Config, a_base_that_is_not_given_is_the_model_types_own_and_noted) {
  for (const auto& [type, base] : std::vector<std::pair<std::string, double>>{{"llama", 1e4},
                                                                              {"mixtral", 1e6},
                                                                              {"cohere", 5e5},
                                                                              {"smollm3", 2e6},
                                                                              {"helium", 1e5},
                                                                              {"minimax_m2", 5e6},
                                                                              {"hy_v3", 11158840}}) {
    const Model m = read(type, "");
    EXPECT_EQ(only(m).rope.base, base) << type;
    EXPECT_TRUE(noted(m, "no base (rope_theta) is given")) << type;
  }
}

// ---- scalings ----

TEST(Config, yarn_reads_all_its_options) {
  const Model m = read("qwen2", R"("rope_theta": 1000000.0, "rope_scaling": {"type": "yarn", "factor": 4.0,
    "original_max_position_embeddings": 32768, "beta_fast": 16, "beta_slow": 2, "mscale": 0.7, "mscale_all_dim": 0.5,
    "attention_factor": 1.25, "truncate": false})");
  const Yarn yarn = std::get<Yarn>(only(m).rope.scaling);
  EXPECT_EQ(yarn.factor, 4);
  EXPECT_EQ(yarn.trained_length, 32768);
  EXPECT_EQ(yarn.beta_fast, 16);
  EXPECT_EQ(yarn.beta_slow, 2);
  EXPECT_EQ(yarn.mscale, 0.7);
  EXPECT_EQ(yarn.mscale_all_dim, 0.5);
  EXPECT_EQ(yarn.attention_factor, 1.25);
  EXPECT_FALSE(yarn.truncate);
}

TEST(Config, the_yarn_of_qwen_has_the_published_values) {
  const Model m = read("qwen2", R"("rope_theta": 1000000.0, "rope_scaling": {"type": "yarn", "factor": 4.0,
                                   "original_max_position_embeddings": 32768})");
  const auto w = inv_freq(only(m));
  expect_near_relative(w[32], 6.02941176e-4);
  expect_near_relative(w[63], 3.1023444e-07);
  expect_near_relative(frequencies(only(m).rope).attention_factor, 1.13862944);
}

TEST(Config, yarn_reads_what_is_missing_as_the_frameworks_do_with_notes) {
  const Model m = read("qwen2", R"("rope_scaling": {"type": "yarn", "factor": null, "beta_fast": 0, "mscale": 1.0,
                                   "original_max_position_embeddings": 32768})");
  const Yarn yarn = std::get<Yarn>(only(m).rope.scaling);
  EXPECT_EQ(yarn.factor, 4);  // 131072 / 32768
  EXPECT_EQ(yarn.beta_fast, 32);
  EXPECT_TRUE(noted(m, "factor is not given"));
  EXPECT_TRUE(noted(m, "beta_fast is 0"));
  EXPECT_TRUE(noted(m, "count only together"));
  const Model length = read("qwen2", R"("rope_scaling": {"type": "yarn", "factor": 4.0})");
  EXPECT_EQ(std::get<Yarn>(only(length).rope.scaling).trained_length, 131072);
  EXPECT_TRUE(noted(length, "original_max_position_embeddings is not given"));
}

TEST(Config, an_original_length_at_the_top_beats_the_one_inside) {
  const Model m = read("llama", R"("original_max_position_embeddings": 4096, "rope_scaling": {"type": "yarn",
                                   "factor": 2.0, "original_max_position_embeddings": 8192})");
  EXPECT_EQ(std::get<Yarn>(only(m).rope.scaling).trained_length, 4096);
  EXPECT_TRUE(noted(m, "beats the one in"));
}

TEST(Config, the_dialects_of_yarn_are_told_apart) {
  const std::string rest = R"("factor": 40, "original_max_position_embeddings": 4096})";
  const auto yarn = [&](const std::string& type) {
    return std::get<Yarn>(only(read("llama", R"("rope_scaling": {"type": ")" + type + R"(", )" + rest)).rope.scaling);
  };
  EXPECT_EQ(yarn("yarn").magnitude, 0.1);
  EXPECT_EQ(yarn("telechat3-yarn").magnitude, 0.07);
  EXPECT_TRUE(yarn("deepseek_yarn").mscale_ratio);
}

TEST(Config, phi3_reads_su_and_yarn_as_longrope_with_the_length_at_the_top) {
  const std::string ones = "[" + [] {
    std::string list = "1.0";
    for (int i = 1; i < 64; ++i) list += ", 1.0";
    return list;
  }() + "]";
  for (const char* type : {"su", "longrope", "yarn"}) {
    const Model m = read("phi3", R"("original_max_position_embeddings": 4096, "rope_scaling": {"type": ")" +
                                     std::string(type) + R"(", "short_factor": )" + ones + R"(, "long_factor": )" + ones +
                                     "}");
    const LongRope rope = std::get<LongRope>(only(m).rope.scaling);
    EXPECT_EQ(rope.trained_length, 4096) << type;
    EXPECT_EQ(rope.factor, 32) << type;
    expect_near_relative(frequencies(only(m).rope).attention_factor, 1.19023807);
  }
}

TEST(Config, a_longrope_list_must_have_one_factor_per_pair) {
  const std::string json = model("phi3", R"("rope_scaling": {"type": "longrope", "short_factor": [1.0, 2.0],
                                            "long_factor": [1.0, 2.0], "original_max_position_embeddings": 4096})");
  EXPECT_EQ(code_of(json), "CONFIG_VALUE");
  EXPECT_NE(sentence_of(json).find("rope_scaling.short_factor"), std::string::npos);
  EXPECT_NE(sentence_of(json).find("64 pairs"), std::string::npos);
}

TEST(Config, hunyuan_dynamic_with_alpha_is_static_ntk) {
  const Model m = read("hunyuan_v1_dense", R"("rope_theta": 10000.0, "rope_scaling": {"alpha": 1000.0, "beta_fast": 32,
    "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "type": "dynamic"})");
  EXPECT_STREQ(name(only(m).rope.scaling), "ntk");
  expect_near_relative(inv_freq(only(m))[1], std::pow(11158839.92507748, -2.0 / 128));
  EXPECT_EQ(code_of(model("llama", R"("rope_scaling": {"alpha": 1000.0, "factor": 1.0, "type": "dynamic"})")), "CONFIG_KEY");
}

TEST(Config, dynamic_takes_the_model_length_and_grows_beyond_it) {
  const Model m = parse_config(R"({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
    "num_hidden_layers": 1, "max_position_embeddings": 2048, "rope_scaling": {"type": "dynamic", "factor": 2.0}})");
  expect_near_relative(inv_freq(only(m), 4096)[1], std::pow(30527.7367488, -2.0 / 128));
  expect_near_relative(inv_freq(only(m), 100)[1], std::pow(10000.0, -2.0 / 128));
}

TEST(Config, vllms_ntk_has_its_own_formula) {
  const Model m = read("llama", R"("rope_scaling": {"type": "ntk", "factor": 4.0, "mixed_b": 0.6})");
  EXPECT_EQ(std::get<NtkFixed>(only(m).rope.scaling).mixed_b, 0.6);
}

TEST(Config, equal_frequency_factors_are_read_with_a_note) {
  const Model m = read("llama4_text", R"("rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
    "low_freq_factor": 1.0, "high_freq_factor": 1.0, "original_max_position_embeddings": 8192})");
  EXPECT_EQ(std::get<Llama3>(only(m).rope.scaling).high, 1);
  EXPECT_TRUE(noted(m, "nothing is blended"));
}

// ---- class defaults that scale ----

TEST(Config, gpt_oss_keeps_its_default_yarn_and_takes_only_the_base) {
  const Model m = parse_config(R"({"model_type": "gpt_oss", "hidden_size": 2880, "head_dim": 64, "num_attention_heads": 64,
    "num_hidden_layers": 2, "num_key_value_heads": 8, "rope_theta": 150000, "rope_scaling": null})");
  const auto w = inv_freq(only(m));
  expect_near_relative(w[9], 0.0317056962);
  expect_near_relative(w[12], 0.00679495949);
  expect_near_relative(w[16], 4.56483919e-4);
  expect_near_relative(frequencies(only(m).rope).attention_factor, 1.34657359);
  EXPECT_TRUE(noted(m, "the default of gpt_oss"));
}

TEST(Config, apertus_ignores_a_lone_base_because_its_default_holds_one) {
  const Model m = read("apertus", R"("rope_theta": 5000)");
  EXPECT_EQ(only(m).rope.base, 12000000);
  EXPECT_STREQ(name(only(m).rope.scaling), "llama3");
  EXPECT_TRUE(noted(m, "rope_theta at the top is not read"));
}

TEST(Config, higgs_audio_has_its_own_llama3_default) {
  const Llama3 rope = std::get<Llama3>(only(read("higgs_audio_v2", "")).rope.scaling);
  EXPECT_EQ(rope.factor, 32);
  EXPECT_EQ(rope.low, 0.125);
  EXPECT_EQ(rope.high, 0.5);
  EXPECT_EQ(rope.trained_length, 1024);
}

// ---- partial rotation ----

TEST(Config, a_partial_factor_counts_where_the_family_reads_it) {
  EXPECT_EQ(only(read("glm", "")).rope.rotary_dim, 64);  // 0.5 unless given
  EXPECT_EQ(only(read("glm", "")).rope.pairing, Pairing::interleaved);
  EXPECT_EQ(only(read("stablelm", "")).rope.rotary_dim, 32);
  EXPECT_EQ(only(read("stablelm", R"("partial_rotary_factor": 0.5)")).rope.rotary_dim, 64);
  EXPECT_EQ(only(read("phi3", R"("partial_rotary_factor": 0.75)")).rope.rotary_dim, 96);
}

TEST(Config, llama_ignores_a_partial_factor_unless_it_scales) {
  const Model plain = read("llama", R"("partial_rotary_factor": 0.5)");
  EXPECT_EQ(only(plain).rope.rotary_dim, 128);
  EXPECT_TRUE(noted(plain, "has no effect"));
  const Model scaled = read("llama", R"("partial_rotary_factor": 0.5, "rope_scaling": {"type": "linear", "factor": 2.0})");
  EXPECT_EQ(only(scaled).rope.rotary_dim, 64);
}

TEST(Config, gpt_neox_reads_rotary_pct_and_rotary_emb_base_only) {
  const Model m = read("gpt_neox", R"("rotary_pct": 0.5, "rotary_emb_base": 25000, "rope_theta": 3.0)");
  EXPECT_EQ(only(m).rope.rotary_dim, 64);
  EXPECT_EQ(only(m).rope.base, 25000);
  EXPECT_TRUE(noted(m, "rope_theta is not read"));
}

TEST(Config, gptj_turns_rotary_dim_elements_interleaved) {
  const std::string start = R"({"model_type": "gptj", "n_embd": 4096, "n_head": 16, "n_layer": 2)";
  EXPECT_EQ(only(parse_config(start + R"(, "rotary_dim": 32})")).rope.rotary_dim, 32);
  EXPECT_EQ(only(parse_config(start + "}")).rope.rotary_dim, 64);
  EXPECT_EQ(only(parse_config(start + R"(, "rotary_dim": null})")).rope.rotary_dim, 256);
  EXPECT_EQ(only(parse_config(start + "}")).rope.pairing, Pairing::interleaved);
  EXPECT_EQ(code_of(start + R"(, "rotary_dim": 33})"), "CONFIG_VALUE");
}

TEST(Config, an_odd_width_turns_one_element_more_with_the_odd_exponent) {
  const Model m = parse_config(R"({"model_type": "phi", "hidden_size": 2560, "num_attention_heads": 32,
    "num_hidden_layers": 1, "partial_rotary_factor": 0.32})");
  EXPECT_EQ(only(m).rope.rotary_dim, 26);
  EXPECT_EQ(only(m).rope.exponent_dim, 25);
  expect_near_relative(inv_freq(only(m))[12], std::pow(10000.0, -24.0 / 25));
}

TEST(Config, minimax_m2_reads_rotary_dim) {
  EXPECT_EQ(only(read("minimax_m2", R"("rotary_dim": 64)")).rope.rotary_dim, 64);
}

TEST(Config, a_proportional_rope_spans_the_head_and_the_rest_stands_still) {
  const Model m = parse_config(R"({"model_type": "gemma4_text", "hidden_size": 2304, "num_attention_heads": 8,
    "num_key_value_heads": 4, "head_dim": 256, "global_head_dim": 512, "num_hidden_layers": 6})");
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[0].layers, (Layers{0, 1, 2, 3, 4}));
  EXPECT_EQ(m.ropes[0].rope.base, 10000);
  EXPECT_EQ(m.ropes[1].layers, (Layers{5}));
  EXPECT_EQ(m.ropes[1].rope.head_dim, 512);
  EXPECT_EQ(m.ropes[1].rope.rotary_dim, 512);
  const auto w = inv_freq(m.ropes[1]);
  expect_near_relative(w[63], 0.0333762469);
  EXPECT_EQ(w[64], 0);
  EXPECT_EQ(w[255], 0);
}

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
  const Model m = read("modernbert", R"("global_rope_theta": 150000.0, "local_rope_theta": 9000.0, "rope_theta": 7.0)", 4);
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
  EXPECT_EQ(frequencies(only(m).rope).attention_factor, 1);
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

TEST(Config, pixtral_gives_rows_the_even_and_columns_the_odd_frequencies) {
  const Model m = parse_config(R"({"model_type": "mistral3", "text_config": {"model_type": "mistral", "hidden_size": 5120,
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
  const Model m = parse_config(R"({"model_type": "minimax_m3_vl", "vision_config": {"model_type": "minimax_m3_vl_vision",
    "hidden_size": 1280, "num_attention_heads": 16, "num_hidden_layers": 2}})");
  EXPECT_EQ(only(m).rope.rotary_dim, 78);
  EXPECT_EQ(frequencies(only(m).rope).axes(), 3);
}

TEST(Config, a_nested_path_is_the_part) {
  const Model m = parse_config(R"({"model_type": "qwen2_5_omni", "thinker_config": {"model_type": "qwen2_5_omni_thinker",
    "text_config": {"model_type": "qwen2_5_omni_text", "hidden_size": 3584, "num_attention_heads": 28,
    "num_hidden_layers": 2, "rope_scaling": {"mrope_section": [16, 24, 24], "rope_type": "default", "type": "default"}}}})");
  EXPECT_EQ(only(m).part, "thinker_config.text_config");
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
  EXPECT_EQ(frequencies(only(parse_config(yarn)).rope).attention_factor, 1);
}

TEST(Config, metas_params_scale_by_eight_where_they_say_use_scaled_rope) {
  const Model m = parse_config(R"({"dim": 4096, "ffn_dim_multiplier": 1.3, "multiple_of": 1024, "n_heads": 32,
    "n_kv_heads": 8, "n_layers": 2, "norm_eps": 1e-05, "rope_theta": 500000.0, "use_scaled_rope": true, "vocab_size": 128256})");
  expect_near_relative(inv_freq(only(m))[32], 5.24846161e-4);
  EXPECT_EQ(only(m).rope.pairing, Pairing::interleaved);
}

// ---- pairing ----

TEST(Config, an_unknown_model_type_needs_a_pairing) {
  const std::string json = model("something_new", R"("rope_theta": 3000.0)");
  EXPECT_EQ(code_of(json), "MODEL_TYPE");
  EXPECT_NE(sentence_of(json).find("--pairing"), std::string::npos);
  const Model m = parse_config(json, {.pairing = Pairing::interleaved});
  EXPECT_EQ(only(m).rope.pairing, Pairing::interleaved);
  EXPECT_EQ(only(m).rope.base, 3000);
  EXPECT_TRUE(noted(m, "the pairing given decides"));
}

TEST(Config, a_pairing_given_overrides_the_known_one_with_a_note) {
  const Model m = parse_config(model("llama", ""), {.pairing = Pairing::interleaved});
  EXPECT_EQ(only(m).rope.pairing, Pairing::interleaved);
  EXPECT_TRUE(noted(m, "overrides half"));
}

TEST(Config, remote_code_families_are_known) {
  EXPECT_EQ(only(read("internlm2", R"("rope_scaling": {"type": "dynamic", "factor": 2.0})")).rope.pairing, Pairing::half);
  const Model glm = parse_config(R"({"model_type": "chatglm", "hidden_size": 4096, "num_attention_heads": 32,
    "num_layers": 2, "kv_channels": 128, "multi_query_attention": true, "multi_query_group_num": 2, "rope_ratio": 500,
    "original_rope": true})");
  EXPECT_EQ(only(glm).rope.pairing, Pairing::interleaved);
  EXPECT_EQ(only(glm).rope.base, 5000000);
  EXPECT_EQ(only(glm).rope.rotary_dim, 64);
  EXPECT_EQ(only(glm).kv_heads, 2);
}

// ---- nothing ignored ----

TEST(Config, a_rope_key_that_nobody_reads_is_refused_by_name_wherever_it_stands) {
  EXPECT_EQ(code_of(model("llama", R"("rope_foo": 1)")), "CONFIG_KEY");
  EXPECT_NE(sentence_of(model("llama", R"("rope_foo": 1)")).find("rope_foo"), std::string::npos);
  EXPECT_EQ(code_of(model("llama", R"("my_rotary": null)")), "CONFIG_KEY");
  EXPECT_EQ(code_of(model("llama", R"("rope_scaling": {"type": "linear", "factor": 2.0, "extra": 1})")), "CONFIG_KEY");
  EXPECT_EQ(code_of(model("llama", R"("rope_parameters": {"rope_type": "default", "factor": 2.0})")), "CONFIG_KEY");
  EXPECT_EQ(code_of(model("llama", R"("other_config": {"deep": [{"rope_foo": 1}]})")), "CONFIG_KEY");
  EXPECT_EQ(code_of(model("llama", R"("audio_config": {"model_type": "whisper", "ntk_x": 1})")), "CONFIG_KEY");
  EXPECT_EQ(code_of(model("llama", R"("audio_config": {"model_type": "new_audio", "num_hidden_layers": 2,
    "num_attention_heads": 2, "rope_theta": 10000})")),
            "CONFIG_KEY");
}

TEST(Config, keys_that_only_look_like_rope_are_left_alone) {
  EXPECT_EQ(code_of(model("llama", R"("properties": {"a": 1}, "property": 2, "position_embedding_type": "absolute")")),
            "none");
}

TEST(Config, a_sub_config_whose_rope_is_not_known_is_named_in_a_note) {
  const Model m = read("llama", R"("audio_config": {"model_type": "new_audio", "num_hidden_layers": 2,
                                   "num_attention_heads": 2, "hidden_size": 8})");
  EXPECT_TRUE(noted(m, "audio_config: its rope"));
}

// ---- values ----

TEST(Config, bad_values_are_refused_with_key_rule_and_value) {
  const std::vector<std::pair<std::string, std::string>> bad = {
      {R"("rope_theta": 1)", "rope_theta must be above 1"},
      {R"("rope_theta": 0.5)", "rope_theta"},
      {R"("rope_theta": "10000")", "rope_theta must be a number but got \"10000\""},
      {R"("rope_theta": true)", "rope_theta must be a number"},
      {R"("rope_scaling": {"type": "linear", "factor": 0.5})", "rope_scaling.factor must be at least 1"},
      {R"("rope_scaling": {"type": "linear", "factor": "2"})", "rope_scaling.factor must be a number"},
      {R"("rope_scaling": [1])", "rope_scaling must be an object"},
      {R"("rope_scaling": {"type": "nonsense", "factor": 2.0})", "rope_scaling.type must be one of"},
      {R"("rope_scaling": {"type": 3})", "rope_scaling.type must be a string"},
      {R"("rope_scaling": {"type": "yarn", "factor": 2.0, "original_max_position_embeddings": 4096.5})",
       "original_max_position_embeddings must be an integer"},
      {R"("rope_scaling": {"type": "yarn", "factor": 2.0, "attention_factor": -1.0})", "attention_factor"},
      {R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0})",
       "high_freq_factor must not be below low_freq_factor"},
      {R"("partial_rotary_factor": 1.5, "rope_scaling": {"type": "linear", "factor": 2.0})", "partial_rotary_factor"},
      {R"("partial_rotary_factor": 0, "rope_scaling": {"type": "linear", "factor": 2.0})", "partial_rotary_factor"},
      {R"("layer_types": ["full_attention"])", "layer_types must have one entry"},
  };
  for (const auto& [more, words] : bad) {
    EXPECT_EQ(code_of(model("llama", more)), "CONFIG_VALUE") << more;
    EXPECT_NE(sentence_of(model("llama", more)).find(words), std::string::npos) << sentence_of(model("llama", more));
  }
}

TEST(Config, sizes_beyond_reason_are_refused) {
  const auto with = [](const std::string& layers, const std::string& heads, const std::string& dim) {
    return code_of(R"({"model_type": "llama", "num_hidden_layers": )" + layers + R"(, "num_attention_heads": )" + heads +
                   R"(, "head_dim": )" + dim + "}");
  };
  EXPECT_EQ(with("1000000000", "32", "128"), "CONFIG_VALUE");
  EXPECT_EQ(with("99999999999999999999999", "32", "128"), "CONFIG_VALUE");
  EXPECT_EQ(with("2", "-4", "128"), "CONFIG_VALUE");
  EXPECT_EQ(with("2", "4", "1000000"), "CONFIG_VALUE");
  EXPECT_EQ(with("2", "4.0", "128"), "CONFIG_VALUE");
  EXPECT_EQ(with("2", "4", "81"), "CONFIG_VALUE");
  EXPECT_EQ(with("0", "4", "128"), "CONFIG_VALUE");
}

TEST(Config, what_is_missing_is_named) {
  const std::string json = R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 4})";
  EXPECT_EQ(code_of(json), "CONFIG_MISSING");
  EXPECT_NE(sentence_of(json).find("num_hidden_layers"), std::string::npos);
  EXPECT_EQ(code_of(R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64})"), "CONFIG_MISSING");
  EXPECT_EQ(code_of(model("llama", R"("rope_scaling": {"type": "linear"})")), "CONFIG_MISSING");
  EXPECT_EQ(code_of("{}"), "CONFIG_MISSING");
}

TEST(Config, a_head_dim_of_zero_or_null_is_hidden_size_over_heads) {
  for (const char* value : {"0", "null"}) {
    const Model m = parse_config(R"({"model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16,
                                     "num_hidden_layers": 1, "head_dim": )" +
                                 std::string(value) + "}");
    EXPECT_EQ(only(m).rope.head_dim, 64);
    EXPECT_TRUE(noted(m, "as the frameworks read it"));
  }
  const Model m = parse_config(R"({"model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 16,
                                   "num_hidden_layers": 1})");
  EXPECT_EQ(only(m).rope.head_dim, 128);  // its class default
}

// ---- malformed files ----

TEST(Config, malformed_json_is_refused) {
  for (const char* json : {"", "{", "nonsense", "[]", "3", "null", R"({"a": NaN})", R"({"a": Infinity})", R"({"a": 1e999})",
                           R"({"a": 1, "a": 2})", R"({"a": {"b": 1, "b": 2}})", "{\"a\": \"\xff\"}", R"({"a": 1} x)"}) {
    EXPECT_EQ(code_of(json), "JSON") << json;
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "[";
  EXPECT_EQ(code_of(deep), "JSON");
  EXPECT_EQ(code_of(std::string((16u << 20) + 1, ' ')), "JSON");
  EXPECT_EQ(code_of(R"({"model_type": 3})"), "CONFIG_VALUE");
}

TEST(Config, a_folder_is_read_by_its_config_or_params) {
  const auto folder = std::filesystem::temp_directory_path() / "rotary_config_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto code = [](const std::filesystem::path& path) -> std::string {
    try {
      read_config(path);
    } catch (const Error& e) {
      return e.code();
    }
    return "none";
  };
  EXPECT_EQ(code(folder), "FILE");
  EXPECT_EQ(code(folder / "absent.json"), "FILE");
  std::ofstream(folder / "params.json") << R"({"dim": 64, "n_layers": 1, "n_heads": 2, "hidden_dim": 9})";
  EXPECT_EQ(read_config(folder).model_type, "mistral");
  std::ofstream(folder / "config.json") << model("llama", "");
  EXPECT_EQ(read_config(folder).model_type, "llama");
  EXPECT_EQ(read_config(folder / "params.json").model_type, "mistral");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace rotary
