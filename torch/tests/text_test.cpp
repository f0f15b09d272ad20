// Texts and their vocabularies.
#include "rotary_torch/training/trainer.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "torch/tests/tensors.h"

namespace rotary_torch {
namespace {

namespace fs = std::filesystem;
using rotary::test::expect_error;
using Texts = Scratch;

TEST(TextHash, ChangesWithEveryByte) {  // the first two: the published values of FNV-1a
  EXPECT_EQ(text_hash(""), "cbf29ce484222325");
  EXPECT_EQ(text_hash("a"), "af63dc4c8601ec8c");
  EXPECT_NE(text_hash("round goes the day"), text_hash("round goes the dax"));
}

TEST_F(Texts, TheSmokeTextIsPlainAndLongEnough) {
  const std::string_view text = smoke_text();
  EXPECT_GT(text.size(), 5000U);
  for (const char c : text) EXPECT_TRUE(c == '\n' || (c >= ' ' && c <= '~'));
  EXPECT_EQ(corpus(text, 64).train.numel(), static_cast<std::int64_t>(text.size() * 9 / 10));
}

TEST_F(Texts, CharactersAreCodePointsInRisingOrder) {
  const std::string text =
      "b\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"
      "ab\xED\x9F\xBF\xEE\x80\x80\xF4\x8F\xBF\xBF";
  const Vocabulary vocabulary = Vocabulary::of(text);
  ASSERT_EQ(vocabulary.size(), 8);  // a b e-acute U+D7FF euro... in order of their numbers
  const std::vector<std::string> expected = {
      "a", "b", "\xC3\xA9", "\xE2\x82\xAC", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"};
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(vocabulary.decode(static_cast<std::int64_t>(i)), expected[i]);
  EXPECT_EQ(vocabulary.encode("").numel(), 0);
  expect_error("TEXT", "\"z\"", [&] { vocabulary.encode("az"); });
  expect_error("TEXT", "every character must be one of", [&] { vocabulary.encode("\xF0\x9F\x98\x81"); });
  expect_error("VALUE", "0..7", [&] { vocabulary.decode(8); });
}

TEST_F(Texts, WhatIsNotUtf8IsRefusedByItsPlace) {
  for (const std::string bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x80\x80", "\xE2\x82", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xC3(", "\xE2\x28\xA1"}) {
    expect_error("TEXT", "byte 2 ", [&] { Vocabulary::of("ab" + bad); });
  }
  expect_error("TEXT", "byte 0", [] { Vocabulary::of(std::string("ab\0c", 4)); });
}

TEST_F(Texts, AVocabularyComesBackFromItsFile) {
  const std::string text = "\n\t \"\\/\x01\x7F{}aZ\xC3\xA9\xF0\x9F\x98\x80";
  const Vocabulary vocabulary = Vocabulary::of(text);
  vocabulary.write(path("vocab.json"));
  const Vocabulary again = Vocabulary::read(path("vocab.json"));
  EXPECT_EQ(again.size(), vocabulary.size());
  EXPECT_TRUE(at::equal(again.encode(text), vocabulary.encode(text)));
}

TEST_F(Texts, AFileThatIsNoVocabularyIsRefused) {
  const auto expect_refused = [this](const std::string& code, const std::string& words, const std::string& text) {
    expect_error(code, words, [&] { Vocabulary::read(write("v.json", text)); });
  };
  expect_refused("JSON", "", "{\"a\": 0");
  expect_refused("JSON", "", "{\"a\": 0, \"a\": 1}");
  expect_refused("FORMAT", "object", "[\"a\"]");
  expect_refused("FORMAT", "object", "{}");
  for (const char* wrong : {"{\"ab\": 0}", "{\"\": 0}", "{\"a\": \"0\"}", "{\"a\": 0, \"b\": 2}",
                            "{\"a\": 0, \"b\": 0}", "{\"a\": -1}", "{\"b\": 0, \"a\": 1}"})
    expect_refused("FORMAT", "0, 1, 2, ... of single characters, rising", wrong);
  expect_error("FILE", "v2.json", [this] { Vocabulary::read(path("v2.json")); });
}

TEST_F(Texts, ATextMustReachForABlockInBothParts) {
  EXPECT_EQ(corpus(std::string(330, 'a'), 32).validation.numel(), 33);
  expect_error("TEXT", "got 320", [] { corpus(std::string(320, 'a'), 32); });
  expect_error("TEXT", "got 0", [] { corpus("", 32); });
}

}  // namespace
}  // namespace rotary_torch
