// Every enumerator with a name has one of its own and is parsed from it; codes and docs/errors.md; the version.
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "core/tests/support/outcome.h"
#include "rotary/rotary.h"

namespace rotary {
namespace {

std::string refusal(const auto& parse, std::string_view text, Code code) {
  const tests::Outcome got = tests::outcome_of([&] { parse(text); });
  EXPECT_TRUE(got.refused && got.code == code) << "\"" << text << "\": " << got.text();
  return got.sentence;
}

// Values first, first + 1, ... up to `last` are parsed from their names; no other value and no other word is.
template <class Enum>
void expect_round_trips(Enum first, Enum last, Enum (*parse)(std::string_view), Code code) {
  std::set<std::string> names;
  for (int value = 0; value < 256; ++value) {
    const auto enumerator = static_cast<Enum>(value);
    const std::string word = name(enumerator);
    if (enumerator > last) {
      EXPECT_EQ(word, "unknown") << value;
    } else {
      EXPECT_NE(word, "unknown") << value;
      EXPECT_TRUE(names.insert(word).second) << word << " names two";
    }
    if (enumerator >= first && enumerator <= last) {
      EXPECT_EQ(parse(word), enumerator);
      for (const std::string& near :
           {word + " ", " " + word, word + "s", word.substr(0, word.size() - 1), std::string(word + '\0')}) {
        refusal(parse, near, code);
      }
    } else {
      refusal(parse, word, code);
    }
  }
  EXPECT_NE(refusal(parse, "", code).find("but got \"\""), std::string::npos);
}

TEST(Names, AreParsedBackAndListedByTheSentenceOfAParser) {
  expect_round_trips(Pairing::half, Pairing::interleaved_to_half, parse_pairing, Code::PAIRING);
  expect_round_trips(Angles::exact, Angles::float32, parse_angles, Code::VALUE);
  expect_round_trips(Rounding::f32, Rounding::bf16, parse_rounding, Code::VALUE);
  expect_round_trips(DType::f32, DType::bf16, parse_dtype, Code::DTYPE);
  expect_round_trips(Code::SHAPE, Code::INTERNAL, parse_code, Code::VALUE);
  EXPECT_EQ(refusal(parse_pairing, "Half", Code::PAIRING),
            "[parse_pairing] the name must be half, interleaved or interleaved_to_half but got \"Half\"");
  EXPECT_EQ(refusal(parse_dtype, "f64", Code::DTYPE),
            "[parse_dtype] the name must be f32, f16 or bf16 but got \"f64\"");
}

TEST(Codes, AreAllOfThemInOrderAndTheRowsOfThePageAboutErrors) {
  std::vector<std::string> names, rows;
  for (const Code code : codes()) {
    EXPECT_EQ(static_cast<std::size_t>(code), names.size());
    names.emplace_back(name(code));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Code::INTERNAL) + 1);
  std::ifstream page(ROTARY_SOURCE_DIR "/docs/errors.md");
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("| `")) rows.push_back(line.substr(3, line.find('`', 3) - 3));
  }
  EXPECT_EQ(rows, names);
}

TEST(Version, IsThatOfTheMacrosAndOfTheProject) {
  const std::string numbers = std::to_string(ROTARY_VERSION_MAJOR) + "." + std::to_string(ROTARY_VERSION_MINOR) + "." +
                              std::to_string(ROTARY_VERSION_PATCH);
  EXPECT_EQ(numbers, ROTARY_VERSION);
  EXPECT_STREQ(version(), ROTARY_VERSION);
  EXPECT_STREQ(version(), ROTARY_PROJECT_VERSION);
}

TEST(Errors, AreFourValuesAndOneSentence) {
  const Error plain(Code::SHAPE, "rotate", "rotary_dim must be even but got 3");
  EXPECT_STREQ(plain.what(), "[rotate] rotary_dim must be even but got 3");
  EXPECT_EQ(plain.operation(), "rotate");
  EXPECT_EQ(plain.about(), "");
  EXPECT_EQ(plain.rule(), "rotary_dim must be even but got 3");

  const Error tensor = plain.about("tensor \"q] \"");
  const Error file = tensor.about("a: b.safetensors");
  EXPECT_STREQ(file.what(), "[rotate] a: b.safetensors: tensor \"q] \": rotary_dim must be even but got 3");
  EXPECT_EQ(file.operation(), "rotate");
  EXPECT_EQ(file.about(), "a: b.safetensors: tensor \"q] \"");
  EXPECT_EQ(file.rule(), plain.rule());
  EXPECT_EQ(file.code(), Code::SHAPE);
  const Error copy = file;  // NOLINT: the parts are the copy's own
  EXPECT_EQ(copy.about(), file.about());
  EXPECT_NE(copy.operation().data(), nullptr);

  const Error lines = Error(Code::FILE, "tensors", "a\nb must exist").about("c\x7F");
  EXPECT_STREQ(lines.what(), "[tensors] c\\x7F: a\\x0Ab must exist");
  EXPECT_EQ(lines.about(), "c\\x7F");
  EXPECT_EQ(lines.rule(), "a\\x0Ab must exist");
}

}  // namespace
}  // namespace rotary
