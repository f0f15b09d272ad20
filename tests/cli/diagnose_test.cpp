// rotary diagnose and rotary check: what they print, their JSON and their exit statuses. What they find out is tested
// in tests/diagnose.
#include <nlohmann/json.hpp>

#include "rotary/rotary.h"
#include "run.h"

namespace rotary::cli_tests {
namespace {

using nlohmann::json;

class Diagnose : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    write_config("config.json",
                 R"("model_type": "llama", "hidden_size": 128, "num_attention_heads": 8, "num_key_value_heads": 2,)"
                 R"("num_hidden_layers": 2, "max_position_embeddings": 4096, "rope_theta": 10000.0)");
    write_tensors("qk.safetensors", {make_tensor<float>("q", ElementType::f32, {1, 12, 8, 16}, some_values(1536, 1)),
                                     make_tensor<float>("k", ElementType::f32, {1, 12, 2, 16}, some_values(384, 2))});
  }

  void apply(const std::string& output, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"apply",    path("config.json"), "--input", path("qk.safetensors"),
                                      "--output", path(output)};
    words.insert(words.end(), more.begin(), more.end());
    const Result result = run(words);
    ASSERT_EQ(result.exit, 0) << result.err;
  }
  json diagnosed(const std::string& after, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"diagnose", "--before", path("qk.safetensors"), "--after", path(after), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return json::parse(expect_success(words).out);
  }
  std::vector<std::string> check(const std::string& against, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"check",     path("config.json"), "--input", path("qk.safetensors"),
                                      "--against", path(against)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(Diagnose, says_in_json_all_that_it_found_out) {
  apply("after.safetensors", {"--pairing", "interleaved", "--positions", "3:15"});
  const json all = diagnosed("after.safetensors", {"--config", path("config.json")});
  EXPECT_EQ(all["verdict"], "pairing");
  EXPECT_EQ(all["findings"].size(), 2U);
  EXPECT_EQ(all["pairing"], "interleaved");
  EXPECT_EQ(all["direction"], "counterclockwise");
  EXPECT_EQ(all["first"], 0);
  EXPECT_EQ(all["rotary_dim"], 16);
  EXPECT_EQ(all["positions"], (json{{"offset", 3}, {"step", 1}}));
  EXPECT_EQ(all["inv_freq"].size(), 8U);
  EXPECT_EQ(all["base"], 10000);
  EXPECT_EQ(all["scaling"], "default");
  EXPECT_EQ(all["attention_factor"], 1);
  EXPECT_TRUE(all.contains("precision"));
  EXPECT_EQ(all["tensors"].size(), 2U);
  EXPECT_EQ(all["tensors"]["q"]["heads"].size(), 8U);
  EXPECT_EQ(all["tensors"]["k"]["layout"], "bthd");
}

TEST_F(Diagnose, text_holds_the_sentence) {
  apply("after.safetensors", {"--positions", "1:13"});
  const std::vector<std::string> words = {
      "diagnose", "--before",         path("qk.safetensors"), "--after", path("after.safetensors"),
      "--config", path("config.json")};
  const std::string text = expect_success(words).out;
  EXPECT_NE(text.find("q and k are rotated at positions that begin at 1 instead of 0, 1 too far"), std::string::npos)
      << text;
  EXPECT_NE(text.find(diagnosed("after.safetensors", {"--config", path("config.json")})["sentence"].get<std::string>()),
            std::string::npos);
  EXPECT_NE(text.find("pairing"), std::string::npos);
}

TEST_F(Diagnose, of_one_tensor_has_no_list_of_tensors) {
  apply("after.safetensors");
  const json one = diagnosed("after.safetensors", {"--tensor", "q", "--config", path("config.json")});
  EXPECT_EQ(one["verdict"], "as_configured");
  EXPECT_FALSE(one.contains("tensors"));
}

TEST_F(Diagnose, without_config_nothing_is_right_or_wrong) {
  apply("after.safetensors");
  const json alone = diagnosed("after.safetensors");
  EXPECT_EQ(alone["verdict"], "cannot_tell");
  EXPECT_EQ(alone["pairing"], "half");
  for (const char* unknown : {"direction", "positions", "inv_freq", "scaling"})
    EXPECT_TRUE(alone[unknown].is_null()) << unknown;
  const json placed = diagnosed("after.safetensors", {"--positions", "0:"});
  EXPECT_EQ(placed["direction"], "counterclockwise");
  EXPECT_EQ(placed["base"], 10000);
  const json described = diagnosed("after.safetensors", {"--base", "10000", "--pairing", "half"});
  EXPECT_EQ(described["verdict"], "as_configured") << described["sentence"];
}

TEST_F(Diagnose, positions_may_be_open) {
  apply("after.safetensors", {"--positions", "100:112"});
  EXPECT_EQ(diagnosed("after.safetensors", {"--config", path("config.json"), "--positions", "100:"})["verdict"],
            "as_configured");
  expect_success(check("after.safetensors", {"--positions", "+100"}));
}

TEST_F(Diagnose, npy_files_and_standard_input) {
  write_npy(path("q.npy"), make_tensor<float>("", ElementType::f32, {1, 12, 8, 16}, some_values(1536, 1)));
  run({"apply", path("config.json"), "--input", path("q.npy"), "--output", path("after.npy")});
  const Result result = run(
      {"diagnose", "--before", path("q.npy"), "--after", path("after.npy"), "--config", path("config.json"), "--json"});
  EXPECT_EQ(json::parse(result.out)["verdict"], "as_configured") << result.out << result.err;
  EXPECT_EQ(run({"check", path("config.json"), "--input", path("q.npy"), "--against", path("after.npy")}).exit, 0);
}

TEST_F(Diagnose, scores) {
  std::vector<float> before, after;
  for (int i = 0; i < 8; ++i) {
    for (int j = 0; j < 8; ++j) {
      before.push_back(i == j ? static_cast<float>(1 + i) : static_cast<float>(i - 2 * j));
      after.push_back(i == j ? before.back() : -before.back());
    }
  }
  write_npy(path("s0.npy"), make_tensor<float>("", ElementType::f32, {8, 8}, before));
  write_npy(path("s1.npy"), make_tensor<float>("", ElementType::f32, {8, 8}, after));
  const Result result =
      expect_success({"diagnose", "--scores", "--before", path("s0.npy"), "--after", path("s1.npy"), "--json"});
  EXPECT_EQ(json::parse(result.out)["verdict"], "as_configured") << result.out;
}

TEST_F(Diagnose, check_says_equal_in_one_line) {
  apply("after.safetensors");
  const std::string text = expect_success(check("after.safetensors")).out;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  const json equal = json::parse(expect_success(check("after.safetensors", {"--json"})).out);
  EXPECT_EQ(equal["equal"], true);
  EXPECT_TRUE(equal["first"].is_null());
  EXPECT_TRUE(equal["diagnosis"].is_null());
  EXPECT_LE(equal["max_error"].get<double>(), equal["tolerance"].get<double>());
}

TEST_F(Diagnose, check_says_where_it_differs_and_why) {
  apply("after.safetensors", {"--base", "500000"});
  const Result text = run(check("after.safetensors"));
  EXPECT_EQ(text.exit, 1);
  EXPECT_EQ(text.err, "");
  EXPECT_NE(text.out.find("first at token 1, head 0, pair 1"), std::string::npos) << text.out;
  const Result result = run(check("after.safetensors", {"--json"}));
  EXPECT_EQ(result.exit, 1);
  const json differs = json::parse(result.out);
  EXPECT_EQ(differs["equal"], false);
  EXPECT_GT(differs["max_error"].get<double>(), 0.1);
  EXPECT_EQ(differs["first"]["token"], 1);
  EXPECT_EQ(differs["first"]["head"], 0);
  EXPECT_EQ(differs["first"]["pair"], 1);
  EXPECT_EQ(differs["diagnosis"]["verdict"], "base");
  EXPECT_NEAR(differs["diagnosis"]["base"].get<double>(), 500000, 500);
  EXPECT_NE(text.out.find(differs["diagnosis"]["sentence"].get<std::string>()), std::string::npos);
}

TEST_F(Diagnose, of_several_ropes_the_one_that_fits_is_named) {
  const std::string config = ROTARY_SOURCE_DIR "/tests/golden/configs/gemma-3-1b.json";
  write_tensors("g.safetensors", {make_tensor<float>("q", ElementType::f32, {1, 6, 4, 256}, some_values(6144, 1)),
                                  make_tensor<float>("k", ElementType::f32, {1, 6, 1, 256}, some_values(1536, 2))});
  expect_success(
      {"apply", config, "--rope", "1", "--input", path("g.safetensors"), "--output", path("after.safetensors")});
  const Result found = run({"diagnose", "--config", config, "--before", path("g.safetensors"), "--after",
                            path("after.safetensors"), "--json"});
  const json all = json::parse(found.out);
  EXPECT_EQ(all["verdict"], "as_configured") << all["sentence"];
  EXPECT_NE(all["sentence"].get<std::string>().find("rope 1 of 2"), std::string::npos) << all["sentence"];
  std::vector<std::string> words = {
      "check", config, "--input", path("g.safetensors"), "--against", path("after.safetensors")};
  EXPECT_NE(expect_success(words).out.find("rope 1 of 2"), std::string::npos);
  words.insert(words.end(), {"--rope", "0"});
  EXPECT_EQ(run(words).exit, 1);
}

TEST_F(Diagnose, check_takes_a_tolerance) {
  apply("after.safetensors", {"--base", "500000"});
  const json loose = json::parse(expect_success(check("after.safetensors", {"--tolerance", "100", "--json"})).out);
  EXPECT_EQ(loose["tolerance"], 100);
  apply("right.safetensors");
  EXPECT_EQ(run(check("right.safetensors", {"--tolerance", "1e-12"})).exit, 1);
}

TEST_F(Diagnose, check_finds_one_tensor_of_two) {
  apply("after.safetensors", {"--tensor", "q"});
  const Result result = run(check("after.safetensors", {"--json"}));
  EXPECT_EQ(result.exit, 1);
  const json one = json::parse(result.out);
  EXPECT_EQ(one["tensor"], "k");
  EXPECT_EQ(one["tensors"]["q"]["equal"], true);
  EXPECT_EQ(one["diagnosis"]["verdict"], "some_heads");
}

}  // namespace
}  // namespace rotary::cli_tests
