// inv_freq_float32 against transformers' own values (core/tests/golden/frequencies_float32.json, made by
// files/golden/make_transformers.py) and against steps taken one by one.
#include <gtest/gtest.h>

#include <fstream>
#include <vector>

#include "core/tests/support/scalings.h"

namespace rotary {
namespace {

// torch's scalar kernels, whose pow is the C library's: nearly always correctly rounded, and in this file always.
TEST(FrequenciesFloat32, EqualTheValuesOfTransformers) {
  const auto cases =
      nlohmann::json::parse(std::ifstream(ROTARY_SOURCE_DIR "/core/tests/golden/frequencies_float32.json"));
  ASSERT_EQ(cases.at("cases").size(), 34u);
  for (const nlohmann::json& c : cases.at("cases")) {
    const Rope rope{
        .head_dim = c.at("head_dim"), .base = c.at("base"), .pairing = Pairing::half, .scaling = test::scaling_of(c)};
    EXPECT_EQ(frequencies(rope, c.at("length")).inv_freq_float32, c.at("inv_freq").get<std::vector<float>>())
        << c.at("scaling");
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

// 191841^(19/32) is 4e-16 of its value above the midpoint of two floats (mpmath). exp(19/32 log) in double is below it.
TEST(FrequenciesFloat32, APowerBesideTheMidpointOfTwoFloatsIsRoundedRight) {
  const Rope rope{.head_dim = 64, .base = 191841, .pairing = Pairing::half};
  EXPECT_EQ(frequencies(rope).inv_freq_float32[19], 1 / 0x1.56853cp+10F);
}

}  // namespace
}  // namespace rotary
