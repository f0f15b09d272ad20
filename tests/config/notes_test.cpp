// Notes on what lies beside the ropes, and errors that say what was meant.
#include <filesystem>
#include <string>

#include "tests/support/config_helpers.h"
#include "tests/support/file_helpers.h"

namespace rotary {
namespace {

using namespace config_test;

bool says(const std::string& json, const std::string& words) {
  const std::string sentence = sentence_of(json);
  return sentence.find(words) != std::string::npos;
}

// ---- max_position_embeddings ----

std::string with_context(const std::string& value, const std::string& more = "") {
  return R"({"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1,
    "max_position_embeddings": )" +
         value + more + "}";
}

TEST(ConfigNotes, AContextThatNobodyCanReadIsAnError) {
  const std::string scalings[] = {"", R"(, "rope_scaling": {"rope_type": "linear", "factor": 2})",
                                  R"(, "rope_scaling": {"rope_type": "dynamic", "factor": 2})"};
  for (const std::string& scaling : scalings) {
    for (const char* value : {"\"131072\"", "\"lots\"", "[1]", "0", "-1", "true", "0.5", "1e300", "{}"}) {
      EXPECT_EQ(code_of(with_context(value, scaling)), "CONFIG_VALUE") << value << scaling;
      EXPECT_TRUE(says(with_context(value, scaling), "max_position_embeddings must be")) << value << scaling;
    }
  }
  EXPECT_EQ(only(parse_config(with_context("8192.0"))).context, 8192);
  EXPECT_EQ(only(parse_config(with_context("null"))).context, 0);
}

// ---- the scale of the attention ----

TEST(ConfigNotes, DeepseekSaysTheSquareThatItsSoftmaxScaleTakes) {
  const std::string yarn = R"("rope_scaling": {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
    "original_max_position_embeddings": 4096})";
  // (0.1 ln 40 + 1)^2
  EXPECT_TRUE(noted(read("deepseek_v3", yarn),
                    "multiplies its softmax scale by (0.1 * mscale_all_dim * ln(factor) + "
                    "1)^2 = 1.873854, beside"));
  EXPECT_TRUE(noted(read("deepseek_v2", yarn), "= 1.873854 in DeepSeek's own code (transformers leaves it out)"));
  EXPECT_FALSE(noted(read("deepseek_v3", ""), "softmax scale"));
  EXPECT_FALSE(noted(read("llama", yarn), "softmax scale"));  // no MLA
}

TEST(ConfigNotes, Llama4AndQwen1SayWhatScalesTheirQueries) {
  EXPECT_TRUE(noted(read("llama4_text", ""), "attn_temperature_tuning, on by default, multiplies the queries"));
  EXPECT_TRUE(noted(read("llama4_text", R"("attn_temperature_tuning": 4)"), "attn_temperature_tuning multiplies"));
  EXPECT_FALSE(noted(read("llama4_text", R"("attn_temperature_tuning": false)"), "multiplies the queries"));
  EXPECT_TRUE(noted(read("qwen", R"("use_logn_attn": true)"), "ln(position + 1) / ln(seq_length)"));
  EXPECT_FALSE(noted(read("qwen", R"("use_logn_attn": false)"), "logn"));
}

TEST(ConfigNotes, AYarnWhoseFactorDoesNotFitTheContextIsNoted) {
  const auto yarn = [](const std::string& factor) {
    return R"("rope_scaling": {"rope_type": "yarn", "original_max_position_embeddings": 32768, "factor": )" + factor +
           "}";
  };
  EXPECT_TRUE(noted(read("qwen2", yarn("2")), "2 * 32768 = 65536 tokens, but max_position_embeddings is 131072"));
  EXPECT_FALSE(noted(read("qwen2", yarn("4")), "yarn reaches"));
}

// ---- config.json beside params.json ----

