// rotary extend: the folder that it writes. (What it prints: commands_test.cpp)

#include "rotary/config.h"
#include "run.h"

namespace rotary::cli_tests {
namespace {

class ExtendCommand : public Cli {
 protected:
  static std::string golden(const std::string& name) {
    return ROTARY_SOURCE_DIR "/tests/golden/configs/" + name + ".json";
  }
};

// The written to is a config that rotary and the file's own readers take, and its frequencies are the planned ones.
TEST_F(ExtendCommand, writes_a_config_that_is_read_back_as_planned) {
  int written = 0;
  for (const char* file : {"qwen2.5-7b", "llama-3-8b", "deepseek-v3", "gemma-3-27b", "qwen2-vl-7b", "phi-3-mini-4k"}) {
    for (const char* method : {"linear", "yarn", "llama3"}) {
      const std::string to = path(std::string(file) + "-" + method);
      const Strings words = {"extend", golden(file), "--length", "1048576", "--scaling",
                             method,   "--output",   to,         "--json"};
      const Result result = run(words);
      if (result.exit != 0) {
        EXPECT_EQ(std::string(file), "phi-3-mini-4k") << result.err;
        EXPECT_FALSE(std::filesystem::exists(to));
        continue;
      }
      ++written;
      const Json plan = Json::parse(result.out);
      EXPECT_EQ(plan["written"], to + "/config.json");
      const Model model = read_config(to);
      const Json& planned = plan["methods"][0];
      const Frequencies read = frequencies(model.ropes[planned["rope"].get<std::size_t>()].rope, 1048576);
      EXPECT_EQ(read.inv_freq, planned["inv_freq"].get<std::vector<double>>()) << to;
      EXPECT_EQ(read.attention_factor, planned["attention_factor"].get<double>()) << to;
    }
  }
  EXPECT_EQ(written, 15);
}

}  // namespace
}  // namespace rotary::cli_tests
