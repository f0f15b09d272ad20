// read_config: files as people have them. Every spelling of a rope gives the same numbers, computed with mpmath (40
// digits) from the published formulas, for values that no model has.
#include <string>
#include <utility>
#include <vector>

#include "tests/support/config_helpers.h"

namespace rotary {
namespace {

using namespace config_test;

// ---- old and new ----

TEST(Spellings, of_a_linear_rope) {
  expect_each(
      "llama",
      {
          R"("rope_theta": 777777.0, "rope_scaling": {"type": "linear", "factor": 3.5})",
          R"("rope_theta": 777777, "rope_scaling": {"rope_type": "linear", "factor": 3.5})",
          R"("rope_theta": 777777, "rope_scaling": {"rope_type": "linear", "type": "linear", "factor": 3.5})",
          R"("rope_scaling": {"rope_type": "linear", "factor": 3.5, "rope_theta": 777777})",
          R"("rope_theta": 1.5, "rope_scaling": {"type": "linear", "factor": 3.5, "rope_theta": 7.77777e5})",
          R"("rope_parameters": {"rope_type": "linear", "factor": 3.5, "rope_theta": 777777.0})",
          R"("rope_theta": 777777, "rope_parameters": {"rope_type": "linear", "factor": 3.5})",
          R"("rope_theta": 777777, "rope_parameters": {"rope_type": "linear", "factor": 3.5,
                     "rope_theta": 777777}, "rope_scaling": null)",
          R"("rope_theta": 777777, "rope_parameters": {"rope_type": "linear", "factor": 3.5}, "rope_scaling": {})",
          R"("rope_theta": 777777, "rope_scaling": {"rope_type": "linear", "factor": 3.5},
                     "rope_parameters": {"rope_type": "linear", "factor": 9.0, "rope_theta": 5.0})",
          R"("rope_theta": 777777, "rope_scaling": {"rope_type": "linear", "factor": 3.5, "beta_fast": null},
                     "rope_type": "linear")",
      },
      {128, half, {{1, 0.23114651223892229}, {20, 0.004121352278565567}, {63, 4.5406859987340155e-7}}});
}

TEST(Spellings, of_an_unscaled_rope) {
  expect_each("llama",
              {
                  R"("rope_theta": 1e6)",
                  R"("rope_theta": 1000000, "rope_scaling": null)",
                  R"("rope_theta": 1000000, "rope_scaling": {"type": "default"})",
                  R"("rope_theta": 1000000, "rope_scaling": {"rope_type": "default", "factor": 1.0})",
                  R"("rope_theta": 1000000, "rope_parameters": null)",
                  R"("rope_theta": 1000000, "rope_parameters": {})",
                  R"("rope_parameters": {"rope_theta": 1000000})",
                  R"("rope_parameters": {"rope_theta": 1000000, "rope_type": "default"}, "rope_type": "default")",
              },
              {128, half, {{1, 0.80584218776148182}}});
}

TEST(Spellings, of_yarn) {
  const std::string with = R"("factor": 5.5, )", beta = R"(, "beta_fast": 32, "beta_slow": 1)";
  const std::string inside = R"("original_max_position_embeddings": 12345)";
  expect_each("qwen2",
              {
                  R"("rope_theta": 3e6, "rope_scaling": {"type": "yarn", )" + with + inside + "}",
                  R"("rope_theta": 3e6, "rope_scaling": {"rope_type": "yarn", )" + with + inside + beta + "}",
                  R"("rope_theta": 3e6, "rope_scaling": {)" + with + inside + R"(, "type": "yarn"})",
                  R"("rope_theta": 3e6, "rope_scaling": {)" + with + inside + R"(.0, "type": "yarn"})",
                  R"("rope_parameters": {"rope_theta": 3e6, "rope_type": "yarn", )" + with + inside + "}",
                  R"("rope_theta": 3e6, "rope_scaling": {"type": "yarn", "factor": 5.5}, )" + inside,
                  R"("rope_theta": 3e6, "rope_scaling": {"type": "yarn", "factor": 5.5,
                     "original_max_position_embeddings": 999}, )" +
                      inside,
                  R"("rope_theta": 3e6, "rope_scaling": {"type": "yarn", "finetuned": true, )" + with + inside + "}",
              },
              {128,
               half,
               {{0, 1},
                {20, 0.0080089062229700315},
                {28, 0.00064156033932692278},
                {40, 1.6271834795687754e-5},
                {63, 7.6510506215588898e-8}},
               1.1704748092238425});
}

