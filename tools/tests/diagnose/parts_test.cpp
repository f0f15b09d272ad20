// The parts of a diagnosis, each for itself: findings, patterns of positions, ropes from speeds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "diagnose/examination.h"
#include "files/tests/file_helpers.h"
#include "tools/tests/diagnose/engine.h"
#include "values/scaling_fields.h"

namespace rotary::diagnose {
namespace {

using diagnose_tests::speeds;

// ---- findings as values: their table, their sentences, and when two are one ----------------------

std::vector<Cause> all_causes() {
  std::vector<Cause> list;
  for (int i = 0; i <= static_cast<int>(Cause::still_block); ++i) list.push_back(static_cast<Cause>(i));
  return list;
}

Finding multiplied(double factor, double error) {
  return finding(Cause::factor, {{"found", factor, 7, error}, {"asked", 1.0, 7}});
}

TEST(Findings, OneFaultIsEqualWithinItsErrors) {
  EXPECT_EQ(multiplied(1.25, 0.01), multiplied(1.255, 0.01));
  EXPECT_FALSE(multiplied(1.25, 0.001) == multiplied(1.255, 0.001));
  EXPECT_FALSE(multiplied(1.25, 0) == finding(Cause::without_factor, {{"asked", 1.0, 7}}));
  Finding head = multiplied(1.25, 0);
  head.where.heads = {3};
  EXPECT_FALSE(head == multiplied(1.25, 0));
  EXPECT_EQ(with_residuals(head, 1e-8, 0.5), with_residuals(head, 3e-7, 0.4));
}

TEST(Findings, ASentenceOfSeveralTensorsAndPlaces) {
  Finding head = multiplied(1.25, 0), other = finding(Cause::zero_after);
  head.where.heads = {1, 2, 3, 6};
  other.where.rows = {1};
  const std::vector<Finding> found = {head, other, finding(Cause::rest_as_asked)};
  EXPECT_EQ(render({"q"}, found),
            "q in heads 1-3, 6 is multiplied by 1.25; the model asks 1; in batch row 1 is zero after the rotation, in "
            "every element; all else is as the config asks");
  EXPECT_EQ(render({"q", "k"}, found),
            "q and k in heads 1-3, 6 are multiplied by 1.25; the model asks 1; in batch row 1 are zero after the "
            "rotation, in every element; all else is as the config asks");
  EXPECT_EQ(render({"q", "k"}, {finding(Cause::heads_differ)}),
            "q and k: cannot tell, because their angles differ from head to head in every layout");
  EXPECT_EQ(render({"q", "k"}, {multiplied(2, 0), finding(Cause::doubled)}),
            "q and k are multiplied by 2; the model asks 1; and they are rotated twice: every angle is double "
            "(positions that are doubled, or a speed that is, would look the same)");
}

TEST(Findings, EverySentenceIsFilled) {
  std::set<std::string> names;
  for (const Cause cause : all_causes()) {
    EXPECT_TRUE(names.insert(name(cause)).second) << name(cause);
    for (const std::vector<std::string>& tensors : {std::vector<std::string>{"q"}, {"q", "k"}}) {
      const std::string sentence = render(tensors, {finding(cause)});
      EXPECT_EQ(sentence.find_first_of("<>[]{}"), std::string::npos) << name(cause) << ": " << sentence;
    }
  }
}

// The table of docs/porting.md says of each verdict the causes that it has.
TEST(Findings, TheTableOfPorting) {
  std::map<std::string, std::string> wanted;
  for (const Cause cause : all_causes()) {
    std::string& causes = wanted[name(finding(cause).verdict)];
    causes += (causes.empty() ? "`" : ", `") + std::string(name(cause)) + "`";
  }
  wanted.erase("as_configured");
  const std::string page = test::read_text(ROTARY_SOURCE_DIR "/docs/porting.md");
  for (const auto& [verdict, causes] : wanted) {
    const std::size_t row = page.find("\n| `" + verdict + "` | ");
    ASSERT_NE(row, std::string::npos) << verdict;
    const std::size_t end = page.find('\n', row + 1);
    EXPECT_TRUE(page.substr(row, end - row).ends_with(" | " + causes + " |")) << verdict << ": " << causes;
  }
}

// ---- positions and speeds ------------------------------------------------------------------------

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

TEST(Fit, BaseAndScalingOfAnyFactor) {
  const std::pair<Rope, double> ropes[] = {{rope_of(Unscaled{}, 500000), 10000},
                                           {rope_of(Linear{8}), 10000},
                                           {rope_of(Llama3{.factor = 12, .trained_length = 8192}, 500000), 500000}};
  for (const auto& [rope, asked_base] : ropes) {
    const auto found = explain_speeds(exactly(frequencies(rope).inv_freq), rope_of(Unscaled{}, asked_base), 0, 0);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->rope.base, rope.base);
    EXPECT_EQ(found->rope.scaling, rope.scaling);
  }
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

TEST(Fit, DynamicOfAnyLength) {
  const Rope dynamic = rope_of(Dynamic{.factor = 2, .trained_length = 4096});
  for (const std::int64_t length : {5001, 6000, 131073, 200001}) {
    const auto found = explain_speeds(exactly(frequencies(dynamic, length).inv_freq), dynamic, 4096, 8192);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->found.cause, Cause::other_length);
    EXPECT_EQ(found->length, length);
  }
  const auto base = explain_speeds(exactly(speeds(15000)), dynamic, 4096, 8192);  // as for 5081.3 tokens
  ASSERT_TRUE(base.has_value());
  EXPECT_EQ(base->found.cause, Cause::base);
  EXPECT_EQ(base->rope.base, 15000);
}

TEST(Fit, SpeedsOfNoMethod) {
  std::vector<double> values = speeds();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= 1 + 0.3 * std::sin(static_cast<double>(7 * i));
  EXPECT_FALSE(explain_speeds(exactly(values), rope_of(Unscaled{}), 0, 0).has_value());
}

}  // namespace
}  // namespace rotary::diagnose
