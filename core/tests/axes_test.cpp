// Axis layouts, against the published strings (0 = time, 1 = height, 2 = width).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/tests/support/checks.h"

namespace rotary::tests {
namespace {

std::string text(const std::vector<std::uint8_t>& axes) {
  std::string result;
  for (const std::uint8_t axis : axes) result += static_cast<char>('0' + axis);
  return result;
}

std::string repeated(const std::string& word, int times) {
  std::string result;
  for (int n = 0; n < times; ++n) result += word;
  return result;
}

using Sections = std::vector<int>;

// Sections of models are in files/tests/golden/expected.json; here are sections of which one is empty.
TEST(Axes, SectionsMayBeEmptyAndMustSumToPairs) {
  EXPECT_EQ(text(sectioned_axes(Sections{2, 0, 1, 3})), "002333");
  EXPECT_EQ(text(sectioned_axes(Sections{5})), "00000");
  EXPECT_EQ(text(interleaved_axes(Sections{3, 0, 0})), "000");
  const auto refused = [](const char* sentence, const auto& axes, const Sections& sections) {
    expect_error("SHAPE", sentence, [&] { axes(sections); });
  };
  refused("[sectioned_axes] there must be 1 to 256 sections but got 0", sectioned_axes, {});
  refused("[sectioned_axes] every section must be at least 0 but got -1", sectioned_axes, {4, -1});
  refused("[sectioned_axes] the sections must sum to the pairs of a head but got 0 pairs", sectioned_axes, {0, 0});
  refused("[sectioned_axes] the sections must sum to the pairs of a head but got 4294967294 pairs", sectioned_axes,
          {INT32_MAX, INT32_MAX});
  refused("[interleaved_axes] there must be 3 sections but got 2", interleaved_axes, {32, 32});
  refused("[ernie_axes] every section must be at least 0 but got -22", ernie_axes, {22, -22, 20});
}

TEST(Axial, ElementsThatDoNotDivideAreLeftOut) {
  const Rope rope = axial(80, 3, 10000, Pairing::half);  // MiniMax-M3's vision heads: 26 elements per axis, 2 left over
  EXPECT_EQ(rope.head_dim, 80);
  EXPECT_EQ(rope.rotary_dim, 78);
  EXPECT_EQ(rope.exponent_dim, 26);
  EXPECT_EQ(rope.axes(), 3);
  EXPECT_EQ(Rope{.summed_axes = 2}.axes(), 2);
  EXPECT_EQ(text(rope.axis), repeated("0", 13) + repeated("1", 13) + repeated("2", 13));
}

TEST(Axial, AxesOfUnequalWidth) {
  // Flux: 16, 56, 56. Wan turns time with another base; here the last axis is stretched, and one turns nothing.
  const Rope rope = axial(130, std::vector<Axis>{{16, 256}, {0}, {56}, {56, 10000, 2}}, Pairing::interleaved);
  EXPECT_EQ(rope.rotary_dim, 128);
  EXPECT_EQ(text(rope.axis), repeated("0", 8) + repeated("2", 28) + repeated("3", 28));
  const Frequencies f = frequencies(rope);
  const std::vector<double> alone = frequencies({.head_dim = 56, .pairing = Pairing::half}).inv_freq;
  for (std::size_t k = 0; k < 28; ++k) {
    if (k < 8) {
      EXPECT_NEAR(f.inv_freq[k], std::pow(256, -2.0 * static_cast<double>(k) / 16), 1e-15);
    }
    EXPECT_EQ(f.inv_freq[8 + k], alone[k]);
    EXPECT_EQ(f.inv_freq[36 + k], alone[k] / 2);
  }
  const Scaling yarn = Yarn{.factor = 4, .trained_length = 64};
  const Rope scaled = axial(16, std::vector<Axis>{{8, 10000, 1, yarn}, {8, 100, 1, yarn}}, Pairing::half);
  EXPECT_EQ(frequencies(scaled).attention_factor,
            frequencies({.head_dim = 8, .pairing = Pairing::half, .scaling = yarn}).attention_factor);
}

TEST(Axial, WidthsThatCannotBeAreRefused) {
  expect_error("SHAPE", "[axial] axes must be in [1, 256] but got 0", [] { axial(64, 0, 100, Pairing::half); });
  expect_error("SHAPE", "[axial] head_dim must give each of the 3 axes 2 elements or more but got 4",
               [] { axial(4, 3, 100, Pairing::half); });
  const auto refused = [](const char* code, const char* sentence, std::vector<Axis> axes) {
    expect_error(code, sentence, [&] { axial(16, axes, Pairing::half); });
  };
  refused("SHAPE", "[axial] axes must be in [1, 256] but got 0", {});
  refused("SHAPE", "[axial] the width of axis 1 must be even and at least 0 but got 3", {{8}, {3}});
  refused("SCALING", "[axial] the stretch of axis 0 must be finite and above 0 but got 0", {{8, 10000, 0}});
  refused("SCALING", "[axial] the attention factor of axis 1 must be as of those before it but got 1",
          {{8, 10000, 1, Yarn{.factor = 4, .trained_length = 64}}, {8}});
  refused("LENGTH", "[axial] the scaling of axis 1 must be the same at every length but got dynamic",
          {{8}, {8, 10000, 1, Dynamic{.factor = 2, .trained_length = 64}}});
  refused("SHAPE", "[axial] the widths must sum to at least 2 and at most head_dim = 16 but got 18", {{8}, {10}});
}

}  // namespace
}  // namespace rotary::tests
