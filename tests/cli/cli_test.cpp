// The program: usage, errors, inspect, table, targets, demo. (apply: apply_test.cpp)
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

// ---- usage ----

TEST_F(Cli, output_that_cannot_be_written_is_an_error) {
  for (const char* words : {"--help", "--version", "apply --help", "targets", "targets --json"}) {
    for (const char* where : {">/dev/full", ">&-"}) {
      const std::string all = "'" ROTARY_PROGRAM "' " + std::string(words) + " 2>'" + path("stderr") + "' " + where;
      EXPECT_EQ(WEXITSTATUS(std::system(all.c_str())), 1) << all;
      EXPECT_EQ(read_text(path("stderr")), "error: FILE: standard output could not be written\n");
    }
  }
}

TEST_F(Cli, what_cannot_be_understood_is_a_usage_error) {
  const std::string config = small_llama();
  expect_usage({});
  expect_usage({"turn"});
  expect_usage({"--nothing"});
  expect_usage({"inspect", config, "--nothing"});
  expect_usage({"table", config, "another", "--positions", "0:4", "--output", path("t.safetensors")});
  expect_usage({"inspect"});
  expect_usage({"inspect", config, "--pairing", "neox"});
  expect_usage({"inspect", config, "--length"});
  expect_usage({"inspect", config, "--length", "many"});
  expect_usage({"inspect", config, "--length", "-1"});
  expect_usage({"inspect", config, "--length", "99999999999999999999"});
  expect_usage({"inspect", "--base", "100", "--pairing", "half", "--head-dim", "2147483646"});
  expect_usage({"table", config, "--output", path("t.safetensors")});
  expect_usage({"table", config, "--positions", "0:4"});
  expect_usage({"table", "--positions", "0:4", "--output", path("t.safetensors")});
  expect_usage({"table", config, "--positions", "0:4", "--output", path("t.safetensors"), "--angles", "rough"});
  expect_usage({"apply", config, "--input", path("q.npy")});
  expect_usage({"apply", config, "--output", path("q.npy")});
  EXPECT_FALSE(std::filesystem::exists(path("t.safetensors")));
}

TEST_F(Cli, one_rope_must_be_named_in_one_way) {
  const std::string config = small_llama();
  const Strings files = {"--input", path("q.npy"), "--output", path("r.npy")};
  const auto apply = [&](Strings words) {
    words.insert(words.begin(), "apply");
    words.insert(words.end(), files.begin(), files.end());
    return words;
  };
  expect_usage(apply({}));
  expect_usage(apply({"--pairing", "half"}));
  expect_usage(apply({"--base", "10000"}));
  expect_usage(apply({"--base", "10000", "--pairing", "pairs"}));
  expect_usage(apply({config, "--first", "2"}));
  expect_usage(apply({"--cos", "c.npy", "--pairing", "half"}));
  expect_usage(apply({"--sin", "s.npy", "--pairing", "half"}));
  expect_usage(apply({"--cos", "c.npy", "--sin", "s.npy"}));
  expect_usage(apply({config, "--cos", "c.npy", "--sin", "s.npy", "--pairing", "half"}));
}

// ---- inspect ----

TEST_F(Cli, inspect_prints_the_json_of_the_contract) {
  const Json json = Json::parse(expect_success({"inspect", small_llama(), "--json"}).out);
  EXPECT_EQ(json.at("model_type"), "llama");
  ASSERT_EQ(json.at("ropes").size(), 1U);
  EXPECT_TRUE(json.at("notes").is_array());
  const Json& rope = json.at("ropes")[0];
  EXPECT_EQ(rope.at("part"), "");
  EXPECT_EQ(rope.at("layers"), Json({0, 1, 2, 3}));
  EXPECT_EQ(rope.at("layers_without_rope"), Json::array());
  EXPECT_EQ(rope.at("heads"), 2);
  EXPECT_EQ(rope.at("kv_heads"), 1);
  EXPECT_EQ(rope.at("head_dim"), 4);
  EXPECT_EQ(rope.at("rotary_dim"), 4);
  EXPECT_EQ(rope.at("first"), 0);
  EXPECT_EQ(rope.at("pairing"), "half");
  EXPECT_EQ(rope.at("base"), 100.0);
  EXPECT_EQ(rope.at("scaling"), "default");
  EXPECT_EQ(rope.at("scaling_parameters"), Json::object());
  EXPECT_EQ(rope.at("attention_factor"), 1.0);
  EXPECT_EQ(rope.at("inv_freq"), Json({1.0, 0.1}));
  EXPECT_EQ(rope.at("axis"), Json({0, 0}));
}

