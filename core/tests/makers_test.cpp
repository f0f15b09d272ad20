// Frequencies by the names of the field, against those that the code of others makes (files/golden/make_makers.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>
#include <string>

#include "core/tests/support/checks.h"
#include "rotary/makers.h"
#include "rotary/rotary.h"

namespace rotary {
namespace {

const auto golden = nlohmann::json::parse(std::ifstream(ROTARY_SOURCE_DIR "/core/tests/golden/makers.json"));

// relative: to the largest of all, for directions that are 0 but for rounding.
void expect_near(const std::vector<double>& got, const char* name, double relative = 1e-15, bool of_largest = false) {
  const std::vector<double> wanted = golden.at(name);
  ASSERT_EQ(got.size(), wanted.size());
  const double largest = *std::max_element(wanted.begin(), wanted.end());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], wanted[i], relative * (of_largest ? largest : std::abs(wanted[i]))) << i;
}

std::vector<double> plain(int width, double base) {
  return frequencies({.head_dim = width, .base = base, .pairing = Pairing::half}).inv_freq;
}

TEST(Makers, directions_are_those_of_timm_and_of_golden_gate_rope) {
  expect_near(mixed_directions(16, std::vector<double>{0.0, 0.7, 3.9}), "timm_mixed", 1e-15, true);
  expect_near(golden_directions(16, 2, 3, 0.2, 20, 0.25), "golden_gate", 3e-7, true);  // float32 there
  const std::vector<double> angles = random_angles(1000, 7);
  EXPECT_EQ(angles, random_angles(1000, 7));
  EXPECT_NE(angles, random_angles(1000, 8));
  double sum = 0;
  for (const double angle : angles) {
    EXPECT_TRUE(angle >= 0 && angle < 2 * std::numbers::pi);
    sum += angle;
  }
  EXPECT_NEAR(sum / 1000, std::numbers::pi, 0.2);
}

TEST(Makers, axes_are_those_of_sglang_vllm_and_videorope) {
  const std::vector<int> sections[] = {{8, 12, 12}, {24, 20, 20}, {5, 9, 2}, {1, 0, 3}};
  const auto text = [](const std::vector<std::uint8_t>& axis) {
    std::string digits;
    for (const std::uint8_t a : axis) digits += static_cast<char>('0' + a);
    return digits;
  };
  for (std::size_t i = 0; i < std::size(sections); ++i) {
    EXPECT_EQ(text(glm_axes(sections[i])), golden["glm_axes"][i].get<std::string>());
    EXPECT_EQ(text(openpangu_axes(sections[i])), golden["openpangu_axes"][i].get<std::string>());
    EXPECT_EQ(text(videorope_axes(sections[i])), golden["videorope_axes"][i].get<std::string>());
  }
  tests::expect_error("SHAPE", "[glm_axes] there must be 3 sections but got 2", [] { glm_axes(std::vector{8, 8}); });
  tests::expect_error("SHAPE", "[openpangu_axes] the first section must be at least 1 but got 0", [] {
    openpangu_axes(std::vector{0, 8, 8});
  });
}

TEST(Makers, frequencies_are_those_of_the_code_of_others) {
  expect_near(pixel_frequencies(8, 224), "pixel", 3e-7);
  expect_near(pixel_frequencies(8, 224), "timm_pixel", 3e-7);
  const Rope grok{.head_dim = 64, .pairing = Pairing::half, .scaling = YarnLog{.factor = 16, .trained_length = 8192}};
  expect_near(frequencies(grok).inv_freq, "yarn_log", 1e-14);
  expect_near(clipped(plain(64, 500000), 20), "cope", 1e-14);
  EXPECT_EQ(clipped(plain(64, 500000), 20, true)[12], 0);
  expect_near(geometric_frequencies(7, std::numbers::pi / 2, 1e4 * std::numbers::pi / 2), "ltx", 1e-14);
  EXPECT_DOUBLE_EQ(ntk_base(10000, 4, 64), 10000 * std::pow(4, 64.0 / 62));
  EXPECT_DOUBLE_EQ(ntk_base(10000, 4, 64, 0), 10000);
}

TEST(Makers, refusals) {
  const auto sentence = [](Code code, const std::string& part, const auto& call) {
    tests::expect_error_with(name(code), part, call);
  };
  sentence(Code::SHAPE, "a multiple of 4 but got 6", [] { mixed_directions(6, std::vector<double>{0}); });
  sentence(Code::SHAPE, "axes must be from 1 to 16", [] { golden_directions(16, 2, 17, 1, 2); });
  sentence(Code::SHAPE, "above 2 but got 2", [] { ntk_base(10000, 2, 2); });
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  sentence(Code::VALUE, "must be finite but got nan", [] { mixed_directions(8, std::vector<double>{0, none}); });
  sentence(Code::VALUE, "must be finite but got inf", [] { clipped({HUGE_VAL, 1, 1}, 2); });
  sentence(Code::VALUE, "must stay finite but got nan", [] { ntk_base(10000, 2, 64, none); });
  sentence(Code::VALUE, "must stay finite but got inf", [] { ntk_base(10000, 1e300, 64, 2); });
  sentence(Code::VALUE, "must be finite but got inf", [] { geometric_frequencies(3, 1e-300, 1e300); });
}

}  // namespace
}  // namespace rotary