class ConfigFolder : public testing::Test {
 protected:
  // params.json of a Mistral with the same sizes as config.json, but for `more`.
  Model read_both(const std::string& more) {
    test::write_text(folder_ / "config.json",
                     R"({"model_type": "mistral", "hidden_size": 64, "num_attention_heads": 4,
                        "num_key_value_heads": 2, "num_hidden_layers": 3, "rope_theta": 1000000.0})");
    test::write_text(folder_ / "params.json",
                     R"({"dim": 64, "n_layers": 3, "n_heads": 4, "n_kv_heads": 2)" + more + "}");
    return read_config(folder_.path());
  }
  test::ScratchFolder folder_;
};

TEST_F(ConfigFolder, SaysWhatParamsJsonSaysOtherwise) {
  const Model same = read_both(R"(, "rope_theta": 1000000.0)");
  EXPECT_EQ(only(same).rope.pairing, Pairing::half);
  EXPECT_TRUE(noted(same,
                    "params.json stands beside config.json, which is read; they disagree: pairing half "
                    "(params.json: interleaved). Each goes with the weights"));
  EXPECT_TRUE(noted(read_both(R"(, "rope_theta": 10000.0)"), "base 1000000 (params.json: 10000)"));
  EXPECT_TRUE(noted(read_both(R"(, "yarn": {"factor": 4, "original_max_position_embeddings": 8192})"),
                    "scaling default (params.json: yarn)"));
  EXPECT_TRUE(noted(read_both(R"(, "rope_theta": "high")"), "params.json cannot be: [read_config]"));
  EXPECT_TRUE(noted(read_both(R"(, "head_dim": 8)"), "head_dim 16 (params.json: 8)"));
}

// ---- what was meant ----

TEST(ConfigErrors, AMissingRopeTypeIsNamed) {
  EXPECT_EQ(code_of(model("llama", R"("rope_scaling": {"factor": 8})")), "CONFIG_KEY");
  EXPECT_TRUE(says(model("llama", R"("rope_scaling": {"factor": 8})"),
                   "factor in rope_scaling (8): rope_type is "
                   "missing there"));
}

TEST(ConfigErrors, MisspeltWordsAreNamed) {
  EXPECT_TRUE(says(model("llama", R"("rope_scaling": {"rope_type": "yran", "factor": 8})"), "did you mean yarn?"));
  EXPECT_TRUE(says(model("llama", R"("rope_scaling": {"rope_type": "linear", "factr": 8, "factor": 8})"),
                   "did you mean factor?"));
  EXPECT_TRUE(says(model("llama", R"("rope_teta": 8)"), "did you mean rope_theta?"));
  EXPECT_FALSE(says(model("llama", R"("rope_wobble": 8)"), "did you mean"));
  for (const char* type : {"Llama", "lama", "llama5"}) EXPECT_TRUE(says(model(type, ""), "did you mean llama")) << type;
  EXPECT_TRUE(says(R"({"model_type": "lama"})", "did you mean llama?"));
  EXPECT_FALSE(says(model("something_new", ""), "did you mean"));
}

TEST(ConfigErrors, TheFilesThatPeopleHaveInsteadAreNamed) {
  EXPECT_TRUE(says("\n<!DOCTYPE html><html></html>", "is an HTML page"));
  EXPECT_TRUE(says("<html>", "is an HTML page"));
  EXPECT_TRUE(says(" \n", "but is empty"));
  EXPECT_TRUE(says("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "is a git-lfs pointer"));
  EXPECT_TRUE(says("{\"a\": 1,\n \"b\": [1, 2,\n ]}", "line 2 has a comma with nothing behind it before ']'"));
  EXPECT_TRUE(says("{\"a\": 1,}", "line 1 has a comma with nothing behind it before '}'"));
  EXPECT_FALSE(says("{\"a\": }", "comma"));
  for (const char* text : {"<html>", "{\"a\": 1,}"}) EXPECT_EQ(code_of(text), "JSON");
}

}  // namespace
}  // namespace rotary