TEST(Spellings, of_llama3) {
  const std::string keys = R"("factor": 6.0, "low_freq_factor": 1.5, "high_freq_factor": 5.0)";
  const std::string length = R"("original_max_position_embeddings": 4000)";
  expect_each("llama",
              {
                  R"("rope_theta": 300000.0, "rope_scaling": {"rope_type": "llama3", )" + keys + ", " + length + "}",
                  R"("rope_theta": 300000.0, "rope_scaling": {"type": "llama3", )" + keys + ", " + length + "}",
                  R"("rope_parameters": {"rope_theta": 300000.0, "rope_type": "llama3", )" + keys + ", " + length + "}",
                  R"("rope_theta": 300000.0, "rope_scaling": {"rope_type": "llama3", )" + keys + "}, " + length,
              },
              {128, half, {{20, 0.01942672569101645}, {30, 0.00059554472190722356}, {63, 6.7656186460642874e-7}}});
}

TEST(Spellings, of_dynamic) {
  const std::vector<std::string> files = {
      R"("rope_theta": 20000, "rope_scaling": {"type": "dynamic", "factor": 2.5})",
      R"("rope_theta": 20000, "rope_scaling": {"rope_type": "dynamic", "factor": 2.5})",
      R"("rope_parameters": {"rope_theta": 20000, "rope_type": "dynamic", "factor": 2.5})"};
  for (const std::string& more : files) {
    const std::string file = R"({"model_type": "internlm2", "hidden_size": 4096, "num_attention_heads": 32,
      "num_hidden_layers": 2, "max_position_embeddings": 4096, )" +
                             more + "}";
    const Model m = parse_config(file);
    expect_numbers(only(m), {128, half, {{1, 0.85663616709434278}, {63, 5.8367836802404604e-5}}}, file);
    expect_numbers(only(m), {128, half, {{1, 0.83801480175412423}, {63, 1.4616939321511938e-5}}, 1, 9000}, file);
  }
}

TEST(Spellings, of_longrope) {
  std::string shorts, longs;
  for (int i = 0; i < 48; ++i) {
    const std::string comma = i == 0 ? "" : ", ";
    shorts += comma + (i < 10 ? "1.0" : "1.") + std::to_string(i);
    longs += comma + std::to_string(2 + i / 10) + "." + std::to_string(i % 10);
  }
  const std::string lists = R"("short_factor": [)" + shorts + R"(], "long_factor": [)" + longs + "]";
  const std::string length = R"("original_max_position_embeddings": 4096)";
  const std::string phi3 = R"({"model_type": "phi3", "hidden_size": 3072, "num_attention_heads": 32,
    "num_hidden_layers": 2, "max_position_embeddings": 131072, )";
  const std::vector<std::string> files = {
      phi3 + length + R"(, "rope_theta": 10000.0, "rope_scaling": {"type": "longrope", )" + lists + "}}",
      phi3 + R"("rope_scaling": {"type": "su", )" + lists + ", " + length + "}}",
      phi3 + length + R"(, "rope_scaling": {"type": "yarn", )" + lists + "}}",
      phi3 + R"("rope_scaling": {"rope_type": "longrope", "factor": 32.0, )" + lists + ", " + length + "}}",
      phi3 + R"("rope_parameters": {"rope_theta": 10000, "rope_type": "longrope", "factor": null, )" + lists + ", " +
          length + "}}"};
  for (const std::string& file : files) {
    const Model m = parse_config(file);
    const double a = 1.1902380714238083;
    expect_numbers(only(m), {96, half, {{1, 0.81723186660199844}, {47, 8.2416847525754316e-5}}, a}, file);
    expect_numbers(only(m), {96, half, {{1, 0.39304961203238973}, {47, 1.8082502367590872e-5}}, a, 4097}, file);
  }
}

TEST(Spellings, of_a_rope_per_layer_type) {
  const std::string types = R"("layer_types": ["sliding_attention", "full_attention"], )";
  for (const std::string& more :
       {types + R"("rope_theta": 4000000.0, "rope_local_base_freq": 20000.0)",
        types + R"("rope_theta": 4000000, "rope_local_base_freq": 20000, "rope_scaling": null)",
        types + R"("rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 4000000.0},
                   "sliding_attention": {"rope_type": "default", "rope_theta": 20000.0}})"}) {
    const Model m = parse_config(R"({"model_type": "gemma3_text", "num_attention_heads": 8, "head_dim": 64,
                                     "num_hidden_layers": 2, )" +
                                 more + "}");
    ASSERT_EQ(m.ropes.size(), 2u) << more;
    EXPECT_EQ(m.ropes[0].layers, Layers{0}) << more;
    expect_numbers(m.ropes[0], {64, half, {{1, 0.73382552277408677}, {31, 6.8136087459842745e-5}}}, more);
    expect_numbers(m.ropes[1], {64, half, {{1, 0.62184998082277242}, {31, 4.0202622450711329e-7}}}, more);
  }
}

// ---- partial rotation ----

