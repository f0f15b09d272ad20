// The parts of a diagnosis, each for itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "diagnose/examination.h"
#include "tools/tests/diagnose/engine.h"
#include "values/scaling_fields.h"

namespace rotary::diagnose {
namespace {

using diagnose_tests::speeds;

TEST(Patterns, Words) {
  const std::vector<double> expected = {0, 1, 2, 3, 4, 5};
  const std::vector<std::pair<std::vector<double>, std::string>> patterns = {
      {{0, 0.25, 0.5, 0.75, 1, 1.25}, "are 0.25 times those expected"},
      {{1, 1, 0, 1, 2, 3}, "begin at 0 with token 2, as after 2 tokens of padding"},
      {{0, 1, 5, 2, 9, 2}, "are not those expected: the first that differs is 5 instead of 2"}};
  for (const auto& [position, words] : patterns)
    EXPECT_EQ(render(pattern_of(position, expected, 1).found), "is rotated at positions that " + words);
  EXPECT_EQ(pattern_of(expected, expected, 1).found.cause, Cause::as_asked);
  EXPECT_EQ(pattern_of({0, -1, -2, -3, -4, -5}, expected, 1).found.cause, Cause::direction);
  EXPECT_EQ(pattern_of({0, 2, 4, 6, 8, 10}, expected, 1).found.cause, Cause::doubled);
  EXPECT_EQ(pattern_of({0, 1, 2, 1, 2, 3}, {0, 1, 2, 0, 1, 2}, 2).found.cause, Cause::other_positions);
}

std::vector<Speed> exactly(const std::vector<double>& values) {
  std::vector<Speed> list;
  for (const double value : values) list.push_back({value, 1e-6 * value});
  return list;
}

Rope rope_of(Scaling scaling, double base = 10000) {
  Rope rope{.head_dim = 64, .rotary_dim = 64, .base = base, .pairing = Pairing::half};
  rope.scaling = std::move(scaling);
  return rope;
}

TEST(Fit, BaseAndLinearFactor) {
  EXPECT_EQ(explain_speeds(exactly(speeds(500000)), rope_of(Unscaled{}), 0, 0)->rope.base, 500000);
  std::vector<double> slower = speeds(10000);
  for (double& speed : slower) speed /= 8;
  const auto scaled = explain_speeds(exactly(slower), rope_of(Unscaled{}), 0, 0);
  ASSERT_TRUE(scaled.has_value());
  EXPECT_EQ(scaled->rope.base, 10000);
  EXPECT_EQ(std::get<Linear>(scaled->rope.scaling).factor, 8);
}

TEST(Fit, ScalingsOfAnyFactor) {
  const Llama3 llama3{.factor = 12, .trained_length = 8192};
  const Rope rope = rope_of(llama3, 500000);
  const auto found = explain_speeds(exactly(frequencies(rope).inv_freq), rope_of(Unscaled{}, 500000), 0, 0);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->rope.base, rope.base);
  EXPECT_EQ(found->rope.scaling, rope.scaling);
}

// A scaling that is never guessed is never found. These three need lists, or a share of the pairs.
TEST(Rivals, EveryScalingIsGuessed) {
  const std::vector<Explanation> list = rivals(rope_of(Linear{4}), 4096, 8192);
  scalings::for_each_scaling([&](const auto& scaling) {
    using S = std::decay_t<decltype(scaling)>;
    const bool guessed = std::any_of(
        list.begin(), list.end(), [](const Explanation& one) { return std::holds_alternative<S>(one.rope.scaling); });
    const bool needs_more = std::is_same_v<S, LongRope> || std::is_same_v<S, Proportional>;
    EXPECT_NE(guessed, needs_more) << scalings::name_of(scaling);
  });
}

TEST(Fit, NtkIsAChangeOfBase) {
  const Rope ntk = rope_of(Ntk{4});
  const auto found = explain_speeds(exactly(frequencies(ntk).inv_freq), rope_of(Unscaled{}), 0, 0);
  ASSERT_TRUE(found.has_value());
  EXPECT_NEAR(found->rope.base, 10000 * std::pow(4.0, 64.0 / 62), 1);
}

TEST(Fit, SpeedsOfNoMethod) {
  std::vector<double> values = speeds();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= 1 + 0.3 * std::sin(static_cast<double>(7 * i));
  EXPECT_FALSE(explain_speeds(exactly(values), rope_of(Unscaled{}), 0, 0).has_value());
}

}  // namespace
}  // namespace rotary::diagnose
