// inv_freq_float32 against transformers' own values (tests/golden/frequencies_float32.txt, made by
// tools/golden/make_frequency_fixture.py) and against steps taken one by one.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "rotary/rotary.h"

namespace rotary {
namespace {

struct Case {
  std::string scaling;
  std::map<std::string, std::string> keys;
  std::vector<float> expected;

  double number(const std::string& key) const { return std::stod(keys.at(key)); }
  double number(const std::string& key, double otherwise) const { return keys.contains(key) ? number(key) : otherwise; }
  std::int64_t integer(const std::string& key) const { return std::stoll(keys.at(key)); }
  std::vector<double> list(const std::string& key) const {
    std::vector<double> values;
    std::istringstream stream(keys.at(key));
    for (std::string word; std::getline(stream, word, ',');) {
      values.push_back(std::stod(word));
    }
    return values;
  }
};

std::vector<Case> read_cases() {
  std::ifstream file(std::string(ROTARY_SOURCE_DIR) + "/tests/golden/frequencies_float32.txt");
  std::vector<Case> cases;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "case") {
      words >> cases.emplace_back().scaling;
      for (std::string value; words >> word >> value;) {
        cases.back().keys[word] = value;
      }
    } else if (word == "inv_freq") {
      while (words >> word) {
        cases.back().expected.push_back(std::stof(word));
      }
    }
  }
  return cases;
}

Scaling scaling_of(const Case& c) {
  const double factor = c.number("factor", 1);
  if (c.scaling == "linear") return Linear{factor};
  if (c.scaling == "ntk") return Ntk{factor};
  if (c.scaling == "proportional") return Proportional{c.number("fraction"), factor};
  if (c.scaling == "default") return Unscaled{};
  const std::int64_t trained = c.integer("trained_length");
  if (c.scaling == "dynamic") return Dynamic{factor, trained};
  if (c.scaling == "llama3") return Llama3{factor, trained, c.number("low"), c.number("high")};
  if (c.scaling == "longrope") {
    return LongRope{.short_factor = c.list("short_factor"),
                    .long_factor = c.list("long_factor"),
                    .trained_length = trained,
                    .factor = factor};
  }
  EXPECT_EQ(c.scaling, "yarn");
  return Yarn{.factor = factor, .trained_length = trained, .truncate = c.number("truncate", 1) != 0};
}

// torch's scalar kernels, whose pow is the C library's: nearly always correctly rounded, and in this file always.
TEST(FrequenciesFloat32, EqualTheValuesOfTransformers) {
  const std::vector<Case> cases = read_cases();
  ASSERT_EQ(cases.size(), 34u);
  for (const Case& c : cases) {
    const Rope rope{.head_dim = static_cast<int>(c.integer("head_dim")),
                    .base = c.number("base"),
                    .pairing = Pairing::half,
                    .scaling = scaling_of(c)};
    EXPECT_EQ(frequencies(rope, c.integer("length")).inv_freq_float32, c.expected) << c.scaling;
  }
}

// 96 is the head size where 2i / d is not exact in float32: the steps then lie up to 6 ulp beside the formula.
TEST(FrequenciesFloat32, AreNotTheRoundedFormula) {
  const Frequencies f = frequencies(Rope{.head_dim = 96, .pairing = Pairing::half});
  std::size_t equal = 0;
  for (std::size_t k = 0; k < f.inv_freq.size(); ++k) {
    equal += static_cast<float>(f.inv_freq[k]) == f.inv_freq_float32[k] ? 1 : 0;
    EXPECT_NEAR(double{f.inv_freq_float32[k]} / f.inv_freq[k], 1, 7 * 0x1p-23);
  }
  EXPECT_LT(equal, f.inv_freq.size());
}

TEST(FrequenciesFloat32, AreLeftOutWhereABaseIsTooLargeForFloat32) {
  const Frequencies f = frequencies(Rope{.head_dim = 8, .base = 1e40, .pairing = Pairing::half});
  EXPECT_EQ(f.inv_freq.size(), 4u);
  EXPECT_TRUE(f.inv_freq_float32.empty());
}

}  // namespace
}  // namespace rotary
