// GGUF files that lie, end early or cannot exist: each has its sentence, and no memory is allocated by a number that
// the file states.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "core/tests/fuzz/fuzz.h"
#include "files/tests/file_helpers.h"
#include "rotary/config.h"

namespace rotary {
namespace {

using namespace test;

constexpr std::uint64_t huge = ~std::uint64_t{0};

void expect_refused(const std::string& code, const std::string& words, const std::string& bytes) {
  expect_error(code, words, [&] { read_config(fuzz::MemoryFile(bytes).path()); });
}

void expect_read(const std::string& bytes) { EXPECT_EQ(read_config(fuzz::MemoryFile(bytes).path()).ropes.size(), 1u); }

std::string array(std::uint32_t type, std::uint64_t count, const std::string& elements = {}) {
  return gguf_value(type) + gguf_value(count) + elements;
}

std::string with_tensor(const std::string& tensor, const std::string& data, std::uint64_t count = 1) {
  return gguf_with_tensor(gguf_front(count, gguf_model_keys) + gguf_model("llama") + tensor, data);
}

TEST(GgufHostile, EveryTruncationOfAFileIsRefused) {
  for (const char* file : {"gguf/llama.gguf", "gguf/llama31.gguf"}) {
    const std::string whole = read_text(golden(file));
    // Behind the last tensor there is padding that a file need not have.
    for (std::size_t length = 4; length + 32 < whole.size(); ++length) {
      const fuzz::MemoryFile cut(std::string_view(whole).substr(0, length));
      const std::string got = tests::outcome_of([&] { read_config(cut.path()); }).text();
      EXPECT_TRUE(got.starts_with("FORMAT: ")) << file << " cut to " << length << " bytes: " << got;
    }
  }
}

TEST(GgufHostile, EveryFlippedByteIsReadOrRefusedInOneSentence) {
  const std::string whole = read_text(golden("gguf/deepseek2.gguf"));
  for (std::size_t at = 4; at < whole.size(); ++at) {
    for (const int flip : {0x01, 0x80, 0xFF}) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ flip);
      const fuzz::MemoryFile memory(changed);
      const tests::Outcome got = tests::outcome_of([&] { read_config(memory.path()); });
      EXPECT_TRUE(!got.refused || got.sentence.starts_with("[read_config] ")) << got.sentence;
    }
  }
}

TEST(GgufHostile, OtherVersionsAndByteOrdersAreNamed) {
  expect_refused("FORMAT", "must be 2 or 3 but is 1", gguf_front(0, 0, 1));
  expect_refused("FORMAT", "must be 2 or 3 but is 4", gguf_front(0, 0, 4));
  expect_refused("FORMAT", "big-endian", gguf_front(0, 0, 0x03000000));
  expect_read(gguf_front(0, gguf_model_keys, 2) + gguf_model("llama"));
}

TEST(GgufHostile, CountsBeyondTheFileAreRefused) {
  expect_refused("FORMAT", "number of tensors must fit", gguf_front(huge, 0));
  expect_refused("FORMAT", "number of metadata keys must fit", gguf_front(0, huge));
  expect_refused("FORMAT", "a metadata key must end within", gguf_front(0, 1) + gguf_value(huge) + gguf_text("padded"));
  expect_refused("FORMAT", "elements of", gguf_file("llama", 1, gguf_key("a", 9, array(0, huge))));
  expect_refused("FORMAT", "elements of", gguf_file("llama", 1, gguf_key("a", 9, array(8, huge / 8))));
  expect_refused("FORMAT", "elements of", gguf_file("llama", 1, gguf_key("a", 9, array(12, huge / 8 + 2))));
  expect_refused("FORMAT", "the value of", gguf_file("llama", 1, gguf_key("a", 8, gguf_value(huge))));
  expect_refused("FORMAT", "a text of", gguf_file("llama", 1, gguf_key("a", 9, array(8, 1, gguf_value(huge)))));
}

TEST(GgufHostile, ArraysInArraysAreReadToADepth) {
  std::string nested = array(0, 1, "x");
  for (int depth = 2; depth <= 4; ++depth) nested = array(9, 1, nested);
  expect_read(gguf_file("llama", 1, gguf_key("a", 9, nested)));
  expect_refused("FORMAT", "deeper", gguf_file("llama", 1, gguf_key("a", 9, array(9, 1, nested))));
}

