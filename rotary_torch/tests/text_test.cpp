// Texts, their vocabularies, and where Tiny Shakespeare comes from.
#include "rotary_torch/training/text.h"

#include <ATen/ops/equal.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "rotary_torch/tests/scratch.h"
#include "rotary_torch/training/sha256.h"

namespace rotary_torch {
namespace {

namespace fs = std::filesystem;
using Texts = Scratch;

TEST(Sha256, GivesTheValuesOfTheStandardAndOfHashlib) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1000000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  // Every length around the block's 64 bytes: the hash of the hashes of n bytes 7 i mod 256, n = 0 .. 199.
  std::string all;
  for (int n = 0; n < 200; ++n) {
    std::string bytes;
    for (int i = 0; i < n; ++i) bytes += static_cast<char>(i * 7 & 255);
    all += sha256(bytes);
  }
  EXPECT_EQ(sha256(all), "ca07a79e06ea4c825585cbbf34308733cb36356746a5eec888d7f813ec003999");
}

TEST_F(Texts, TheVocabularyOfTinyShakespeareHas65CharactersInOrder) {
  const char* cache = std::getenv("ROTARY_CACHE");
  const char* home = std::getenv("HOME");
  const fs::path folder = cache != nullptr ? fs::path(cache) : fs::path(home != nullptr ? home : "") / ".cache/rotary";
  if (!fs::exists(folder / "tinyshakespeare.txt")) GTEST_SKIP() << "Tiny Shakespeare is not in " << folder;
  const Corpus parts = corpus(read_text(folder / "tinyshakespeare.txt"), 64);
  EXPECT_EQ(parts.vocabulary.size(), 65);
  EXPECT_EQ(parts.vocabulary.decode(parts.vocabulary.encode("\n !$&',-.3:;?ABZaz")), "\n !$&',-.3:;?ABZaz");
  EXPECT_EQ(parts.vocabulary.encode("\nA").data_ptr<std::int64_t>()[1], 13);
  EXPECT_EQ(parts.train.numel(), 1003854);
  EXPECT_EQ(parts.validation.numel(), 111540);
}

TEST_F(Texts, TheBundledTextIsPlainAndLongEnough) {
  const std::string_view text = bundled_text();
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
  EXPECT_EQ(vocabulary.decode(vocabulary.encode(text)), text);
  EXPECT_EQ(vocabulary.encode("").numel(), 0);
  expect_error("TEXT", "U+007A (\"z\")", [&] { vocabulary.encode("az"); });
  expect_error("TEXT", "U+1F601", [&] { vocabulary.encode("\xF0\x9F\x98\x81"); });
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
  const auto expect_refused = [this](const std::string& code, const std::string& words, const std::string& json) {
    expect_error(code, words, [&] { Vocabulary::read(write("v.json", json)); });
  };
  expect_refused("JSON", "", "{\"a\": 0");
  expect_refused("JSON", "", "{\"a\": 0, \"a\": 1}");
  expect_refused("FORMAT", "object", "[\"a\"]");
  expect_refused("FORMAT", "object", "{}");
  expect_refused("FORMAT", "one character", "{\"ab\": 0}");
  expect_refused("FORMAT", "one character", "{\"\": 0}");
  expect_refused("FORMAT", "integer", "{\"a\": \"0\"}");
  expect_refused("FORMAT", "integer", "{\"a\": 0.0}");
  expect_refused("FORMAT", "0, 1, 2", "{\"a\": 0, \"b\": 2}");
  expect_refused("FORMAT", "0, 1, 2", "{\"a\": 0, \"b\": 0}");
  expect_refused("FORMAT", "0, 1, 2", "{\"a\": -1}");
  expect_refused("FORMAT", "rise", "{\"b\": 0, \"a\": 1}");
  expect_error("FILE", "v2.json", [this] { Vocabulary::read(path("v2.json")); });
}

TEST_F(Texts, ATextMustReachForABlockInBothParts) {
  EXPECT_EQ(corpus(std::string(330, 'a'), 32).validation.numel(), 33);
  expect_error("TEXT", "got 320", [] { corpus(std::string(320, 'a'), 32); });
  expect_error("TEXT", "got 0", [] { corpus("", 32); });
}

TEST_F(Texts, WithoutANetworkTheSentenceSaysWhatToDo) {
  const std::string old_path = std::getenv("PATH");
  setenv("ROTARY_CACHE", path("cache").c_str(), 1);
  setenv("PATH", path("none").c_str(), 1);
  expect_error("NETWORK", "--text FILE, or put the file at " + path("cache/tinyshakespeare.txt").string(),
               [] { tiny_shakespeare(); });
  fs::create_directories(path("bin"));
  write("bin/curl", "#!/bin/sh\necho wrong\n");
  fs::permissions(path("bin/curl"), fs::perms::owner_all);
  setenv("PATH", path("bin").c_str(), 1);
  expect_error("NETWORK", "sha256", [] { tiny_shakespeare(); });
  EXPECT_FALSE(fs::exists(path("cache/tinyshakespeare.txt")));
  write("bin/curl", "#!/bin/sh\nexit 6\n");
  expect_error("NETWORK", "curl ended with status 6, wget is not here", [] { tiny_shakespeare(); });
  setenv("PATH", old_path.c_str(), 1);
  unsetenv("ROTARY_CACHE");
}

}  // namespace
}  // namespace rotary_torch
