// read_config, one rope: spellings, class defaults, scalings, partial rotation. Expected numbers are the published
// ones (rope-variants.md section 11) or plain powers.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/config_helpers.h"

namespace rotary {
namespace {

using namespace config_test;

// ---- spellings of one rope ----

TEST(Config, the_old_spelling_and_the_new_one_give_the_same_llama3_rope) {
  const std::string scaling = R"("factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                 "original_max_position_embeddings": 8192)";
  const Model old =
      read("llama", R"("rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", )" + scaling + "}");
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
  const Model m =
      read("llama", R"("rope_theta": 5.0, "rope_parameters": {"rope_type": "default", "rope_theta": 7000})");
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
  expect_near_relative(frequencies(only(m).rope, 0).attention_factor, 1.13862944);
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
    const Model m =
        read("phi3", R"("original_max_position_embeddings": 4096, "rope_scaling": {"type": ")" + std::string(type) +
                         R"(", "short_factor": )" + ones + R"(, "long_factor": )" + ones + "}");
    const LongRope rope = std::get<LongRope>(only(m).rope.scaling);
    EXPECT_EQ(rope.trained_length, 4096) << type;
    EXPECT_EQ(rope.factor, 32) << type;
    expect_near_relative(frequencies(only(m).rope, 0).attention_factor, 1.19023807);
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
  EXPECT_EQ(code_of(model("llama", R"("rope_scaling": {"alpha": 1000.0, "factor": 1.0, "type": "dynamic"})")),
            "CONFIG_KEY");
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
  EXPECT_STREQ(name(only(m).rope.scaling), "ntk_fixed");
  EXPECT_TRUE(
      noted(m, "rope_type ntk is read as ntk_fixed, as vLLM means it; bloc97's NTK-aware scaling is ntk_aware"));
  const Model own = read("llama", R"("rope_scaling": {"rope_type": "ntk_fixed", "factor": 4.0, "mixed_b": 0.6})");
  EXPECT_EQ(only(own).rope, only(m).rope);
  EXPECT_FALSE(noted(own, "rope_type"));
}

TEST(Config, bloc97s_ntk_has_a_word_of_our_own) {
  const Model m = read("llama", R"("rope_scaling": {"rope_type": "ntk_aware", "factor": 4.0})");
  EXPECT_EQ(only(m).rope.scaling, Scaling(Ntk{4}));
  EXPECT_TRUE(noted(m, "rope_type ntk_aware is read as ntk"));
}

TEST(Config, yarn_may_say_its_magnitude_and_its_ratio) {
  const std::string yarn = R"("factor": 4.0, "original_max_position_embeddings": 4096, )";
  const auto of = [&](const std::string& type, const std::string& more) {
    return std::get<Yarn>(
        only(read("llama", R"("rope_scaling": {)" + yarn + more + R"("rope_type": ")" + type + "\"}")).rope.scaling);
  };
  EXPECT_EQ(of("yarn", R"("magnitude": 0.07, )"), of("telechat3-yarn", ""));
  EXPECT_EQ(of("yarn", R"("mscale_ratio": true, )"), of("deepseek_yarn", ""));
  EXPECT_EQ(of("deepseek_yarn", R"("mscale_ratio": false, )"), of("yarn", ""));
  EXPECT_EQ(code_of(model("llama", R"("rope_scaling": {)" + yarn + R"("magnitude": 1e16, "rope_type": "yarn"})")),
            "CONFIG_VALUE");
  EXPECT_EQ(code_of(model("llama", R"("rope_scaling": {"rope_type": "linear", "factor": 2.0, "magnitude": 0.1})")),
            "CONFIG_KEY");
}

TEST(Config, dynamic_may_say_its_trained_length) {
  const Model m = read("llama", R"("rope_scaling": {"rope_type": "dynamic", "factor": 2.0, "trained_length": 2048})");
  EXPECT_EQ(only(m).rope.scaling, Scaling(Dynamic{2, 2048}));
  EXPECT_EQ(code_of(model("llama", R"("rope_scaling": {"rope_type": "dynamic", "factor": 2.0, "trained_length": 0})")),
            "CONFIG_VALUE");
}

// A null says nothing, whichever value of whichever scaling it stands for.
TEST(Config, a_value_that_is_null_is_no_leftover) {
  for (const char* key : {"mixed_b", "attn_factor", "extrapolation_factor", "magnitude", "trained_length", "factor"}) {
    EXPECT_EQ(code_of(model("llama", R"("rope_scaling": {"rope_type": "default", ")" + std::string(key) + "\": null}")),
              "none")
        << key;
  }
}

TEST(Config, equal_frequency_factors_are_read_with_a_note) {
  const Model m = read("llama4_text", R"("rope_theta": 500000.0, "rope_scaling": {"rope_type": "llama3", "factor": 8.0,
    "low_freq_factor": 1.0, "high_freq_factor": 1.0, "original_max_position_embeddings": 8192})");
  EXPECT_EQ(std::get<Llama3>(only(m).rope.scaling).high, 1);
  EXPECT_TRUE(noted(m, "nothing is blended"));
}

// ---- class defaults that scale ----

TEST(Config, gpt_oss_keeps_its_default_yarn_and_takes_only_the_base) {
  const Model m =
      parse_config(R"({"model_type": "gpt_oss", "hidden_size": 2880, "head_dim": 64, "num_attention_heads": 64,
    "num_hidden_layers": 2, "num_key_value_heads": 8, "rope_theta": 150000, "rope_scaling": null})");
  const auto w = inv_freq(only(m));
  expect_near_relative(w[9], 0.0317056962);
  expect_near_relative(w[12], 0.00679495949);
  expect_near_relative(w[16], 4.56483919e-4);
  expect_near_relative(frequencies(only(m).rope, 0).attention_factor, 1.34657359);
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
  const Model scaled =
      read("llama", R"("partial_rotary_factor": 0.5, "rope_scaling": {"type": "linear", "factor": 2.0})");
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

}  // namespace
}  // namespace rotary
