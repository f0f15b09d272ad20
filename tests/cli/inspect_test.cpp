// rotary inspect: the width of what it prints, colours, and other scalings. (What it prints: commands_test.cpp)
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "run.h"

namespace rotary::cli_tests {
namespace {

using Json = nlohmann::json;
using Strings = std::vector<std::string>;

const std::string configs = ROTARY_SOURCE_DIR "/tests/golden/configs/";

class Inspect : public Cli {
 protected:
  std::string text_of(Strings words) const {
    words.insert(words.begin(), "inspect");
    return expect_success(words).out;
  }
  Json json_of(Strings words) const {
    words.emplace_back("--json");
    return Json::parse(text_of(words));
  }
  Json rope_of(const Strings& words) const { return json_of(words).at("ropes").at(0); }
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST_F(Inspect, shows_a_usual_model_on_one_screen) {
  for (const char* file : {"llama-3.1-8b.json", "qwen3-8b.json", "qwen2-7b.json", "phi-4.json"}) {
    const std::string text = text_of({configs + file});
    std::istringstream stream(text);
    int lines = 0;
    for (std::string line; std::getline(stream, line); ++lines) EXPECT_LE(line.size(), 80U) << line;
    EXPECT_LE(lines, 24) << text;
    EXPECT_FALSE(contains(text, "\x1B")) << "no colours in a file";
    EXPECT_FALSE(contains(text, "inv_freq")) << "no pairs";
  }
}

TEST_F(Inspect, has_colours_in_a_terminal_unless_NO_COLOR_is_set) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) GTEST_SKIP() << "no terminal can be opened";
  const int kept_open = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  const auto shown = [&](const std::string& environment) {
    const std::string command =
        environment + " '" ROTARY_PROGRAM "' inspect '" + small_llama() + "' > " + ptsname(terminal);
    EXPECT_EQ(std::system(command.c_str()), 0);
    std::string text(65536, '\0');
    const ssize_t count = read(terminal, text.data(), text.size());
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text;
  };
  const std::string coloured = shown("NO_COLOR= TERM=xterm");
  EXPECT_TRUE(contains(coloured, "0-1 \x1B[32mkept\x1B[0m")) << coloured;
  EXPECT_TRUE(contains(coloured, "\x1B[1mrope 0\x1B[0m")) << coloured;
  EXPECT_TRUE(contains(shown("NO_COLOR=1 TERM=xterm"), "0-1 kept"));
  EXPECT_TRUE(contains(shown("NO_COLOR= TERM=dumb"), "0-1 kept"));
  close(kept_open);
  close(terminal);
}

TEST_F(Inspect, every_value_and_origin_fits_80_columns) {
  for (const auto& entry : std::filesystem::directory_iterator(configs)) {
    if (entry.path().extension() != ".json") continue;
    const std::string text = text_of({entry.path().string()});
    std::istringstream stream(text.substr(0, text.find("\nnotes\n")));
    for (std::string line; std::getline(stream, line);) {
      const bool formula = contains(line, "ln(original_max_position_embeddings))");  // one word of 37 letters
      EXPECT_LE(line.size(), formula ? 84U : 80U) << entry.path() << ": " << line;
    }
  }
}

TEST_F(Inspect, another_scaling_equals_a_config_that_says_it) {
  const auto numbers = [&](Strings words, const std::string& length) {
    if (!length.empty()) words.insert(words.end(), {"--length", length});
    const Json rope = rope_of(words);
    return std::pair(rope.at("inv_freq"), rope.at("attention_factor"));
  };
  struct {
    std::string word, trained, scaling, length = {};
  } const cases[] = {
      {"yarn", "", R"({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 64})"},
      {"yarn", "16", R"({"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 16})"},
      {"linear", "", R"({"rope_type": "linear", "factor": 4})"},
      {"ntk_fixed", "", R"({"rope_type": "ntk", "factor": 4})"},
      {"ntk", "", R"({"rope_type": "ntk_aware", "factor": 4})"},
      {"dynamic", "", R"({"rope_type": "dynamic", "factor": 4})", "256"},
      {"llama3", "16", R"({"rope_type": "llama3", "factor": 4, "low_freq_factor": 1, "high_freq_factor": 4,
                           "original_max_position_embeddings": 16})"}};
  for (const auto& each : cases) {
    Strings words = {small_llama(), "--scaling", each.word, "--factor", "4"};
    if (!each.trained.empty()) words.insert(words.end(), {"--trained-length", each.trained});
    const auto by_options = numbers(words, each.length);
    EXPECT_EQ(numbers({small_llama(R"(, "rope_scaling": )" + each.scaling)}, each.length), by_options) << each.word;
  }
  const std::string linear = small_llama(R"(, "rope_scaling": {"rope_type": "linear", "factor": 4})");
  const auto unscaled = numbers({linear, "--scaling", "default"}, "");
  EXPECT_EQ(numbers({small_llama()}, ""), unscaled);
}

TEST_F(Inspect, table_and_apply_take_another_scaling) {
  const std::string config = small_llama();
  const Strings scaling = {"--scaling", "linear", "--factor", "2"};
  const auto with = [&](Strings words) {
    words.insert(words.end(), scaling.begin(), scaling.end());
    return words;
  };
  expect_success(with({"table", config, "--positions", "0,2", "--output", path("t.safetensors")}));
  expect_success({"table", config, "--positions", "0:2", "--output", path("u.safetensors")});
  EXPECT_EQ(values_of<float>(read_tensor(path("t.safetensors"), "cos")),
            values_of<float>(read_tensor(path("u.safetensors"), "cos")));
  const Result without = run(with({"inspect", "--base", "100", "--pairing", "half", "--head-dim", "4", "--json"}));
  EXPECT_EQ(Json::parse(without.out).at("ropes").at(0).at("inv_freq"), Json({0.5, 0.05})) << without.err;
}

}  // namespace
}  // namespace rotary::cli_tests