TEST(Spellings, of_a_part_of_the_head) {
  const Numbers want = {48, half, {{1, 0.65080859676276648}, {23, 5.1218335927243505e-5}}};
  expect_each("persimmon",
              {R"("rope_theta": 30000.0, "partial_rotary_factor": 0.375)",
               R"("rope_theta": 30000.0, "partial_rotary_factor": 0.375, "rope_scaling": null)",
               R"("rope_parameters": {"rope_type": "default", "rope_theta": 30000, "partial_rotary_factor": 0.375})",
               R"("partial_rotary_factor": 0.375, "rope_parameters": {"rope_theta": 30000})",
               R"("partial_rotary_factor": 0.5, "rope_parameters": {"rope_theta": 30000,
                  "partial_rotary_factor": 0.375})"},
              want);
  expect_each("stablelm_epoch", {R"("rope_theta": 30000, "rope_pct": 0.375, "rotary_scaling_factor": 1.0)"}, want);
  expect_each("gpt_neox",
              {R"("rotary_emb_base": 30000, "rotary_pct": 0.375)",
               R"("rope_parameters": {"rope_type": "default", "rope_theta": 30000, "partial_rotary_factor": 0.375})"},
              want);
  expect_each("qwen", {R"("rotary_emb_base": 30000, "rotary_pct": 0.375, "use_dynamic_ntk": true)"}, want);
  expect_each("bailing_moe",
              {R"("rope_theta": 30000, "rotary_dim": 48)",
               R"("rope_theta": 30000, "rotary_dim": 48, "partial_rotary_factor": 0.375)"},
              want);
  expect_each(
      "persimmon",
      {R"("rope_theta": 30000, "partial_rotary_factor": 0.375, "rope_scaling": {"type": "linear", "factor": 2})",
       R"("rope_theta": 30000, "rope_scaling": {"type": "linear", "factor": 2, "partial_rotary_factor": 0.375})"},
      {48, half, {{1, 0.32540429838138324}, {23, 2.5609167963621752e-5}}});
}

TEST(Spellings, of_gptj_and_its_kin) {
  const Numbers want = {48, interleaved, {{1, 0.68129206905796129}, {23, 0.00014677992676220695}}};
  expect_each({R"({"model_type": "gptj", "n_embd": 4096, "n_head": 32, "n_layer": 2, "rotary_dim": 48})",
               R"({"model_type": "codegen", "n_embd": 4096, "n_head": 32, "n_layer": 2, "rotary_dim": 48})"},
              want);
}

// ---- several models in one file ----

TEST(Spellings, of_qwen2_5_vl) {
  const std::string text = R"("hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4,
    "num_hidden_layers": 2, "rope_theta": 1000000.0, "rope_scaling": )";
  const std::string sections = R"("mrope_section": [16, 24, 24]})";
  const std::string axes = std::string(16, '0') + std::string(24, '1') + std::string(24, '2');
  for (const std::string& scaling :
       {R"({"type": "mrope", )" + sections, R"({"type": "default", "rope_type": "default", )" + sections,
        R"({"type": "mrope", "rope_type": "default", )" + sections, R"({"rope_type": "default", )" + sections}) {
    const std::string flat = R"({"model_type": "qwen2_5_vl", )" + text + scaling + "}";
    const std::string nested =
        R"({"model_type": "qwen2_5_vl", "text_config": {"model_type": "qwen2_5_vl_text", )" + text + scaling + "}}";
    for (const std::string& file : {flat, nested}) {
      const Model m = parse_config(file);
      expect_numbers(only(m), {128, half, {{1, 0.80584218776148182}}}, file);
      std::string listens;
      for (const std::uint8_t axis : only(m).rope.axis) listens += static_cast<char>('0' + axis);
      EXPECT_EQ(listens, axes) << file;
    }
  }
}

TEST(Spellings, keys_outside_the_sub_configs_are_not_read_and_noted) {
  const Model m = parse_config(R"({"model_type": "llava", "rope_theta": 5.0, "text_config": )" +
                               model("llama", R"("rope_theta": 1000000.0)") + "}");
  expect_numbers(only(m), {128, half, {{1, 0.80584218776148182}}}, "llava");
  EXPECT_TRUE(noted(m, "rope_theta outside the sub-configs is not read"));
  EXPECT_EQ(code_of(R"({"model_type": "llava", "rope_foo": 5.0, "text_config": )" + model("llama", "") + "}"),
            "CONFIG_KEY");
}

