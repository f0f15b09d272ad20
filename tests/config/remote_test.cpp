// read_config: families of remote code, which transformers lacks or spells another way. Numbers computed with mpmath
// (40 digits) from what the published code says.
#include <string>
#include <utility>
#include <vector>

#include "tests/support/config_helpers.h"

namespace rotary {
namespace {

using namespace config_test;

TEST(Spellings, of_chatglm) {
  const std::string chatglm = R"({"model_type": "chatglm", "hidden_size": 4096, "num_attention_heads": 32,
    "num_layers": 2, "kv_channels": 128, "multi_query_attention": true, "multi_query_group_num": 2, "rope_ratio": 37)";
  const Numbers want = {64, interleaved, {{1, 0.66987488596902056}, {31, 4.034638048555971e-6}}};
  expect_each({chatglm + "}", chatglm + R"(, "original_rope": true, "seq_length": 32768})"}, want);
}

TEST(Spellings, of_mpt_with_a_rope) {
  const auto mpt = [](const std::string& hf) {
    return R"({"model_type": "mpt", "d_model": 4096, "n_heads": 32, "n_layers": 2, "max_seq_len": 2048,
      "attn_config": {"alibi": false, "rope": true, "rope_theta": 50000, "rope_impl": "hf",
        "rope_dail_config": {"type": "original", "pos_idx_in_fp32": true, "xpos_scale_base": 512},
        "rope_hf_config": )" +
           hf + "}}";
  };
  expect_each({mpt(R"({"type": "linear", "factor": 3.0})")},
              {128, half, {{1, 0.28148634956284233}, {63, 7.8946003089436034e-6}}});
  expect_each({mpt(R"({"type": "dynamic", "factor": 3.0})")},
              {128, half, {{1, 0.82233868745453206}, {63, 4.4483147742250091e-6}}, 1, 5000});
  const Model plain = parse_config(mpt(R"({"type": "no_scaling", "factor": 1.0})"));
  EXPECT_TRUE(std::holds_alternative<Unscaled>(only(plain).rope.scaling));
  EXPECT_EQ(code_of(mpt(R"({"type": "no_scaling", "factor": 3.0})")), "CONFIG_KEY");
}

TEST(Spellings, of_the_first_internlm) {
  const std::string internlm = R"({"model_type": "internlm", "hidden_size": 4096, "num_attention_heads": 32,
    "num_hidden_layers": 2, "max_position_embeddings": 2048, "rotary": {"base": 10000, "type": ")";
  expect_each({internlm + R"(dynamic"}})", internlm + R"(dynamic", "scaling_factor": 1.0}})"},
              {128, half, {{1, 0.85378197802463763}, {63, 4.7299870092880207e-5}}, 1, 5000});
  EXPECT_TRUE(std::holds_alternative<Unscaled>(only(parse_config(internlm + R"(origin"}})")).rope.scaling));
}

TEST(Spellings, of_scalings_that_only_remote_code_knows) {
  expect_each("BlueLM",
              {R"("rope_theta": 10000.0, "rope_scaling": {"type": "ntkmixed", "factor": 16.0, "power": 0.625})"},
              {128, half, {{0, 0.81377294460922695}, {1, 0.63019817103126122}, {63, 7.2173874043091136e-6}}});
  expect_each("telechat3", {R"("rope_theta": 1e6, "rope_scaling": {"type": "telechat3-yarn", "factor": 4.0,
                  "original_max_position_embeddings": 8192})"},
              {128, half, {{1, 0.80584218776148182}, {40, 4.445698525097307e-5}}, 1.0970406052783923});
  expect_each("hunyuan",
              {R"("rope_scaling": {"alpha": 50.0, "factor": 1.0, "type": "dynamic"}, "use_rotary_pos_emb": true,
                  "position_embedding_xdrope": false)"},
              {128, half, {{1, 0.81382723984062043}, {63, 2.3095639693789164e-6}}});
}

