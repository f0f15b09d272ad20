// read_config on files: key after key that must not be ignored, malformed files, folders, and what the sentences look
// like. The readings of configs are in tests/golden/readings.txt (readings_test.cpp).
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/config_helpers.h"
#include "tests/support/file_helpers.h"

namespace rotary {
namespace {

using namespace config_test;

bool says(const std::string& json, const std::string& words) {
  return sentence_of(json).find(words) != std::string::npos;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

// ---- nothing ignored ----

TEST(Config, every_key_that_sounds_like_a_rope_is_refused_by_name) {
  for (const std::string& key :
       words("foo_rope rotary_foo yarn_factor ntk_alpha theta_base rope_theta_2 no_rope rope_type "
             "rope_freq_base freq_base rope_local_theta rope_local_base_freq max_rope_len rotary_percentage "
             "rotate_every_two rope_traditional rope_interleaved ropeScaling ropeTheta ROPE_THETA "
             "_rope_theta mrope_section rope_layout nope_layers swa_rope_theta use_xpos inv_freq beta_fast "
             "attention_factor attn_factor extrapolation_factor truncate yarn_mscale "
             "orig_max_position_embeddings no_rope_layers layer_rope_theta rope_deltas_2")) {
    const std::string line = '"' + key + R"(": 12345)";
    for (const std::string& json : {model("llama", line), model("llama", R"("a": {"b": {"c": {)" + line + "}}}"),
                                    model("llama", R"("a": [[{"b": [{)" + line + "}]}]]"), model("bert", line),
                                    R"({"model_type": "llava", "text_config": )" + model("llama", line) + "}",
                                    R"({"dim": 64, "n_layers": 1, "n_heads": 2, "hidden_dim": 9, )" + line + "}"}) {
      EXPECT_EQ(code_of(json), "CONFIG_KEY") << json;
      EXPECT_NE(sentence_of(json).find("nothing reads " + key + " in"), std::string::npos) << sentence_of(json);
    }
  }
}

TEST(Config, a_slip_of_the_pen_hides_no_rope_key) {
  for (const std::string& key :
       words("rop_scaling rope_scalling rpoe_scaling roqe_scaling rop_parameters rope_parametrs "
             "rpoe_parameters rop_theta rope_thet roep_theta rope_tehta partial_rotry_factor "
             "partial_roatry_factor rotarry_dim no_rop_layers rop_ratio original_max_position_embedding "
             "orignal_max_position_embeddings use_mem_rop position_embeding_type qk_roppe_head_dim")) {
    EXPECT_EQ(code_of(model("llama", '"' + key + R"(": 2)")), "CONFIG_KEY") << key;
  }
}

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

TEST(Config, a_base_that_grows_needs_more_than_one_pair) {
  for (const char* type : {"dynamic", "ntk_aware"}) {
    const std::string json = R"({"model_type": "llama", "hidden_size": 8, "num_attention_heads": 4,
      "num_hidden_layers": 1, "max_position_embeddings": 64, "rope_scaling": {"factor": 2, "rope_type": ")" +
                             std::string(type) + R"("}})";
    EXPECT_EQ(code_of(json), "SCALING");
    EXPECT_TRUE(says(json, "needs an exponent_dim above 2"));
  }
}

// ---- malformed files ----

TEST(Config, malformed_json_is_refused) {
  for (const char* json :
       {"", "{", "nonsense", "[]", "3", "null", R"({"a": nan})", R"({"a": -NaN})", R"({NaN: 1})", R"({"a": 1e999})",
        R"({"a": 1, "a": 2})", R"({"a": {"b": 1, "b": 2}})", "{\"a\": \"\xff\"}", R"({"a": 1} x)"}) {
    EXPECT_EQ(code_of(json), "JSON") << json;
  }
  const std::string sound = model("llama", "");
  EXPECT_EQ(code_of(sound + std::string(1, '\0')), "JSON");
  EXPECT_EQ(code_of("\xEF\xBB\xBF" + sound), "JSON");
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "[";
  EXPECT_EQ(code_of(deep), "JSON");
  EXPECT_EQ(code_of(std::string((16u << 20) + 1, ' ')), "JSON");
  EXPECT_EQ(code_of(R"({"model_type": 3})"), "CONFIG_VALUE");
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

TEST(Config, every_sentence_is_one_line_whatever_the_file_calls_its_keys) {
  for (const std::string& json :
       {model("llama", R"("rope_\nfoo": 1)"), model("a\\nb", ""), model("llama", R"("x\ny": {"rope_foo": 1})"),
        model("llama", R"("layer_types": ["a\nb", "c", "d", "e"])"), std::string(R"({"a\nb": 1, "a\nb": 2})")}) {
    EXPECT_NE(sentence_of(json), "") << json;
    EXPECT_EQ(sentence_of(json).find('\n'), std::string::npos) << sentence_of(json);
  }
  const Model m = read("llama", R"("rope_scaling": {"type": "a\nb", "rope_type": "linear", "factor": 2.0})");
  EXPECT_TRUE(noted(m, "a\\x0Ab"));
}

TEST(Config, bytes_that_are_no_text_are_escaped_in_sentences) {
  EXPECT_NE(sentence_of("{\"a\": \x7F}").find("\\x7F"), std::string::npos);
  EXPECT_NE(sentence_of("{\"a\": \xFF}").find("\\xFF"), std::string::npos);
  EXPECT_NE(sentence_of("{\"model_type\": \"\xC3(\"}").find("\\xC3("), std::string::npos);
  EXPECT_NE(sentence_of(model("llama", "\"rope_theta\": \"\x7F\"")).find("\\x7F"), std::string::npos);
}

// ---- files and folders ----

TEST(Config, a_folder_is_read_by_its_config_or_params) {
  const auto folder = std::filesystem::temp_directory_path() / "rotary_config_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const auto code = [](const std::filesystem::path& path) -> std::string {
    try {
      read_config(path);
    } catch (const Error& e) {
      return std::string(rotary::name(e.code()));
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

TEST(Config, sentences_about_a_file_name_it_once) {
  const auto file = std::filesystem::temp_directory_path() / "rotary_named_config.json";
  for (const std::string& text :
       {std::string("{"), model("something_new", ""), model("llama", R"("rope_theta": 1.0)"), std::string("[]")}) {
    std::ofstream(file, std::ios::trunc) << text;
    std::string sentence;
    try {
      read_config(file);
    } catch (const Error& e) {
      sentence = e.what();
    }
    const std::string where = "] " + file.string() + ": ";
    const std::size_t named = sentence.find(where);
    ASSERT_NE(named, std::string::npos) << sentence;
    EXPECT_EQ(sentence.find(file.string(), named + where.size()), std::string::npos) << sentence;
    EXPECT_EQ(std::string(sentence).erase(named + 2, where.size() - 2), sentence_of(text));
  }
  std::filesystem::remove(file);
}

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

}  // namespace
}  // namespace rotary
