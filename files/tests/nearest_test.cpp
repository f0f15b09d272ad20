// The known word that a misspelt one stands for.
#include "text/nearest.h"

#include <gtest/gtest.h>

#include <array>

namespace rotary {
namespace {

constexpr std::array<std::string_view, 6> models = {"llama", "llama4", "mistral", "qwen3", "qwen3_moe", "gpt2"};

TEST(Nearest, FindsOneSlipInAnyCaseAndTheFirstOfEqualsAndNothingFarAway) {
  const std::pair<std::string, const char*> words[] = {{"lama", "llama"},
                                                       {"lalma", "llama"},  // two letters changed places: one slip
                                                       {"mistrall", "mistral"},
                                                       {"qwen-moe", "qwen3_moe"},
                                                       {"Llama", "llama"},
                                                       {"GPT2", "gpt2"},
                                                       {"llama5", "llama"},
                                                       {"", ""},
                                                       {"l", ""},
                                                       {"gp", ""},  // two letters of three
                                                       {"gemma", ""},
                                                       {std::string(1000, 'l'), ""}};
  for (const auto& [word, wanted] : words) EXPECT_EQ(files::nearest(word, models), wanted) << word;
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