TEST(Spellings, of_deepseeks_yarn) {
  const std::string mla = R"("qk_nope_head_dim": 128, "qk_rope_head_dim": 64, )";
  const std::string keys = R"("factor": 40, "mscale": 0.707, "mscale_all_dim": 0.5,
                              "original_max_position_embeddings": 4096)";
  const std::vector<std::pair<std::size_t, double>> inv_freq = {
      {1, 0.74989420933245583}, {16, 0.0055}, {31, 3.3338035804083101e-6}};
  const double a = 1.064468903941252;
  expect_each(
      "deepseek_v3",
      {mla + R"("rope_theta": 10000, "rope_scaling": {"type": "yarn", "beta_fast": 32, "beta_slow": 1, )" + keys + "}",
       mla + R"("rope_interleave": true, "rope_parameters": {"rope_theta": 1e4, "rope_type": "yarn", )" + keys + "}"},
      {64, Pairing::interleaved_to_half, inv_freq, a});
  expect_each("deepseek_v3", {mla + R"("rope_interleave": false, "rope_scaling": {"type": "yarn", )" + keys + "}"},
              {64, half, inv_freq, a});
  expect_each("deepseek_v2", {mla + R"("rope_scaling": {"type": "yarn", )" + keys + "}"},
              {64, interleaved, inv_freq, a});
}

TEST(Spellings, of_mimo_v2) {
  const std::string mimo = R"({"model_type": "mimo_v2_flash", "num_attention_heads": 64, "num_key_value_heads": 4,
    "hidden_size": 4096, "head_dim": 192, "num_hidden_layers": 3, "swa_num_attention_heads": 64,
    "swa_num_key_value_heads": 8, "swa_head_dim": 192, )";
  for (const std::string& more :
       {std::string(R"("rope_theta": 4000000, "swa_rope_theta": 20000, "partial_rotary_factor": 0.334,
                       "rope_scaling": null, "hybrid_layer_pattern": [0, 1, 0])"),
        std::string(R"("layer_types": ["full_attention", "sliding_attention", "full_attention"], "rope_parameters": {
          "full_attention": {"rope_type": "default", "rope_theta": 4000000, "partial_rotary_factor": 0.334},
          "sliding_attention": {"rope_type": "default", "rope_theta": 20000, "partial_rotary_factor": 0.334}})")}) {
    const Model m = parse_config(mimo + more + "}");
    ASSERT_EQ(m.ropes.size(), 2u) << more;
    EXPECT_EQ(m.ropes[0].layers, (Layers{0, 2})) << more;
    EXPECT_EQ(m.ropes[1].kv_heads, 8) << more;
    expect_numbers(m.ropes[0], {64, half, {{1, 0.62184998082277242}, {31, 4.0202622450711329e-7}}}, more);
    expect_numbers(m.ropes[1], {64, half, {{1, 0.73382552277408677}, {31, 6.8136087459842745e-5}}}, more);
  }
}

TEST(Spellings, of_openelm_whose_layers_differ_in_heads) {
  const Model m = parse_config(R"({"model_type": "openelm", "model_dim": 1280, "head_dim": 64,
    "num_transformer_layers": 3, "num_query_heads": [12, 12, 20], "num_kv_heads": [3, 3, 5],
    "rope_freq_constant": 12345, "rope_max_length": 4096})");
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[0].layers, (Layers{0, 1}));
  EXPECT_EQ(m.ropes[1].heads, 20);
  EXPECT_EQ(m.ropes[1].kv_heads, 5);
  expect_numbers(m.ropes[1], {64, half, {{1, 0.74497363532401489}, {31, 0.00010873466040151452}}}, "openelm");
}

TEST(Spellings, of_laguna_whose_layers_differ_in_heads) {
  const Model m = parse_config(R"({"model_type": "laguna", "hidden_size": 64, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 16, "num_hidden_layers": 3, "num_attention_heads_per_layer": [4, 8, 8],
    "layer_types": ["full_attention", "full_attention", "full_attention"]})");
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[0].heads, 4);
  EXPECT_EQ(m.ropes[1].heads, 8);
  EXPECT_EQ(m.ropes[1].kv_heads, 2);
  EXPECT_EQ(m.ropes[1].layers, (Layers{1, 2}));
}

