// The program: the numbers of table, models, targets, demo. (What it prints and refuses: commands_test.cpp)
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "rotary/targets.h"
#include "run.h"

namespace rotary::cli_tests {
namespace {

using Json = nlohmann::json;
using Strings = std::vector<std::string>;

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

// ---- models, inspect ----

TEST_F(Cli, models_are_hundreds_found_by_any_part_of_a_word) {
  const auto json = [this](const std::string& filter) {
    return Json::parse(expect_success({"models", filter, "--json"}).out).at("models").get<std::vector<Json>>();
  };
  for (const Json& model : json("interleaved_to_half")) EXPECT_EQ(model.at("pairing"), "interleaved_to_half");
  for (const Json& model : json("llama3")) {
    const bool scaled = model.value("scaling", "") == "llama3";
    EXPECT_TRUE(scaled || model.at("model_type").get<std::string>().find("llama3") != std::string::npos) << model;
  }
  EXPECT_GE(json("vision_config").size(), 20U);
  const std::vector<Json> all = json("");
  for (const Json& model : all)
    EXPECT_TRUE(model.at("rope") == true || !model.at("why").get<std::string>().empty()) << model;
  EXPECT_GE(std::count_if(all.begin(), all.end(), [](const Json& model) { return model.at("rope") == true; }), 400);
}

TEST_F(Cli, inspect_tells_a_large_npy_from_its_header) {
  write_npy(path("large.npy"), make_tensor<float>("", ElementType::f32, {1}, {1}));
  std::string text = read_text(path("large.npy"));
  const std::size_t shape = text.find("(1,)");
  ASSERT_NE(shape, std::string::npos);
  text.replace(shape, 20, "(17179869184,), }   ");  // 64 GiB: no machine of the tests holds them
  write_text(path("large.npy"), text.substr(0, text.size() - 4));
  std::filesystem::resize_file(path("large.npy"), text.size() - 4 + (std::uintmax_t{1} << 36));
  const Json json = Json::parse(expect_success({"inspect", path("large.npy"), "--json"}).out);
  EXPECT_EQ(json.at("tensors"), Json::parse(R"([{"name": "", "dtype": "F32", "shape": [17179869184]}])"));
}

// ---- table ----

TEST_F(Cli, table_writes_cos_and_sin_of_each_position) {
  for (const Strings& positions : {Strings{"--positions", "-5:5"}, Strings{"--positions=-5:5"}}) {
    Strings words = {"table", small_llama(), "--output", path("t.safetensors")};
    words.insert(words.end(), positions.begin(), positions.end());
    expect_success(words);
    const Tensor cos = read_tensor("t.safetensors", "cos");
    EXPECT_EQ(cos.type, ElementType::f32);
    EXPECT_EQ(cos.shape, (std::vector<std::int64_t>{10, 2}));
    const std::vector<float> sin = values_of(read_tensor("t.safetensors", "sin"));
    for (int row = 0; row < 10; ++row) {
      const auto at = static_cast<std::size_t>(2 * row);
      EXPECT_EQ(values_of(cos)[at], static_cast<float>(std::cos(row - 5.0L)));
      EXPECT_EQ(sin[at], static_cast<float>(std::sin(row - 5.0L)));
      EXPECT_EQ(sin[at + 1], static_cast<float>(std::sin((row - 5) * static_cast<long double>(0.1))));
    }
  }
  expect_success({"table", small_llama(), "--output", path("t.safetensors"), "--positions", "-3"});
  EXPECT_EQ(values_of(read_tensor("t.safetensors", "cos"))[0], static_cast<float>(std::cos(3.0L)));
}

TEST_F(Cli, table_takes_positions_per_batch_row_and_fractions) {
  write_npy(path("p.npy"), make_tensor<double>("", ElementType::f64, {2, 3}, {0, 0.5, 1, -1.25, 100, 7}));
  expect_success({"table", small_llama(), "--positions", path("p.npy"), "--output", path("t.safetensors")});
  const Tensor cos = read_tensor("t.safetensors", "cos");
  EXPECT_EQ(cos.shape, (std::vector<std::int64_t>{2, 3, 2}));
  EXPECT_EQ(values_of(cos)[2], static_cast<float>(std::cos(0.5L)));
  EXPECT_EQ(values_of(cos)[6], static_cast<float>(std::cos(1.25L)));

  write_npy(path("p.npy"), make_tensor<std::int32_t>("", ElementType::i32, {1, 2}, {3, -4}));
  expect_success({"table", small_llama(), "--positions", path("p.npy"), "--output", path("t.safetensors")});
  EXPECT_EQ(read_tensor("t.safetensors", "cos").shape, (std::vector<std::int64_t>{1, 2, 2}));
}

TEST_F(Cli, table_gives_each_axis_its_positions) {
  const std::string config = write_config(
      "mrope.json", R"("model_type": "qwen2_vl", "hidden_size": 24, "num_attention_heads": 2, "num_hidden_layers": 1,)"
                    R"("max_position_embeddings": 64, "rope_theta": 10000.0,)"
                    R"("rope_scaling": {"type": "mrope", "mrope_section": [2, 2, 2]})");
  const std::string out = path("t.safetensors");
  write_npy(path("p.npy"), make_tensor<std::int64_t>("", ElementType::i64, {3, 2}, {1, 2, 10, 20, 100, 200}));
  expect_success({"table", config, "--positions", path("p.npy"), "--output", out});
  const std::vector<float> cos = values_of(read_tensor("t.safetensors", "cos"));
  ASSERT_EQ(cos.size(), 12U);
  for (int row = 0; row < 2; ++row) {
    for (int pair = 0; pair < 6; ++pair) {
      const double position = (row + 1) * std::pow(10.0, pair / 2);
      EXPECT_NEAR(cos[static_cast<std::size_t>(6 * row + pair)], std::cos(position * std::pow(10000.0, -pair / 6.0)),
                  1e-6);
    }
  }
  expect_success({"table", config, "--positions", "0:4", "--output", out});
  EXPECT_NEAR(values_of(read_tensor("t.safetensors", "cos"))[3 * 6 + 5], std::cos(3 * std::pow(10000.0, -5 / 6.0)),
              1e-6);
  write_npy(path("p.npy"), make_tensor<std::int64_t>("", ElementType::i64, {2, 2}, {1, 2, 10, 20}));
  expect_error({"table", config, "--positions", path("p.npy"), "--output", out}, "SHAPE");
  write_npy(path("p.npy"), make_tensor<std::int64_t>("", ElementType::i64, {2}, {1, 2}));
  expect_error({"table", config, "--positions", path("p.npy"), "--output", out}, "SHAPE");
}

TEST_F(Cli, table_refuses_positions_that_are_none) {
  const auto refuses = [&](const std::string& spec, const std::string& code) {
    expect_error({"table", small_llama(), "--positions", spec, "--output", path("t.safetensors")}, code);
  };
  for (const char* spec : {"5:5", "5:4", "x", "9223372036854775808", "0:9223372036854775807", ""})
    refuses(spec, "POSITION");
  const std::string file = path("p.npy");
  refuses(file, "FILE");
  write_npy(file, make_tensor<double>("", ElementType::f64, {2}, {1, std::nan("")}));
  refuses(file, "POSITION");
  write_npy(file, make_tensor<double>("", ElementType::f64, {1}, {INFINITY}));
  refuses(file, "POSITION");
  write_npy(file, make_tensor<float>("", ElementType::f32, {1}, {1}));
  refuses(file, "DTYPE");
  write_npy(file, make_tensor<std::int64_t>("", ElementType::i64, {1, 1, 1}, {1}));
  refuses(file, "SHAPE");
  write_npy(file, make_tensor<std::int64_t>("", ElementType::i64, {0}, {}));
  refuses(file, "POSITION");
  write_text(file, "not an npy");
  refuses(file, "FORMAT");
  EXPECT_FALSE(std::filesystem::exists(path("t.safetensors")));
}

TEST_F(Cli, table_takes_the_length_from_the_largest_position) {
  const std::string config = small_llama(R"(, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0})");
  const auto second_pair_at_127 = [&](const Strings& more) {
    Strings words = {"table", config, "--positions", "127", "--output", path("t.safetensors")};
    words.insert(words.end(), more.begin(), more.end());
    expect_success(words);
    return values_of(read_tensor("t.safetensors", "cos"))[1];
  };
  EXPECT_NEAR(second_pair_at_127({}), std::cos(127 / 30.0), 1e-6);
  EXPECT_NEAR(second_pair_at_127({"--length", "64"}), std::cos(12.7), 1e-6);
}

TEST_F(Cli, table_offers_the_float32_formula_and_rounded_values) {
  const auto first = [&](const std::string& option, const std::string& value) {
    expect_success({"table", small_llama("", "500000.0"), "--positions", "0:1000", "--output", path("t.safetensors"),
                    option, value});
    return values_of(read_tensor("t.safetensors", "cos"));
  };
  EXPECT_NE(first("--angles", "exact"), first("--angles", "float32"));
  for (const float value : first("--rounding", "bf16")) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    ASSERT_EQ(bits & 0xFFFFU, 0U);
  }
}

// ---- targets, demo ----

TEST_F(Cli, targets_says_what_runs_and_what_is_chosen) {
  const Json json = Json::parse(expect_success({"targets", "--json"}).out);
  EXPECT_EQ(keys_of(json), (Strings{"chosen", "targets", "version"}));
  ASSERT_EQ(json.at("targets").size(), targets().size());
  bool found = false;
  for (const Json& target : json.at("targets")) {
    EXPECT_EQ(keys_of(target), (Strings{"name", "runs"}));
    found = found || (target.at("name") == json.at("chosen") && target.at("runs") == true);
  }
  EXPECT_TRUE(found);
  EXPECT_NE(expect_success({"targets"}).out.find("scalar"), std::string::npos);
}

TEST_F(Cli, demo_passes_its_checks) {
  const std::string text = expect_success({"demo"}).out;
  EXPECT_NE(text.find("All checks passed."), std::string::npos);
  EXPECT_NE(text.find(" 0 of 768 values misrounded"), std::string::npos) << text;
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 60);
  expect_error({"demo", "--data", path("nowhere")}, "FILE");
}

}  // namespace
}  // namespace rotary::cli_tests