// Every value that the scaling holds, by the name that origins have.
TEST_F(Cli, inspect_prints_the_values_of_the_scaling) {
  const std::string model = R"("model_type": "llama", "hidden_size": 8, "num_attention_heads": 2,
    "num_hidden_layers": 1, "max_position_embeddings": 64, "rope_scaling": )";
  const auto parameters = [&](const std::string& scaling) {
    const Json json =
        Json::parse(expect_success({"inspect", write_config("scaled.json", model + scaling), "--json"}).out);
    const Json& rope = json.at("ropes")[0];
    const Json values = rope.at("scaling_parameters");
    for (const auto& origin : rope.at("origins").items()) {
      if (!origin.key().starts_with("scaling.")) continue;
      EXPECT_TRUE(values.contains(origin.key().substr(8))) << origin.key();
    }
    return values;
  };
  EXPECT_EQ(parameters("null"), Json::object());
  EXPECT_EQ(parameters(R"({"rope_type": "linear", "factor": 2})"), Json({{"factor", 2.0}}));
  EXPECT_EQ(parameters(R"({"rope_type": "ntk", "factor": 2})"), Json({{"factor", 2.0}, {"mixed_b", nullptr}}));
  EXPECT_EQ(parameters(R"({"rope_type": "dynamic", "factor": 2})"), Json({{"factor", 2.0}, {"trained_length", 64}}));
  EXPECT_EQ(parameters(R"({"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                           "original_max_position_embeddings": 32})"),
            Json({{"factor", 8.0}, {"trained_length", 32}, {"low", 1.0}, {"high", 4.0}}));
  EXPECT_EQ(parameters(R"({"rope_type": "longrope", "factor": 2, "short_factor": [1, 2], "long_factor": [2, 3.5],
                           "original_max_position_embeddings": 32})"),
            Json({{"factor", 2.0},
                  {"trained_length", 32},
                  {"short_factor", {1.0, 2.0}},
                  {"long_factor", {2.0, 3.5}},
                  {"attention_factor", nullptr},
                  {"short_mscale", nullptr},
                  {"long_mscale", nullptr}}));
  EXPECT_EQ(parameters(R"({"rope_type": "yarn", "factor": 2, "attn_factor": 1.5, "mscale": 0.75, "truncate": false})"),
            Json({{"factor", 2.0},
                  {"trained_length", 64},
                  {"beta_fast", 32.0},
                  {"beta_slow", 1.0},
                  {"truncate", false},
                  {"attention_factor", nullptr},
                  {"mscale", 0.75},
                  {"mscale_all_dim", nullptr},
                  {"magnitude", 0.1},
                  {"mscale_ratio", false},
                  {"extrapolation_factor", 1.0},
                  {"attn_factor", 1.5}}));
}

TEST_F(Cli, inspect_prints_doubles_with_17_digits) {
  const std::string text = expect_success({"inspect", small_llama(), "--json"}).out;
  EXPECT_NE(text.find("\"inv_freq\": [1.0, 0.10000000000000001]"), std::string::npos) << text;
  EXPECT_NE(text.find("\"base\": 100.0,"), std::string::npos) << text;
}

TEST_F(Cli, inspect_reads_a_folder) {
  std::filesystem::create_directory(path("model"));
  std::filesystem::rename(small_llama(), path("model/config.json"));
  EXPECT_EQ(Json::parse(expect_success({"inspect", path("model"), "--json"}).out).at("model_type"), "llama");
  std::filesystem::create_directory(path("empty"));
  expect_error({"inspect", path("empty")}, "FILE");
}

TEST_F(Cli, inspect_shows_people_each_pair_and_what_scaling_did) {
  const std::string llama3 =
      R"(, "head_dim": 128, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,)"
      R"("high_freq_factor": 4.0, "original_max_position_embeddings": 8192})";
  const std::string text = expect_success({"inspect", small_llama(llama3, "500000.0"), "--pairs"}).out;
  EXPECT_TRUE(std::regex_search(text, std::regex("\n +0 +1 +6\\.28319 .*kept\n"))) << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("\n +32 .*blended x [2-7]\\.[0-9]+\n"))) << text;
  EXPECT_TRUE(std::regex_search(text, std::regex("\n +63 .*stretched x 8\n"))) << text;
}