TEST(Spellings, baichuan_turns_unless_it_is_13b) {
  const std::string layers = R"({"model_type": "baichuan", "num_hidden_layers": 2, )";
  for (const char* sizes : {R"("hidden_size": 4096, "num_attention_heads": 32, "max_position_embeddings": 4096})",
                            R"("hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 4096})"}) {
    const Model m = parse_config(layers + sizes);
    ASSERT_EQ(m.ropes.size(), 1u) << sizes;
    EXPECT_EQ(m.ropes.front().rope.pairing, half);
  }
  for (const char* sizes : {R"("hidden_size": 5120, "num_attention_heads": 40, "model_max_length": 4096})",
                            R"("hidden_size": 64, "num_attention_heads": 4, "model_max_length": 4096})"}) {
    EXPECT_TRUE(parse_config(layers + sizes).ropes.empty()) << sizes;
  }
}

TEST(Spellings, of_mpt_with_one_key_head) {
  const Model m = parse_config(R"({"model_type": "mpt", "d_model": 64, "n_heads": 4, "n_layers": 2,
    "attn_config": {"rope": true, "rope_theta": 10000, "attn_type": "multiquery_attention"}})");
  EXPECT_EQ(m.ropes.front().kv_heads, 1);
}

TEST(Spellings, remote_families_turn_as_their_own_code_does) {
  const std::string theta = R"("rope_theta": 1000000.0, "rope_scaling": null)";
  for (const char* type : {"aquila",       "arctic",  "BlueLM",     "deepseek",  "dots_ocr",
                           "Dream",        "exaone",  "grok-1",     "internlm2", "internlmxcomposer2",
                           "llada2_moe",   "minicpm", "minicpmv",   "mimo",      "molmo",
                           "orion",        "solar",   "step3_text", "telechat3", "xverse",
                           "Yi",           "index",   "skywork",    "zhinao",    "aria_moe_lm",
                           "bidir_mistral"}) {
    expect_numbers(only(read(type, theta)), {128, half, {{1, 0.80584218776148182}}}, type);
  }
  EXPECT_TRUE(read("jais", R"("position_embedding_type": "alibi")").ropes.empty());
  EXPECT_TRUE(
      read("kimi_linear", R"("rope_theta": 10000.0, "mla_use_nope": true, "qk_rope_head_dim": 64)").ropes.empty());
  EXPECT_TRUE(read("llada", R"("rope": false, "rope_theta": 500000.0)").ropes.empty());
  EXPECT_EQ(read("llada", R"("rope_theta": 50000.0)").ropes.size(), 1u);  // LLaDA-MoE does not say "rope"
  EXPECT_EQ(only(read("codeshell", R"("position_embedding_type": "rope")")).rope.pairing, half);
}

TEST(Spellings, of_exaone_4_5_whose_text_model_has_a_name_of_its_own) {
  const std::string text = R"("text_config": {"model_type": "exaone4_5_text", "hidden_size": 5120,
    "num_attention_heads": 40, "num_key_value_heads": 8, "num_hidden_layers": 4, "max_position_embeddings": 262144,
    "sliding_window": 4096, "sliding_window_pattern": "LLLG",
    "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
    "rope_scaling": {"factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "rope_theta": 1000000.0,
      "original_max_position_embeddings": 8192, "rope_type": "llama3"}})";
  const Model m = parse_config(R"({"model_type": "exaone4_5", )" + text + "}");
  EXPECT_EQ(only(m).layers, (Layers{0, 1, 2}));
  EXPECT_EQ(only(m).layers_without_rope, (Layers{3}));
  expect_numbers(
      only(m), {128, half, {{1, 0.805842187761481817}, {33, 6.3121332402820726782e-5}, {63, 7.7558610046982472881e-8}}},
      text);
}

// SGLang's Grok1Attention: "original" keeps the frequencies, and no magnitude is multiplied in.
TEST(Spellings, of_grok_2_whose_file_says_git) {
  const std::string grok = R"({"architectures": ["Grok1ForCausalLM"], "model_type": "git", "hidden_size": 8192,
    "head_dim": 128, "num_attention_heads": 64, "num_key_value_heads": 8, "num_hidden_layers": 64,
    "max_position_embeddings": 131072, "rope_theta": 208533496, "original_max_position_embeddings": 8192,
    "scaling_factor": 16.0, "extrapolation_factor": 1.0, "attn_factor": 1.0, "beta_fast": 8, "beta_slow": 1)";
  const Model m = parse_config(grok + R"(, "rope_type": "original"})");
  EXPECT_EQ(m.model_type, "grok-1");
  expect_numbers(only(m), {128, half, {{1, 0.74133222304070724547}, {63, 6.468614920199472534e-9}}}, grok);
  EXPECT_EQ(code_of(grok + R"(, "rope_type": "yarn_log"})"), "CONFIG_KEY");
  EXPECT_TRUE(parse_config(R"({"architectures": ["GitForCausalLM"], "model_type": "git"})").ropes.empty());
}

