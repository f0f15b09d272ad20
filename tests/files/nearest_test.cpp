// Which known word a misspelt one stands for.
#include "files/text/nearest.h"

#include <gtest/gtest.h>

#include <array>

namespace rotary {
namespace {

constexpr std::array<std::string_view, 6> models = {"llama", "llama4", "mistral", "qwen3", "qwen3_moe", "gpt2"};

TEST(Nearest, FindsOneSlip) {
  EXPECT_EQ(files::nearest("lama", models), "llama");
  EXPECT_EQ(files::nearest("lalma", models), "llama");  // two letters changed places: one slip
  EXPECT_EQ(files::nearest("mistrall", models), "mistral");
  EXPECT_EQ(files::nearest("qwen-moe", models), "qwen3_moe");
}

TEST(Nearest, TakesUpperAndLowerCaseForTheSame) {
  EXPECT_EQ(files::nearest("Llama", models), "llama");
  EXPECT_EQ(files::nearest("GPT2", models), "gpt2");
}

TEST(Nearest, TakesTheFirstOfEquals) { EXPECT_EQ(files::nearest("llama5", models), "llama"); }

TEST(Nearest, FindsNothingFarAway) {
  EXPECT_EQ(files::nearest("", models), "");
  EXPECT_EQ(files::nearest("l", models), "");
  EXPECT_EQ(files::nearest("gp", models), "");  // two letters of three
  EXPECT_EQ(files::nearest("gemma", models), "");
  EXPECT_EQ(files::nearest(std::string(1000, 'l'), models), "");
  EXPECT_EQ(files::nearest("llama", {}), "");
}

TEST(Nearest, CountsLettersAddedRemovedChangedAndSwapped) {
  EXPECT_EQ(files::edit_distance("", "abc"), 3U);
  EXPECT_EQ(files::edit_distance("abc", "abc"), 0U);
  EXPECT_EQ(files::edit_distance("abc", "acb"), 1U);
  EXPECT_EQ(files::edit_distance("kitten", "sitting"), 3U);
}

}  // namespace
}  // namespace rotary
