// read_config on files: keys that must not be ignored, malformed files, folders, and the form of the sentences. The
// readings of configs are in files/tests/golden/readings.txt (readings_test.cpp).
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "files/tests/config_helpers.h"
#include "text/io.h"

namespace rotary {
namespace {

const std::string params = R"({"dim": 64, "n_layers": 1, "n_heads": 2, "norm_eps": 1e-5, "hidden_dim": 9)";

using namespace config_test;

bool says(const std::string& json, const std::string& words) {
  return sentence_of(json).find(words) != std::string::npos;
}

// ---- nothing ignored ----

TEST(Config, every_key_that_sounds_like_a_rope_is_refused_by_name) {
  for (const std::string_view word :
       files::words("foo_rope rotary_foo yarn_factor ntk_alpha theta_base rope_theta_2 no_rope rope_type "
                    "rope_freq_base freq_base rope_local_theta rope_local_base_freq max_rope_len rotary_percentage "
                    "rotate_every_two rope_traditional rope_interleaved ropeScaling ropeTheta ROPE_THETA "
                    "_rope_theta mrope_section rope_layout nope_layers swa_rope_theta use_xpos inv_freq beta_fast "
                    "attention_factor attn_factor extrapolation_factor truncate yarn_mscale "
                    "orig_max_position_embeddings no_rope_layers layer_rope_theta rope_deltas_2")) {
    const std::string key(word), line = '"' + key + R"(": 12345)";
    for (const std::string& json :
         {model("llama", line), model("llama", R"("a": {"b": {"c": {)" + line + "}}}"),
          model("llama", R"("a": [[{"b": [{)" + line + "}]}]]"), model("bert", line),
          R"({"model_type": "llava", "text_config": )" + model("llama", line) + "}", params + ", " + line + "}"}) {
      EXPECT_EQ(code_of(json), "CONFIG_KEY") << json;
      EXPECT_NE(sentence_of(json).find("nothing reads " + key + " in"), std::string::npos) << sentence_of(json);
    }
  }
}

TEST(Config, a_model_without_an_indexer_has_none_by_keys) {
  EXPECT_EQ(parse_config(model("llama", R"("index_n_heads": 4)")).parts.front().indexer.heads, 0);
}

// ---- malformed files ----

// Texts of one line are in the readings.
TEST(Config, malformed_json_is_refused) {
  const std::string sound = model("llama", "");
  for (const std::string& json :
       {std::string(), std::string("{\"a\": \"\xff\"}"), sound + std::string(1, '\0'), "\xEF\xBB\xBF" + sound,
        std::string(100000, '['), std::string((16u << 20) + 1, ' ')}) {
    EXPECT_EQ(code_of(json), "JSON") << json.substr(0, 100);
  }
  EXPECT_TRUE(says(" \n", "but is empty"));
  EXPECT_TRUE(says("{\"a\": 1,\n \"b\": [1, 2,\n ]}", "line 2 has a comma with nothing behind it before ']'"));
  EXPECT_TRUE(says("{\"a\": \xFF}", "\\xFF"));
  EXPECT_TRUE(says("{\"model_type\": \"\xC3(\"}", "\\xC3("));
  EXPECT_TRUE(says("{\"a\": \"" + std::string(1000, 'a') + "\n\"}", "aaa..."));  // a part of what was read
}

// ---- limits ----

TEST(Config, limits_are_taken_and_what_lies_beyond_is_refused) {
  const auto scaled = [](const char* keys) {
    return R"({"model_type": "llama", "num_hidden_layers": 2, "num_attention_heads": 1, "head_dim": 8,
               "rope_scaling": {"original_max_position_embeddings": 4096, "rope_type": )" +
           std::string(keys) + "}}";
  };
  const auto theta_scaled = [](const std::string& length) {  // above 2 pi
    return model(
        "llama",
        R"("rope_scaling": {"type": "theta_scale", "factor": 4, "original_max_position_embeddings": )" + length + "}");
  };
  const std::string mistral = params + ", ", layers = R"("num_hidden_layers": 2, "num_attention_heads": 4, )",
                    oss = R"({"initial_context_length": 64, "hidden_size": 64, )" + layers;
  for (const auto& [json, code] : std::vector<std::pair<std::string, std::string>>{
           {scaled(R"("longrope", "factor": 2, "short_factor": [1e15, 1, 1, 1e-15], "long_factor": [1, 1, 1, 1])"), ""},
           {scaled(R"("llama3", "factor": 1e15, "low_freq_factor": 1e15, "high_freq_factor": 1e15)"), ""},
           {scaled(R"("llama3", "factor": 8, "low_freq_factor": 0, "high_freq_factor": 4)"), "VALUE"},
           {scaled(R"("yarn", "factor": 1e15, "attention_factor": 1e15, "beta_fast": 1e15, "beta_slow": 1e15)"), ""},
           {scaled(R"("yarn", "factor": 4, "mscale": -1e15, "attn_factor": 1e15)"), ""},
           {scaled(R"("yarn_log", "factor": 4, "beta_fast": 2, "beta_slow": 2)"), ""},
           {model("llama", R"("rope_scaling": {"type": "linear", "factor": 2, "original_max_position_embeddings": 0})"),
            "VALUE"},
           {model("llama", R"("rope_scaling": {"type": "yarn", "original_max_position_embeddings": 131072})"), ""},
           {scaled(R"("yarn", "factor": 4, "attention_factor": 0)"), ""},
           {scaled(R"("yarn_log", "factor": 4, "beta_fast": 1, "beta_slow": 2)"), "VALUE"},
           {scaled(R"("longrope", "factor": 1e15, "short_factor": [1, 1, 1, 1], "long_factor": [1, 1, 1, 1])"), ""},
           {scaled(R"("llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 2e15)"), "VALUE"},
           {scaled(R"("ntk", "factor": 8, "mixed_b": 0)"), ""},
           {scaled(R"("ntk", "factor": 8, "mixed_b": 16.5)"), "VALUE"},
           {model("llama", R"("rope_scaling": {"type": "yarn", "original_max_position_embeddings": 262144})"), "VALUE"},
           {theta_scaled("6"), "VALUE"},
           {theta_scaled("7"), ""},
           {model("llama", R"("rope_condense_ratio": 1e15)"), ""},
           {model("granite_swa", R"("layer_rope_theta": [1e4, 2e4, 0, 1e4], "rope_theta": 5e5)"), ""},
           {model("llama", R"("rope_parameters": false)"), ""},
           {model("step3p5", R"("rope_theta": [1e4, 1e4, 1e4, 1])"), "VALUE"},
           {model("laguna", R"("num_attention_heads_per_layer": [8, 8, 16, 1], "num_kv_heads": [1, 1, 1, 1])"), ""},
           {model("llama", R"("per_layer_config": {"0": {"num_attention_heads": 0}})"), "VALUE"},
           {model("lfm2", R"("full_attn_idxs": [0, 3])"), ""},
           {model("deepseek_v3", R"("qk_nope_head_dim": 0)"), ""},
           {mistral + R"("rope_theta": 1})", "VALUE"},
           {mistral + R"("rope_theta": 1.5})", ""},
           {mistral + R"("kv_lora_rank": 8})", "MISSING"},
           {mistral + R"("qk_rope_head_dim": 8})", "MISSING"},
           {mistral + R"("qk_nope_head_dim": 8})", "MISSING"},
           {R"({"dim": 64, "n_layers": 1, "n_heads": 2, "hidden_dim": 9})", "MODEL_TYPE"},
           {params + R"(, "multiple_of": 8, "rope_scaling_factor": 1, "rope_high_freq_factor": 1})", ""},
           {params + R"(, "multiple_of": 8, "rope_scaling_factor": 0.5})", "VALUE"},
           {params + R"(, "multiple_of": 8, "rope_scaling_factor": 8, "rope_high_freq_factor": 0.5})", "VALUE"},
           {oss + R"("rope_scaling_factor": 1, "rope_ntk_alpha": 0.5, "rope_ntk_beta": 0.5})", ""},
           {oss + R"("rope_scaling_factor": 0.5})", "VALUE"}})
    EXPECT_EQ(code_of(json), code.empty() ? "none" : code == "MODEL_TYPE" ? code : "CONFIG_" + code) << json;
  // Refused where it is read, not only where it is used: the power r / (r - 2) of the base.
  EXPECT_EQ(code_of(R"({"model_type": "llama", )" + layers +
                    R"("head_dim": 2, "rope_scaling": {"rope_type": "ntk_aware", "factor": 2}})"),
            "SCALING");
  for (const bool beyond : {false, true}) {  // 256 ropes of one part, 64 parts
    std::string bases = "2", parts = model("llama", "");
    for (int i = 3; i < 258 + beyond; ++i) bases += ", " + std::to_string(i);
    for (int i = 1; i < 64 + beyond; ++i) parts += ", \"text_" + std::to_string(i) + "\": " + model("llama", "");
    const char* code = beyond ? "CONFIG_VALUE" : "none";
    EXPECT_EQ(code_of(model("step3p5", "\"rope_theta\": [" + bases + "]", 256 + beyond)), code);
    EXPECT_EQ(code_of("{\"text_0\": " + parts + "}"), code);
  }
  const auto scaling_of = [&](const char* factor) {
    return std::string(name(only(parse_config(oss + R"("rope_scaling_factor": )" + factor + "}")).rope.scaling));
  };
  EXPECT_EQ(scaling_of("1"), "default");
  EXPECT_EQ(scaling_of("1.5"), "yarn");
}

// ---- files and folders ----

TEST(Config, a_folder_is_read_by_its_config_or_params) {
  const test::ScratchFolder folder;
  test::expect_error("FILE", "", [&] { read_config(folder.path()); });
  test::expect_error("FILE", "", [&] { read_config(folder / "absent.json"); });
  test::write_text(folder / "params.json", params + "}");
  EXPECT_EQ(read_config(folder.path()).model_type, "mistral");
  test::write_text(folder / "config.json", model("llama", ""));
  EXPECT_EQ(read_config(folder.path()).model_type, "llama");
  EXPECT_EQ(read_config(folder / "params.json").model_type, "mistral");
}

TEST(Config, sentences_about_a_file_name_it_once) {
  const test::ScratchFolder folder;
  const std::filesystem::path file = folder / "named.json";
  for (const std::string& text :
       {std::string("{"), model("something_new", ""), model("llama", R"("rope_theta": 1.0)"), std::string("[]")}) {
    test::write_text(file, text);
    std::string sentence = tests::outcome_of([&] { read_config(file); }).sentence;
    const std::string where = "] " + file.string() + ": ";
    const std::size_t named = sentence.find(where);
    ASSERT_NE(named, std::string::npos) << sentence;
    EXPECT_EQ(sentence.find(file.string(), named + where.size()), std::string::npos) << sentence;
    EXPECT_EQ(sentence.erase(named + 2, where.size() - 2), sentence_of(text));
  }
}

TEST(Config, what_params_json_says_otherwise_is_noted) {
  const test::ScratchFolder folder;
  // A Mistral's params.json with the sizes of its config.json, and `more`.
  const auto read_both = [&](const std::string& more) {
    test::write_text(folder / "config.json",
                     R"({"model_type": "mistral", "hidden_size": 64, "num_attention_heads": 4,
                        "num_key_value_heads": 2, "num_hidden_layers": 3, "rope_theta": 1000000.0})");
    test::write_text(
        folder / "params.json",
        R"({"dim": 64, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2, "norm_eps": 1e-5, "hidden_dim": 9)" + more + "}");
    return read_config(folder.path());
  };
  const Model same = read_both(R"(, "rope_theta": 1000000.0)");
  EXPECT_EQ(only(same).rope.pairing, Pairing::half);
  EXPECT_TRUE(noted(same,
                    "params.json lies beside config.json, which is read; they disagree: pairing half "
                    "(params.json: interleaved). Each goes with the weights"));
  EXPECT_TRUE(noted(read_both(R"(, "rope_theta": 10000.0)"), "base 1000000 (params.json: 10000)"));
  EXPECT_TRUE(noted(read_both(R"(, "yarn": {"factor": 4, "original_max_position_embeddings": 8192})"),
                    "scaling default (params.json: yarn)"));
  EXPECT_TRUE(noted(read_both(R"(, "rope_theta": "high")"), "params.json cannot be read: [read_config]"));
  EXPECT_TRUE(noted(read_both(R"(, "head_dim": 8)"), "head_dim 16 (params.json: 8)"));
}

}  // namespace
}  // namespace rotary