TEST(Spellings, of_longchat_whose_positions_are_divided) {
  for (const char* more :
       {R"("rope_condense_ratio": 8)",
        R"("rope_condense_ratio": 8, "rope_parameters": {"rope_type": "default", "rope_theta": 1e4})"}) {
    const Model m = read("llama", more);
    expect_numbers(only(m), {128, half, {{1, 0.10824554042000816904}, {63, 1.4434774808618227246e-5}}}, more);
    EXPECT_TRUE(noted(m, "FastChat")) << more;
    EXPECT_FALSE(noted(m, "not scaled")) << more;
  }
  EXPECT_EQ(code_of(model("llama", R"("rope_condense_ratio": 0.5)")), "CONFIG_VALUE");
  EXPECT_EQ(code_of(model("llama", R"("rope_condense_ratio": 8, "rope_scaling": {"type": "linear", "factor": 2.0})")),
            "CONFIG_KEY");
}

// vLLM's WhisperCausalAttention: neighbours, base 1000000.
TEST(Spellings, of_voxtral_realtime_as_mistral_writes_it) {
  const std::string text = R"({"dim": 3072, "n_layers": 2, "head_dim": 128, "hidden_dim": 9216, "n_heads": 32,
    "n_kv_heads": 8, "rope_theta": 1e6, "multimodal": {"whisper_model_args": {"encoder_args": {"dim": 1280,
    "n_layers": 3, "head_dim": 64, "n_heads": 32, "n_kv_heads": 32)";
  const std::string turning = text + R"(, "rope_theta": 1e6, "pos_embed": "rope"}}}})";
  const Model m = parse_config(turning);
  ASSERT_EQ(m.ropes.size(), 2u);
  EXPECT_EQ(m.ropes[1].layers, (Layers{0, 1, 2}));
  expect_numbers(m.ropes[1], {64, interleaved, {{1, 0.64938163157621131513}, {31, 1.5399265260594919896e-6}}}, turning);
  EXPECT_EQ(parse_config(text + "}}}}").ropes.size(), 1u);  // the first Voxtral
}

TEST(Spellings, of_params_json_of_others) {
  const std::string params = R"({"dim": 4096, "n_layers": 2, "n_heads": 32, "head_dim": 128, "rope_theta": 1e4)";
  expect_each({params + "}", params + R"(, "model_type": "transformer"})"},
              {128, interleaved, {{1, 0.86596432336006535235}, {63, 0.00011547819846894581797}}});
  EXPECT_EQ(code_of(params + R"(, "n_dense_layers": 3, "kv_lora_rank": 512})"), "MODEL_TYPE");  // DeepSeek's own code
}

TEST(Spellings, of_deepseek_ocr_whose_text_model_stands_twice) {
  const std::string text = R"("hidden_size": 1280, "num_attention_heads": 10, "num_key_value_heads": 10,
    "num_hidden_layers": 12, "max_position_embeddings": 8192, "kv_lora_rank": null, "qk_nope_head_dim": 0,
    "qk_rope_head_dim": 0, "use_mla": false, "v_head_dim": 0)";
  const Model m = parse_config(R"({"model_type": "deepseek_vl_v2", "language_config": {)" + text + "}, " + text + "}");
  EXPECT_EQ(only(m).heads, 10);
  expect_numbers(only(m), {128, half, {{1, 0.86596432336006535235}, {63, 0.00011547819846894581797}}}, text);
}

TEST(Spellings, of_neobert_and_the_first_phi) {
  expect_each({R"({"model_type": "neobert", "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 28})"},
              {64, interleaved, {{1, 0.7498942093324558273}, {31, 0.00013335214321633240257}}});
  for (const char* type : {"phi-msft", "mixformer-sequential"}) {
    expect_each(type, {R"("rotary_dim": 32, "flash_rotary": false, "flash_attn": false, "fused_dense": false)"},
                {32, half, {{1, 0.56234132519034908039}, {15, 0.00017782794100389228012}}});
  }
}

