// What an independent judge found: tensors that say little, engines of other habits, and facts that must not be
// claimed.
#include <algorithm>

#include "tests/diagnose/case.h"

namespace rotary::diagnose_tests {
namespace {

void clear_token(Data& data, int token) {
  for (int h = 0; h < data.heads; ++h) {
    for (int d = 0; d < data.head_dim; ++d) data.values[data.at(0, token, h, d)] = 0;
  }
}

TEST(Hard, TokensOfZerosAreLeftOut) {
  for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
    Case one(type);
    for (const int token : {0, 1, 7, 15}) clear_token(one.before, token);
    const Diagnosis offset = one.diagnose({.position = [](int, int t, int) { return t + 3.0; }});
    EXPECT_EQ(offset.verdict, Verdict::offset) << offset.sentence;
    EXPECT_EQ(offset.facts.positions.at(0).at(7), 10);
    EXPECT_EQ(one.diagnose({.clockwise = true}).facts.clockwise, true);
    EXPECT_EQ(one.diagnose({.position = [](int, int t, int) { return 2.0 * t; }}).verdict, Verdict::twice);
  }
}

// rotate(i) of an interleaved block whose last pairs hardly move.
TEST(Hard, AnInterleavedPartOfTheHead) {
  for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
    for (const int width : {16, 32, 48}) {
      Case one(type, {.tokens = 20});
      const Diagnosis found = one.diagnose({.speed = speeds(10000, width), .pairs = Pairs::interleaved});
      EXPECT_EQ(found.verdict, Verdict::pairing) << found.sentence;
      EXPECT_EQ(found.facts.base, 10000) << found.sentence;
      EXPECT_EQ(found.facts.first, 0);
      EXPECT_TRUE(type != ElementType::f32 || found.facts.rotary_dim == width) << found.sentence;
    }
  }
}

// theta *= theta_scale in float32, from pair to pair.
TEST(Hard, AnEngineThatMultipliesItsAngles) {
  for (const int first : {1000, 30000, 100000}) {
    Case one(ElementType::f32);
    one.question.positions = from(first);
    const Engine engine{.angle = [=](int, int t, int pair) {
      float theta = static_cast<float>(first + t);
      const float scale = std::pow(10000.0F, -2.0F / 64);
      for (int i = 0; i < pair; ++i) theta *= scale;
      return static_cast<double>(theta);
    }};
    const Diagnosis found = one.diagnose(engine);
    EXPECT_EQ(found.verdict, Verdict::as_configured) << found.sentence;
    EXPECT_EQ(found.facts.precision, Precision::f32);
  }
}

TEST(Hard, FarAwayAnglesInFloat32AreNotThoseOfHalf) {
  for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
    Case one(type);
    one.question.positions = from(300000);
    const Diagnosis found = one.diagnose({.angle = [](int, int t, int pair) {
      const float speed = static_cast<float>(speeds()[static_cast<std::size_t>(pair)]);
      return static_cast<double>(static_cast<float>(300000 + t) * speed);
    }});
    EXPECT_EQ(found.verdict, Verdict::as_configured) << found.sentence;
    EXPECT_TRUE(!found.facts.precision || found.facts.precision == Precision::f32);
  }
}

TEST(Hard, AnOffsetOfOneFarAway) {
  Case one(ElementType::f32);
  one.question.positions = from(100000);
  EXPECT_EQ(one.diagnose({.position = [](int, int t, int) { return 100001.0 + t; }}).verdict, Verdict::offset);
}

TEST(Hard, OpenPositions) {
  Case one(ElementType::f32);
  GivenPositions open;
  open.open_from = 100;
  one.question.positions = open;
  EXPECT_EQ(one.diagnose_after(one.before).verdict, Verdict::not_rotated);
  EXPECT_EQ(one.diagnose({.position = [](int, int t, int) { return 100.0 + t; }}).verdict, Verdict::as_configured);
}

TEST(Hard, HeadsForTokensBesideWrittenPositions) {
  Case one(ElementType::f32, {.tokens = 12});
  one.question.positions = from(0, 12);
  EXPECT_EQ(one.diagnose({.position = [](int, int, int h) { return h; }}).verdict, Verdict::layout);
}

// As many tokens as heads: the other tensor of the file settles which is which.
TEST(Hard, OneLayoutForAFile) {
  Case one(ElementType::f32, {.tokens = 8});
  const Engine by_head{.position = [](int, int, int h) { return h; }};
  EXPECT_EQ(one.diagnose(by_head).verdict, Verdict::as_configured);
  EXPECT_EQ(
      diagnose::settled_layout({{"bhtd", Role::query, {1, 8, 8, 64}}, {"bthd", Role::key, {1, 8, 2, 64}}}, *one.rope),
      "bthd");
  one.question.layout_of_heads = "bthd";
  one.question.rope = &*one.rope;
  const Diagnosis settled =
      diagnose::diagnose(tensor_of(one.before, one.type), tensor_of(by_head(one.before), one.type), one.question);
  EXPECT_EQ(settled.verdict, Verdict::layout) << settled.sentence;
}

TEST(Hard, OnePairTellsPositionTimesSpeedOnly) {
  Case one(ElementType::f32);
  for (std::size_t i = 0; i < one.before.values.size(); ++i) {
    if (i % 64 != 5) one.before.values[i] = 0;
  }
  EXPECT_EQ(one.diagnose({}).verdict, Verdict::as_configured);
  const Diagnosis found = one.diagnose({.clockwise = true});
  EXPECT_EQ(found.verdict, Verdict::cannot_tell) << found.sentence;
  EXPECT_FALSE(found.facts.base.has_value());
  EXPECT_FALSE(found.facts.clockwise.has_value());
}

}  // namespace
}  // namespace rotary::diagnose_tests