TEST_F(Cli, inspect_shows_a_dynamic_rope_at_the_length_asked_for) {
  const std::string config = small_llama(R"(, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0})");
  const auto second = [&](const Strings& more) {
    Strings words = {"inspect", config, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return Json::parse(expect_success(words).out).at("ropes")[0].at("inv_freq")[1].get<double>();
  };
  EXPECT_EQ(second({}), 0.1);
  EXPECT_EQ(second({"--length", "64"}), 0.1);
  // base 100 (2 * 128 / 64 - 1)^(4/2) = 900; 900^(-2/4) = 1/30
  EXPECT_NEAR(second({"--length", "128"}), 1.0 / 30, 1e-16);
}

TEST_F(Cli, an_unknown_model_needs_a_pairing_and_a_known_one_can_be_overruled) {
  const std::string members =
      R"("hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "rope_theta": 100.0,)"
      R"("max_position_embeddings": 64, "model_type": )";
  const std::string unknown = write_config("unknown.json", members + "\"nobody_knows\"");
  expect_error({"inspect", unknown}, "MODEL_TYPE");
  const Json told = Json::parse(expect_success({"inspect", unknown, "--pairing", "interleaved", "--json"}).out);
  EXPECT_EQ(told.at("ropes")[0].at("pairing"), "interleaved");
  const Json overruled =
      Json::parse(expect_success({"inspect", small_llama(), "--pairing", "interleaved", "--json"}).out);
  EXPECT_EQ(overruled.at("ropes")[0].at("pairing"), "interleaved");
  EXPECT_NE(overruled.at("notes").dump().find("pairing"), std::string::npos);
}

TEST_F(Cli, inspect_refuses_bad_configs_with_one_line) {
  expect_error({"inspect", path("missing.json")}, "FILE");
  write_text(path("broken.json"), "{\"model_type\": ");
  expect_error({"inspect", path("broken.json")}, "JSON");
  expect_error({"inspect", small_llama(R"(, "rope_scaling": {"rope_type": "linear", "factor": 0.5})")}, "CONFIG_VALUE");
  expect_error({"inspect", small_llama(R"(, "rope_wobble": 3)")}, "CONFIG_KEY");
  expect_error({"inspect", small_llama("", "1.0")}, "CONFIG_VALUE");
}

TEST_F(Cli, a_model_without_a_rope_is_shown_and_cannot_turn) {
  const std::string bert = write_config(
      "bert.json", R"("model_type": "bert", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2)");
  const Json json = Json::parse(expect_success({"inspect", bert, "--json"}).out);
  EXPECT_EQ(json.at("ropes"), Json::array());
  EXPECT_EQ(json.at("notes").size(), 1U);
  expect_success({"inspect", bert});
  const Strings table = {"table", bert, "--positions", "0:4", "--output", path("t.safetensors")};
  expect_error(table, "ROPE");
  EXPECT_NE(run(table).err.find("has no rotary positions"), std::string::npos);
  write_tensors("in.safetensors", {make_tensor<float>("q", ElementType::f32, {1, 1, 4}, {1, 2, 3, 4})});
  expect_error({"apply", bert, "--input", path("in.safetensors"), "--output", path("t.safetensors")}, "ROPE");
  EXPECT_FALSE(std::filesystem::exists(path("t.safetensors")));
}