TEST(Spellings, of_models_inside_models) {
  const std::string text = model("internlm2", R"("rope_theta": 1000000.0)");
  for (const std::string& file : {R"({"model_type": "internvl_chat", "llm_config": )" + text +
                                      R"(, "vision_config": {"model_type": "intern_vit_6b"}})",
                                  R"({"model_type": "ovis", "llm_config": )" + text + "}",
                                  R"({"model_type": "multi_modality", "language_config": )" + text + "}"}) {
    expect_numbers(only(parse_config(file)), {128, half, {{1, 0.80584218776148182}}}, file);
  }
  const Model ovis = parse_config(R"({"model_type": "ovis2_5", "llm_config": )" + text + R"(, "vit_config": {
    "model_type": "siglip2_navit", "hidden_size": 1408, "num_attention_heads": 16, "num_hidden_layers": 2,
    "use_rope": true}})");
  ASSERT_EQ(ovis.ropes.size(), 2u);
  EXPECT_EQ(ovis.ropes[1].part, "vit_config");
  expect_numbers(ovis.ropes[1], {88, half, {{1, 0.65793322465756799}, {21, 0.00015199110829529337}}}, "siglip2_navit");
}

// ---- params.json ----

TEST(Spellings, of_mistrals_params) {
  const std::string mistral = R"({"dim": 4096, "n_layers": 2, "head_dim": 128, "hidden_dim": 14336, "n_heads": 32,
    "n_kv_heads": 8, "norm_eps": 1e-05, "rope_theta": 2000000.0)";
  const std::string yarn =
      R"(, "yarn": {"original_max_position_embeddings": 8192, "factor": 24, "beta": 16, "alpha": 2)";
  const std::vector<std::pair<std::size_t, double>> inv_freq = {
      {10, 0.10362488537861349}, {30, 4.6364005408667013e-5}, {40, 4.8044647461665351e-6}};
  expect_each({mistral + yarn + "}}", mistral + yarn + R"(, "apply_scale": true}, "max_seq_len": 262144})"},
              {128, interleaved, inv_freq, 1.3178053830347946});
  expect_each({mistral + yarn + R"(, "apply_scale": false},
                 "llama_4_scaling": {"original_max_position_embeddings": 8192, "beta": 0.1}, "moe": {"num_experts": 8,
                 "num_experts_per_tok": 2, "first_k_dense_replace": 3, "route_every_n": 1}})"},
              {128, interleaved, inv_freq});
  EXPECT_EQ(code_of(mistral + yarn + R"(, "gamma": 2}})"), "CONFIG_KEY");
  EXPECT_EQ(code_of(mistral + R"(, "rope_foo": 2})"), "CONFIG_KEY");
  EXPECT_EQ(code_of(mistral + R"(, "moe": {"rope_foo": 2}})"), "CONFIG_KEY");
  EXPECT_EQ(code_of(mistral + R"(, "vision_encoder": {"hidden_size": 1024, "num_hidden_layers": 2,
                                    "num_attention_heads": 16, "rope_theta": 10000.0, "rope_foo": 2}})"),
            "CONFIG_KEY");
}

TEST(Spellings, of_metas_params) {
  const std::string meta = R"({"dim": 4096, "n_layers": 4, "n_heads": 32, "n_kv_heads": 8, "multiple_of": 1024,
    "ffn_dim_multiplier": 1.3, "norm_eps": 1e-05, "vocab_size": 128256, "rope_theta": 500000.0)";
  expect_each({meta + R"(, "use_scaled_rope": true, "rope_scaling_factor": 32})"},
              {128, interleaved, {{29, 0.0021184069967796075}, {63, 7.6723149722862777e-8}}});
  const Model four = parse_config(meta + R"(, "use_scaled_rope": true, "rope_scaling_factor": 16.0,
    "rope_high_freq_factor": 1.0, "nope_layer_interval": 4, "moe_args": {"num_experts": 16}, "vision_args": {
      "image_size": {"height": 336, "width": 336}, "dim": 1408, "n_layers": 2, "n_heads": 16, "mlp_ratio": 4.0}})");
  ASSERT_EQ(four.ropes.size(), 2u);
  EXPECT_EQ(four.ropes[0].layers_without_rope, Layers{3});
  EXPECT_EQ(four.ropes[1].part, "vision_args");
  expect_numbers(four.ropes[1], {88, interleaved, {{1, 0.65793322465756799}, {21, 0.00015199110829529337}}}, "vision");
}

TEST(Spellings, of_the_original_gpt_oss_file) {
  expect_each({R"({"num_hidden_layers": 2, "hidden_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8,
                   "head_dim": 64, "rope_theta": 150000.0, "rope_scaling_factor": 8.0, "initial_context_length": 4096,
                   "rope_ntk_alpha": 2.0, "rope_ntk_beta": 24.0})"},
              {64,
               half,
               {{9, 0.034393540859915665}, {12, 0.0067450672425298578}, {20, 7.2753346726758237e-5}},
               1.2079441541679836});
}

}  // namespace
}  // namespace rotary
