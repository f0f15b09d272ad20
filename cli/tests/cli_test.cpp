// The program: models, colours, rounding. (What it prints and refuses: commands_test.cpp)
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "run.h"

namespace rotary::cli_tests {
namespace {

TEST_F(Cli, models_are_hundreds_found_by_any_part_of_a_word) {
  const auto json = [this](const std::string& filter) {
    return json_of({"models", filter}).at("models").get<std::vector<Json>>();
  };
  for (const Json& model : json("interleaved_to_half")) EXPECT_EQ(model.at("pairing"), "interleaved_to_half");
  for (const Json& model : json("mistral")) {
    EXPECT_NE(model.at("model_type").get<std::string>().find("mistral"), std::string::npos) << model;
  }
  EXPECT_GE(json("vision_config").size(), 20U);
  const std::vector<Json> all = json("");
  for (const Json& model : all)
    EXPECT_TRUE(model.at("rope") == true || !model.at("why").get<std::string>().empty()) << model;
  EXPECT_GE(std::count_if(all.begin(), all.end(), [](const Json& model) { return model.at("rope") == true; }), 400);
}

TEST_F(Cli, inspect_has_colours_in_a_terminal_unless_NO_COLOR_is_set) {
  const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0) GTEST_SKIP() << "no terminal can be opened";
  const int kept_open = open(ptsname(terminal), O_RDWR | O_NOCTTY);
  const auto shown = [&](const std::string& environment) {
    const std::string command = environment + " '" ROTARY_PROGRAM "' inspect '" + small_llama() +
                                "' --scaling linear --factor 2 > " + ptsname(terminal);
    EXPECT_EQ(std::system(command.c_str()), 0);
    std::string text(65536, '\0');
    const ssize_t count = read(terminal, text.data(), text.size());
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text;
  };
  const std::string coloured = shown("NO_COLOR= TERM=xterm");
  EXPECT_TRUE(contains(coloured, "0-1 \x1B[36mstretched\x1B[0m")) << coloured;
  EXPECT_TRUE(contains(coloured, "\x1B[1mrope 0\x1B[0m")) << coloured;
  EXPECT_TRUE(contains(shown("NO_COLOR=1 TERM=xterm"), "0-1 stretched"));
  EXPECT_TRUE(contains(shown("NO_COLOR= TERM=dumb"), "0-1 stretched"));
  close(kept_open);
  close(terminal);
}

// Rounded once: at some position rounding to f32 first would give another value.
TEST_F(Cli, table_rounds_once_from_the_exact_value) {
  const auto values = [&](const Strings& more) {
    expect_success(
        Strings{"table", small_llama("", "500000.0"), "--output", path("t.safetensors"), "--positions", "0:20000"} +
        more);
    return read_tensor("t.safetensors", "cos");
  };
  const std::vector<float> wide = values_of(values({}));
  for (const std::string type : {"f16", "bf16"}) {
    const auto narrow = [&](float value) { return type == "f16" ? to_f16(value).bits : to_bf16(value).bits; };
    const std::vector<std::uint16_t> bits = values_of<std::uint16_t>(values({"--dtype", type}));
    const std::vector<float> rounded = values_of(values({"--rounding", type}));
    ASSERT_EQ(bits.size(), rounded.size());
    int twice = 0;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      ASSERT_EQ(bits[i], narrow(rounded[i])) << i;
      twice += bits[i] != narrow(wide[i]) ? 1 : 0;
    }
    EXPECT_LT(twice, 10) << "roundings by way of f32 differ rarely";
  }
}

}  // namespace
}  // namespace rotary::cli_tests
