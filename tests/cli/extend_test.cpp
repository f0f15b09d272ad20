// rotary extend: the keys of its JSON and the folder that it writes. (What it prints: commands_test.cpp)
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
};

TEST_F(ExtendCommand, the_keys_of_its_json_are_a_contract) {
  const Json plan = json({golden("gemma-3-4b-v5"), "--length", "262144"});
  Strings keys;
  for (const auto& item : plan.items()) keys.push_back(item.key());
  EXPECT_EQ(keys, (Strings{"version", "config", "model_type", "context", "trained_length", "trained_length_from",
                           "smallest_factor", "kv_cache_bytes", "kv_cache_assumes", "family_publishes", "ropes",
                           "methods", "recommended", "why", "otherwise", "warnings", "written"}));
  EXPECT_EQ(plan["ropes"][0]["extended"], false);
  EXPECT_EQ(plan["ropes"][1]["extended"], true);
  EXPECT_EQ(plan["methods"].size(), 7U);
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
                             "overrides",
                             "vllm",
                             "sglang",
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
  EXPECT_EQ(json({golden("phi-3-mini-4k"), "--length", "131072"})["methods"][3]["method"], "yarn");
  EXPECT_FALSE(json({golden("phi-3-mini-4k"), "--length", "131072"})["methods"][3]["refused"].empty());
}

// The written folder is a config that rotary and the file's own readers take, and its frequencies are the planned ones.
TEST_F(ExtendCommand, writes_a_config_that_is_read_back_as_planned) {
  int written = 0;
  for (const char* file : {"qwen2.5-7b", "llama-3-8b", "deepseek-v3", "gemma-3-27b", "qwen2-vl-7b", "phi-3-mini-4k"}) {
    for (const char* method : {"linear", "ntk", "dynamic", "yarn", "llama3", "longrope"}) {
      const std::string folder = path(std::string(file) + "-" + method);
      const Strings words = {"extend", golden(file), "--length", "1048576", "--scaling",
                             method,   "--output",   folder,     "--json"};
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
      std::istringstream words_of_note(read_text(folder + "/rotary-extend.md"));
      std::string note;
      for (std::string word; words_of_note >> word;) note += word + " ";
      EXPECT_NE(note.find("rotary extend " + golden(file) + " --length 1048576 --scaling " + method),
                std::string::npos);
      for (const Json& change : planned["changes"]) {
        const std::string key = change["key"].get<std::string>();
        EXPECT_NE(note.find("\"" + key.substr(key.rfind('.') + 1) + "\""), std::string::npos) << note;
      }
      for (const Json& warning : planned["warnings"]) {
        EXPECT_NE(note.find(warning.get<std::string>()), std::string::npos) << note;
      }
    }
  }
  EXPECT_EQ(written, 32);
}

// 1e300 and 1e15: the slowest pairs take more tokens for a turn than a double can say.
TEST_F(ExtendCommand, says_null_for_a_wavelength_that_no_double_holds) {
  const std::string config = path("slow.json");
  write_text(config, R"({"model_type": "llama", "hidden_size": 512, "num_attention_heads": 4, "num_hidden_layers": 2,
                         "max_position_embeddings": 4096, "rope_theta": 1e300})");
  const Json plan = json({config, "--length", "131072", "--factor", "1e15", "--scaling", "linear"});
  EXPECT_TRUE(plan["methods"][0]["wavelength"][63].is_null());
  EXPECT_TRUE(plan["methods"][0]["wavelength"][0].is_number());
  const Result plot =
      expect_success({"plot", "wavelengths", "--base", "1e300", "--scaling", "linear", "--factor", "1e15", "--json"});
  EXPECT_LT(Json::parse(plot.out)["lines"][0]["points"].size(), 64U);
}

}  // namespace
}  // namespace rotary::cli_tests