TEST(Spellings, of_apriel_and_pangu) {
  expect_each("apriel", {R"("rope_theta": 1000000.0, "rope_scaling": {"attention_factor": null, "beta_fast": 32.0,
                  "beta_slow": 1.0, "factor": 8.0, "original_max_position_embeddings": 4096, "rope_type": "yarn"})"},
              {128,
               half,
               {{1, 0.805842187761481817}, {30, 0.00026734835521866180374}, {63, 1.5511722009396494576e-7}},
               1.2079441541679835928});
  expect_numbers(only(read("PanguEmbedded", "")), {128, half, {{1, 0.77167712272571096158}}}, "PanguEmbedded");
  EXPECT_EQ(code_of(model("skywork", R"("rope_scaling": {"type": "ntk", "factor": 2.0})")), "CONFIG_KEY");
  EXPECT_EQ(code_of(model("index", R"("rope_ratio": 2.0)")), "CONFIG_KEY");
}

// vLLM's plamo2.py: layer i attends where i % mamba_step is mamba_step // 2.
TEST(Spellings, of_plamo_2_of_which_few_layers_attend) {
  const auto plamo = [](const std::string& more) {
    return R"({"model_type": "plamo2", "hidden_size": 2048, "hidden_size_per_head": 64, "num_attention_heads": 16,
      "num_key_value_heads": 1, "num_hidden_layers": 6, )" +
           more + "}";
  };
  const Model m = parse_config(plamo(R"("mamba_step": 2)"));
  EXPECT_EQ(only(m).layers, (Layers{1, 3, 5}));
  expect_numbers(only(m), {64, half, {{1, 0.7498942093324558273}, {31, 0.00013335214321633240257}}}, "plamo2");
  EXPECT_EQ(only(parse_config(plamo(R"("mamba_step": 4)"))).layers, (Layers{2}));
  EXPECT_EQ(only(parse_config(plamo(R"("mamba_step": 16)"))).layers, (Layers{5}));
  EXPECT_EQ(only(parse_config(plamo(R"("mamba_step": 2, "mamba_enabled": false)"))).layers.size(), 6u);
}

TEST(Config, a_sub_config_that_is_not_an_object_is_refused) {
  EXPECT_EQ(code_of(model("llama", R"("vision_config": true)")), "CONFIG_VALUE");
  EXPECT_EQ(code_of(model("csm", R"("depth_decoder_config": "default")")), "CONFIG_VALUE");
  EXPECT_EQ(code_of(model("llama", R"("vision_config": null, "audio_config": {})")), "none");
}

TEST(Config, other_words_for_positions_are_noted) {
  for (const char* key : {"position_embedding", "pos_emb", "pos_embed", "pe_type"}) {
    const std::string begin = '"' + std::string(key) + "\": \"";
    EXPECT_TRUE(noted(read("llama", begin + "alibi\""), key)) << key;
    EXPECT_FALSE(noted(read("llama", begin + "rope\""), key)) << key;
  }
}

TEST(Config, labels_and_module_names_are_no_rope_keys) {
  EXPECT_EQ(code_of(model("llama", R"("label2id": {"Europe": 0, "rope": 1}, "europe_mode": 1,
    "task_specific_params": {"rope_jump": {}}, "indexer_rope_interleave": true,
    "quantization": {"model.layers.0.self_attn.rotary_emb": false})")),
            "none");
  EXPECT_EQ(code_of(model("llama", R"("quantization": {"rope_foo": 1})")), "CONFIG_KEY");
}

TEST(Config, a_file_of_diffusers_is_refused_whatever_pairing_is_given) {
  const std::string flux = R"({"_class_name": "FluxTransformer2DModel", "_diffusers_version": "0.30.0",
    "attention_head_dim": 128, "num_attention_heads": 24, "num_layers": 19})";
  ConfigOptions options;
  options.pairing = half;
  EXPECT_EQ(code_of(flux), "MODEL_TYPE");
  EXPECT_NE(sentence_of(flux, options).find("diffusers"), std::string::npos);
  EXPECT_NE(sentence_of("[]").find("is an array"), std::string::npos);
}

}  // namespace
}  // namespace rotary
