// rotary extend: what it prints, the keys of its JSON, the folder that it writes, and what it refuses.
#include <nlohmann/json.hpp>

#include "rotary/config.h"
#include "run.h"

namespace rotary::cli_tests {
namespace {

using Json = nlohmann::ordered_json;
using Strings = std::vector<std::string>;

class ExtendCommand : public Cli {
 protected:
  static std::string golden(const std::string& name) {
    return ROTARY_SOURCE_DIR "/tests/golden/configs/" + name + ".json";
  }
  Json json(Strings words) const {
    words.insert(words.begin(), "extend");
    words.push_back("--json");
    return Json::parse(expect_success(words).out);
  }
  static Json method_of(const Json& plan, const std::string& name) {
    for (const Json& method : plan["methods"]) {
      if (method["method"] == name) return method;
    }
    ADD_FAILURE() << name;
    return {};
  }
};

TEST_F(ExtendCommand, shows_all_methods_and_recommends_one) {
  const std::string out = expect_success({"extend", golden("qwen2.5-7b"), "--context", "131072"}).out;
  for (const char* words : {"32768 tokens trained (max_position_embeddings), 131072 wanted: 4 times as long",
                            "published    Qwen: yarn", "recommended  yarn", "\n  linear ", "\n  ntk ", "\n  dynamic ",
                            "\n  yarn ", "\n  llama3 ", "\n  longrope ", "max_position_embeddings: 32768 -> 131072",
                            "\"original_max_position_embeddings\": 32768}", "static YaRN changes short texts too"}) {
    EXPECT_NE(out.find(words), std::string::npos) << words << "\n" << out;
  }
}

TEST_F(ExtendCommand, shows_one_method_pair_by_pair) {
  const std::string out =
      expect_success({"extend", golden("llama-3-8b"), "--context", "65536", "--method", "yarn"}).out;
  EXPECT_NE(out.find("turns trained"), std::string::npos);
  EXPECT_NE(out.find("\n    63 "), std::string::npos) << out;
  EXPECT_EQ(out.find("\n  linear "), std::string::npos);
}

TEST_F(ExtendCommand, the_keys_of_its_json_are_a_contract) {
  const Json plan = json({golden("gemma-3-4b-v5"), "--context", "262144"});
  Strings keys;
  for (const auto& item : plan.items()) keys.push_back(item.key());
  EXPECT_EQ(keys,
            (Strings{"config", "model_type", "context", "trained_length", "trained_length_from", "smallest_factor",
                     "family_publishes", "ropes", "methods", "recommended", "why", "warnings", "written"}));
  EXPECT_EQ(plan["ropes"][0]["extended"], false);
  EXPECT_EQ(plan["ropes"][1]["extended"], true);
  EXPECT_EQ(plan["methods"].size(), 6U);
  for (const Json& method : plan["methods"]) {
    keys.clear();
    for (const auto& item : method.items()) keys.push_back(item.key());
    EXPECT_EQ(keys, (Strings{"method",
                             "factor",
                             "from",
                             "rope_parameters",
                             "rope_scaling",
                             "rope_theta",
                             "max_position_embeddings",
                             "unsaid",
                             "llama_cpp",
                             "changes",
                             "rope",
                             "attention_factor",
                             "pairs",
                             "largest_unseen_angle",
                             "pair_of_largest_unseen_angle",
                             "pairs_with_new_angles",
                             "smallest_step",
                             "largest_step",
                             "inv_freq",
                             "wavelength",
                             "stretch",
                             "effect",
                             "turns_in_training",
                             "turns_in_context",
                             "sees_new_angles",
                             "more_ropes",
                             "warnings"}));
    EXPECT_EQ(method["inv_freq"].size(), 128U);
    EXPECT_EQ(method["rope"], 1);
    const Json& pairs = method["pairs"];
    EXPECT_EQ(pairs["kept"].get<int>() + pairs["blended"].get<int>() + pairs["stretched"].get<int>(), 128);
  }
  EXPECT_EQ(plan["family_publishes"]["publisher"], "Google");
  EXPECT_EQ(json({golden("phi-3-mini-4k"), "--context", "131072"})["methods"][3]["method"], "yarn");
  EXPECT_FALSE(json({golden("phi-3-mini-4k"), "--context", "131072"})["methods"][3]["refused"].empty());
}

// The written folder is a config that rotary and the file's own readers take, and its frequencies are the planned ones.
TEST_F(ExtendCommand, writes_a_config_that_is_read_back_as_planned) {
  int written = 0;
  for (const char* file : {"qwen2.5-7b", "llama-3-8b", "deepseek-v3", "gemma-3-27b", "qwen2-vl-7b", "phi-3-mini-4k"}) {
    for (const char* method : {"linear", "ntk", "dynamic", "yarn", "llama3", "longrope"}) {
      const std::string folder = path(std::string(file) + "-" + method);
      const Strings words = {"extend", golden(file), "--context", "1048576", "--method",
                             method,   "--write",    folder,      "--json"};
      const Result result = run(words);
      if (result.exit != 0) {
        EXPECT_EQ(std::string(file), "phi-3-mini-4k") << result.err;
        EXPECT_FALSE(std::filesystem::exists(folder));
        continue;
      }
      ++written;
      const Json plan = Json::parse(result.out);
      EXPECT_EQ(plan["written"], folder + "/config.json");
      const Model model = read_config(folder);
      const Json& planned = plan["methods"][0];
      const Frequencies read = frequencies(model.ropes[planned["rope"].get<std::size_t>()].rope, 1048576);
      EXPECT_EQ(read.inv_freq, planned["inv_freq"].get<std::vector<double>>()) << folder;
      EXPECT_EQ(read.attention_factor, planned["attention_factor"].get<double>()) << folder;
      const std::string note = read_text(folder + "/rotary-extend.md");
      EXPECT_NE(note.find("rotary extend " + golden(file) + " --context 1048576 --method " + method),
                std::string::npos);
      for (const Json& change : planned["changes"]) {
        EXPECT_NE(note.find("`" + change["key"].get<std::string>() + "`"), std::string::npos) << note;
      }
      for (const Json& warning : planned["warnings"]) {
        EXPECT_NE(note.find(warning.get<std::string>()), std::string::npos) << note;
      }
    }
  }
  EXPECT_EQ(written, 32);
}

TEST_F(ExtendCommand, writes_by_the_recommended_method_where_none_is_named) {
  const Json plan = json({golden("llama-3-8b"), "--context", "131072", "--write", path("new/folder")});
  EXPECT_EQ(plan["recommended"], "llama3");
  const Json config = Json::parse(read_text(path("new/folder/config.json")));
  EXPECT_EQ(config["rope_scaling"], method_of(plan, "llama3")["rope_scaling"]);
  EXPECT_EQ(config["rope_scaling"]["factor"], 8.0);
  // The way back into the command: the new file is scaled already, and stays as it is.
  const Json again = json({path("new/folder"), "--context", "131072"});
  EXPECT_EQ(method_of(again, "llama3")["changes"].size(), 0U);
}

TEST_F(ExtendCommand, replaces_nothing) {
  std::filesystem::create_directory(path("model"));
  std::filesystem::copy(golden("llama-3-8b"), path("model/config.json"));
  const std::string before = read_text(path("model/config.json"));
  expect_error({"extend", path("model"), "--context", "131072", "--write", path("model")}, "FILE");
  EXPECT_EQ(read_text(path("model/config.json")), before);
  EXPECT_FALSE(std::filesystem::exists(path("model/rotary-extend.md")));
  std::filesystem::create_directory(path("noted"));
  write_text(path("noted/rotary-extend.md"), "mine");
  expect_error({"extend", path("model"), "--context", "131072", "--write", path("noted")}, "FILE");
  EXPECT_FALSE(std::filesystem::exists(path("noted/config.json")));
  write_text(path("file"), "mine");
  expect_error({"extend", path("model"), "--context", "131072", "--write", path("file")}, "FILE");
  EXPECT_EQ(read_text(path("file")), "mine");
}

TEST_F(ExtendCommand, refuses_in_one_sentence) {
  expect_error({"extend", golden("llama-3-8b"), "--context", "8192"}, "VALUE");
  expect_error({"extend", golden("llama-3-8b"), "--context", "16384", "--factor", "0.5"}, "VALUE");
  expect_error({"extend", golden("gpt-j-6b"), "--context", "16384"}, "ROPE");
  expect_error({"extend", golden("qwen2.5-vl-7b"), "--context", "1000000", "--rope", "1"}, "ROPE");
  expect_error({"extend", golden("qwen2.5-vl-7b"), "--context", "1000000", "--rope", "9"}, "ROPE");
  expect_error({"extend", golden("phi-3-mini-4k"), "--context", "131072", "--method", "yarn"}, "ROPE");
  expect_error({"extend", golden("llama-2-7b.params"), "--context", "131072"}, "CONFIG_MISSING");
  expect_error({"extend", path("none"), "--context", "131072"}, "FILE");
  expect_usage({"extend", golden("llama-3-8b")});
  expect_usage({"extend", "--context", "131072"});
  expect_usage({"extend", golden("llama-3-8b"), "--context", "0"});
  for (const char* word : {"128k", "131072.0"}) {
    const Result result = run({"extend", golden("llama-3-8b"), "--context", word});
    EXPECT_NE(result.err.find("--context must be a whole number, in digits alone, but got"), std::string::npos);
  }
  expect_usage({"extend", golden("llama-3-8b"), "--context", "131072", "--rope", "-1"});
  expect_usage({"extend", golden("llama-3-8b"), "--context", "131072", "--method", "alibi"});
  const Result both = run({"extend", golden("llama-3-8b"), "--context", "8192", "--json"});
  EXPECT_EQ(both.exit, 1);
  EXPECT_NE(both.err.find("{\"error\":{\"code\":\"VALUE\""), std::string::npos) << both.err;
}

TEST_F(ExtendCommand, writes_a_params_json) {
  const Strings asked = {"extend", golden("llama-3.1-8b.params"), "--context", "262144"};
  Strings writing = asked;
  writing.insert(writing.end(), {"--write", path("params")});
  const std::string out = expect_success(writing).out;
  EXPECT_NE(out.find("rope_scaling_factor: (none) -> 32"), std::string::npos) << out;
  EXPECT_NE(out.find("written: " + path("params/params.json")), std::string::npos) << out;
  EXPECT_EQ(std::get<Llama3>(read_config(path("params")).ropes.front().rope.scaling).factor, 32);
  EXPECT_NE(read_text(path("params/rotary-extend.md")).find("## What changed in params.json"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(path("params/config.json")));
  expect_error(writing, "FILE");  // it is there now
  Strings yarn = asked;
  yarn.insert(yarn.end(), {"--method", "yarn"});
  EXPECT_NE(expect_success(yarn).out.find("params.json cannot say it: Meta's"), std::string::npos);
  yarn.insert(yarn.end(), {"--write", path("yarn")});
  expect_error(yarn, "FILE");
  EXPECT_FALSE(std::filesystem::exists(path("yarn")));
}

TEST_F(ExtendCommand, shows_the_options_of_llama_cpp_for_a_gguf_file_and_does_not_write_it) {
  const std::string gguf = ROTARY_SOURCE_DIR "/tests/golden/gguf/qwen2.gguf";
  const std::string words = "--ctx-size 131072 --rope-scaling yarn --rope-scale 4 --yarn-orig-ctx 32768";
  const std::string out = expect_success({"extend", gguf, "--context", "131072"}).out;
  EXPECT_NE(out.find("  for llama.cpp:      " + words + "\n"), std::string::npos) << out;
  const Json methods = json({gguf, "--context", "131072"})["methods"];
  EXPECT_EQ(methods[3]["llama_cpp"], words);
  EXPECT_TRUE(methods[4]["llama_cpp"].is_null());
  expect_error({"extend", gguf, "--context", "131072", "--write", path("gguf")}, "FILE");
  EXPECT_FALSE(std::filesystem::exists(path("gguf")));
}

// 1e300 and 1e15: the slowest pairs take more tokens for a turn than a double can say.
TEST_F(ExtendCommand, says_null_for_a_wavelength_that_no_double_holds) {
  const std::string config = path("slow.json");
  write_text(config, R"({"model_type": "llama", "hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 2,
                         "max_position_embeddings": 4096, "rope_theta": 1e300})");
  const Json plan = json({config, "--context", "131072", "--factor", "1e15", "--method", "linear"});
  EXPECT_TRUE(plan["methods"][0]["wavelength"][63].is_null());
  EXPECT_TRUE(plan["methods"][0]["wavelength"][0].is_number());
  const Result plot =
      expect_success({"plot", "wavelengths", "--base", "1e300", "--scaling", "linear", "--factor", "1e15", "--json"});
  EXPECT_LT(Json::parse(plot.out)["lines"][0]["points"].size(), 64U);
}

TEST_F(ExtendCommand, reads_standard_input) {
  const std::string command = "'" ROTARY_PROGRAM "' extend - --context 131072 --write '" + path("piped") + "' <'" +
                              golden("qwen2.5-7b") + "' >'" + path("out") + "' 2>&1";
  ASSERT_EQ(std::system(command.c_str()), 0) << read_text(path("out"));
  EXPECT_EQ(read_config(path("piped")).ropes.front().context, 131072);
}

}  // namespace
}  // namespace rotary::cli_tests