TEST(GgufHostile, ArraysBehindTheFirstMillionNumbersAreSkipped) {
  constexpr int arrays = 300;
  std::string keys;
  for (int i = 0; i < arrays; ++i) {
    keys += gguf_key("a" + std::to_string(i), 9, array(0, 4096, std::string(4096, 'x')));
  }
  keys += gguf_key("llama.rope.made_up", 9, array(0, 4096, std::string(4096, 'x')));
  expect_refused("CONFIG_KEY", "an array of 4096 numbers", gguf_file("llama", arrays + 1, keys));
}

TEST(GgufHostile, TypesNamesTextsTensorsAndAlignmentsThatCannotBeAreRefused) {
  expect_refused("FORMAT", "must be below 13", gguf_file("llama", 1, gguf_key("a", 13, "")));
  expect_refused("FORMAT", "must be below 13", gguf_file("llama", 1, gguf_key("a", 9, array(99, 0))));
  expect_refused("FORMAT", "true (1) or false (0)", gguf_file("llama", 1, gguf_key("a", 7, "\2")));

  // Names that come twice.
  expect_refused("FORMAT", "appears again", gguf_file("llama", 2, gguf_number("a", 1) + gguf_number("a", 1)));
  const std::string twice = gguf_tensor("t", {0}, 0, 0);
  expect_refused("FORMAT", "appears again", with_tensor(twice + twice, "", 2));

  // Texts that are not UTF-8.
  expect_refused("FORMAT", "must be UTF-8", gguf_file("llama", 1, gguf_number("a\xFF", 1)));
  expect_refused("FORMAT", "must be UTF-8", gguf_file("llama", 1, gguf_key("a", 8, gguf_text("\xC0\x80"))));
  expect_refused("FORMAT", "must be UTF-8", with_tensor(gguf_tensor("\xED\xA0\x80", {0}, 0, 0), ""));

  // Tensors that do not lie in the file.
  const std::string data(64, 'x');
  expect_refused("FORMAT", "must end within", with_tensor(gguf_tensor("t", {17}, 0, 0), data));
  expect_refused("FORMAT", "must end within", with_tensor(gguf_tensor("t", {1}, 0, 64), data));
  expect_refused("FORMAT", "must end within", with_tensor(gguf_tensor("t", {1}, 0, huge - 31), data));
  expect_refused("FORMAT", "multiple of 32", with_tensor(gguf_tensor("t", {1}, 0, 4), data));
  expect_refused("FORMAT", "2^56", with_tensor(gguf_tensor("t", {1ULL << 40, 1ULL << 40}, 0, 0), data));
  expect_refused("FORMAT", "below 2^63", with_tensor(gguf_tensor("t", {huge}, 0, 0), data));
  expect_refused("FORMAT", "at most 4 axes", with_tensor(gguf_tensor("t", {1, 1, 1, 1, 1}, 0, 0), data));
  expect_refused("FORMAT", "multiple of its type's 32", with_tensor(gguf_tensor("t", {16}, 2, 0), data));
  expect_refused("FORMAT", "overlap",
                 with_tensor(gguf_tensor("s", {16}, 0, 0) + gguf_tensor("t", {8}, 0, 32), data, 2));

  // An alignment that is no power of two.
  expect_refused("FORMAT", "power of two", gguf_file("llama", 1, gguf_number("general.alignment", 0)));
  expect_refused("FORMAT", "power of two", gguf_file("llama", 1, gguf_number("general.alignment", 24)));
}

TEST(GgufHostile, FactorsMustBePlainPositiveNumbers) {
  const auto factors = [](float last) {
    std::string data;
    for (int i = 0; i < 8; ++i) data += gguf_value(i == 7 ? last : 2.0F);
    return with_tensor(gguf_tensor("rope_freqs.weight", {8}, 0, 0), data);
  };
  expect_refused("TENSOR", "above 0", factors(0));
  expect_refused("TENSOR", "finite", factors(INFINITY));
  expect_refused("TENSOR", "finite", factors(std::nanf("")));
  const std::string data(64, 'x');
  expect_refused("TENSOR", "each of 8 pairs", with_tensor(gguf_tensor("rope_freqs.weight", {4}, 0, 0), data));
  expect_refused("TENSOR", "one axis", with_tensor(gguf_tensor("rope_freqs.weight", {8, 1}, 0, 0), data));
  expect_refused("TENSOR", "ggml type 2", with_tensor(gguf_tensor("rope_freqs.weight", {32}, 2, 0), data));
  expect_refused("TENSOR", "ggml type 77", with_tensor(gguf_tensor("rope_freqs.weight", {8}, 77, 0), data));
}

}  // namespace
}  // namespace rotary
