// rotary models. (What it knows: tests/config/sweep_test.cpp.)
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "run.h"

namespace rotary::cli_tests {
namespace {

using Json = nlohmann::json;

class Models : public Cli {
 protected:
  std::vector<Json> json(const std::string& filter) const {
    const Result result = expect_success({"models", filter, "--json"});
    return Json::parse(result.out).at("models").get<std::vector<Json>>();
  }
  std::vector<std::string> lines(const std::vector<std::string>& words) const {
    std::istringstream text(expect_success(words).out);
    std::vector<std::string> found;
    for (std::string line; std::getline(text, line);) found.push_back(line);
    return found;
  }
};

Json entry(const std::vector<Json>& models, const std::string& type, const std::string& part) {
  const auto found = std::find_if(models.begin(), models.end(), [&](const Json& model) {
    return model.at("model_type") == type && model.at("part") == part;
  });
  return found == models.end() ? Json::object() : *found;
}

// Whether the model has each of these values.
void expect_values(const Json& model, const Json& wanted) {
  for (const auto& [key, value] : wanted.items()) EXPECT_EQ(model.value(key, Json("missing")), value) << key;
}

TEST_F(Models, tell_the_class_defaults_part_by_part) {
  const std::vector<Json> models = json("qwen2_vl");
  const Json text = entry(models, "qwen2_vl", "text_config");
  expect_values(text, {{"heads", 64},
                       {"kv_heads", 8},
                       {"head_dim", 128},
                       {"rotary_dim", 128},
                       {"first", 0},
                       {"pairing", "half"},
                       {"direction", "counterclockwise"},
                       {"base", 1e6},
                       {"scaling", "default"},
                       {"attention_factor", 1.0},
                       {"axes", 3},
                       {"layers_without_rope", Json::array()},
                       {"rope", true}});
  EXPECT_EQ(text.at("axis").size(), 64u);
  EXPECT_EQ(text.at("layers").size(), 80u);
  expect_values(entry(models, "qwen2_vl", "vision_config"), {{"head_dim", 80}, {"axes", 2}});
}

TEST_F(Models, tell_a_default_that_scales_and_where_the_block_begins) {
  const Json mistral = entry(json("mistral4"), "mistral4", "");
  expect_values(mistral, {{"scaling", "yarn"}, {"rotary_dim", 64}, {"first", 64}});
  EXPECT_NE(mistral.at("fact").get<std::string>().find("scales"), std::string::npos);
}

TEST_F(Models, say_null_where_remote_code_has_no_sizes) {
  expect_values(entry(json("chatglm"), "chatglm", ""),
                {{"heads", {}}, {"head_dim", {}}, {"rotary_dim", {}}, {"partial", 0.5}, {"pairing", "interleaved"}});
  expect_values(entry(json("mixformer"), "mixformer-sequential", ""), {{"rotary_dim", 32}});
}

TEST_F(Models, say_why_there_is_no_rope) {
  expect_values(entry(json("bert"), "bert", ""), {{"rope", false}, {"why", "its positions are not rotary"}});
  const std::vector<std::string> named = lines({"models", "gpt2"});
  ASSERT_EQ(named.size(), 1u);
  EXPECT_EQ(named[0], "gpt2: no rope: its positions are not rotary");
  for (const std::string& line : lines({"models"})) EXPECT_FALSE(line.starts_with("gpt2")) << line;
}

TEST_F(Models, are_found_by_any_part_of_a_word_in_any_case) {
  EXPECT_EQ(json("LLAMA4").size(), json("llama4").size());
  for (const Json& model : json("interleaved_to_half")) EXPECT_EQ(model.at("pairing"), "interleaved_to_half");
  for (const Json& model : json("llama3")) {
    const bool scaled = model.value("scaling", "") == "llama3";
    EXPECT_TRUE(scaled || model.at("model_type").get<std::string>().find("llama3") != std::string::npos) << model;
  }
  EXPECT_GE(json("vision_config").size(), 20u);
  expect_error({"models", "no such model"}, "MODEL_TYPE");
  expect_usage({"models", "llama", "qwen2"});
}

TEST_F(Models, stand_in_columns_with_the_numbers_to_the_right) {
  const std::vector<std::string> table = lines({"models", "gemma3"});
  ASSERT_GE(table.size(), 3u);
  const std::string& head = table[0];
  const std::size_t base_end = head.find("base") + 4;
  const auto row =
      std::find_if(table.begin(), table.end(), [](const std::string& line) { return line.starts_with("gemma3_text"); });
  ASSERT_NE(row, table.end());
  EXPECT_EQ(row->substr(base_end - 7, 7).find_first_not_of(" 0123456789"), std::string::npos) << *row;
  EXPECT_NE((*row)[base_end - 1], ' ') << *row;
  EXPECT_EQ(row->size(), head.size());
}

TEST_F(Models, are_hundreds_and_none_is_an_accident) {
  const std::vector<Json> models = json("");
  std::size_t ropes = 0;
  for (const Json& model : models) {
    ropes += model.at("rope") == true;
    if (model.at("rope") == false) {
      EXPECT_FALSE(model.at("why").get<std::string>().empty()) << model;
    }
  }
  EXPECT_GE(ropes, 400u);
}

TEST_F(Cli, models_puts_the_model_of_that_name_first) {
  const std::string text = expect_success({"models", "llama"}).out;
  EXPECT_TRUE(std::regex_search(text, std::regex("^model_type [^\n]*\nllama  "))) << text;
  const nlohmann::json json = nlohmann::json::parse(expect_success({"models", "llama", "--json"}).out);
  EXPECT_EQ(json.at("models").at(0).at("model_type"), "llama");
  EXPECT_GT(json.at("models").size(), 1U);
  EXPECT_NE(run({"models", "llamma"}).err.find("did you mean llama?"), std::string::npos)
      << run({"models", "llamma"}).err;
}

}  // namespace
}  // namespace rotary::cli_tests