TEST_F(Cli, names_from_outside_write_no_lines_and_no_escapes) {
  const std::string config =
      write_config("config.json", R"("model_type": "a\nb\u001b[31m", "hidden_size": 8, "num_attention_heads": 2,)"
                                  R"("num_hidden_layers": 1, "rope_theta": 100.0, "max_position_embeddings": 64)");
  const std::string shown = expect_success({"inspect", config, "--pairing", "half"}).out;
  EXPECT_EQ(shown.rfind("model_type a\\x0Ab\\x1B[31m, 1 rope\n", 0), 0U) << shown;
  const std::string text =
      expect_success({"table", small_llama(), "--positions", "1", "--output", path("t\n.safetensors")}).out;
  EXPECT_EQ(text.find("t\n."), std::string::npos) << text;
}

TEST_F(Cli, inspect_needs_no_config) {
  const Json json =
      Json::parse(expect_success({"inspect", "--base", "100", "--pairing", "half", "--head-dim", "4", "--json"}).out);
  EXPECT_EQ(json.at("ropes")[0].at("inv_freq"), Json({1.0, 0.1}));
  expect_usage({"inspect", "--base", "100", "--pairing", "half"});
}

TEST_F(Cli, inspect_lists_the_tensors_of_a_file) {
  const std::string file =
      write_tensors("a.safetensors", {make_tensor<float>("q", ElementType::f32, {1, 2, 1, 2}, {1, 2, 3, 4}),
                                      make_tensor<std::uint16_t>("k", ElementType::bf16, {2}, {1, 2})});
  const Json json = Json::parse(expect_success({"inspect", file, "--json"}).out);
  EXPECT_EQ(keys_of(json), (Strings{"metadata", "tensors"}));
  ASSERT_EQ(json.at("tensors").size(), 2U);
  for (const Json& tensor : json.at("tensors")) {
    const bool q = tensor.at("name") == "q";
    EXPECT_EQ(tensor.at("dtype"), q ? "F32" : "BF16");
    EXPECT_EQ(tensor.at("shape"), q ? Json({1, 2, 1, 2}) : Json({2}));
  }
  write_npy(path("p.npy"), make_tensor<std::int64_t>("", ElementType::i64, {2, 3}, {1, 2, 3, 4, 5, 6}));
  const Json npy = Json::parse(expect_success({"inspect", path("p.npy"), "--json"}).out);
  EXPECT_EQ(npy.at("tensors")[0].at("dtype"), "I64");
  EXPECT_EQ(npy.at("tensors")[0].at("shape"), Json({2, 3}));
  EXPECT_NE(expect_success({"inspect", file}).out.find("BF16"), std::string::npos);

  write_text(path("short.safetensors"), read_text(file).substr(0, 60));
  expect_error({"inspect", path("short.safetensors")}, "FORMAT");
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

TEST_F(Cli, table_counts_ropes_from_zero) {
  const std::string out = path("t.safetensors");
  expect_success({"table", small_llama(), "--positions", "1", "--rope", "0", "--output", out});
  expect_error({"table", small_llama(), "--positions", "1", "--rope", "1", "--output", out}, "ROPE");
  expect_error({"table", small_llama(), "--positions", "1", "--rope", "-1", "--output", out}, "ROPE");
}

TEST_F(Cli, table_writes_everything_or_nothing) {
  expect_error({"table", small_llama(), "--positions", "1", "--output", path("no/such/folder/t.safetensors")}, "FILE");
  expect_error({"table", small_llama(), "--positions", "1", "--output", path("t.npy")}, "FORMAT");
  write_text(path("kept.safetensors"), "old");
  expect_error({"table", small_llama(), "--positions", "3:1", "--output", path("kept.safetensors")}, "POSITION");
  EXPECT_EQ(read_text(path("kept.safetensors")), "old");
}

// ---- targets, demo ----

TEST_F(Cli, targets_says_what_runs_and_what_is_chosen) {
  const Json json = Json::parse(expect_success({"targets", "--json"}).out);
  EXPECT_EQ(keys_of(json), (Strings{"chosen", "targets"}));
  ASSERT_EQ(json.at("targets").size(), targets().size());
  bool found = false;
  for (const Json& target : json.at("targets")) {
    EXPECT_EQ(keys_of(target), (Strings{"name", "runs"}));
    found = found || (target.at("name") == json.at("chosen") && target.at("runs") == true);
  }
  EXPECT_TRUE(found);
  EXPECT_NE(expect_success({"targets"}).out.find("scalar"), std::string::npos);
}

TEST_F(Cli, a_target_that_does_not_run_is_an_error) {
  expect_error({"targets"}, "TARGET", "ROTARY_TARGET=abacus");
  expect_error({"targets", "--target", "abacus"}, "TARGET");
  const Json json = Json::parse(run({"targets", "--json"}, "ROTARY_TARGET=scalar").out);
  EXPECT_EQ(json.at("chosen"), "scalar");
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
