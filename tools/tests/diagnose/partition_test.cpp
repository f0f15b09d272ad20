// One rotation that holds for a part, and befores that are not what the rotation took: each with the words that say it.
#include "tools/tests/diagnose/case.h"

namespace rotary::diagnose_tests {
namespace {

using Places = std::function<bool(int b, int t, int h, int d)>;

// `other` where the place is inside, else `data`.
Data mixed(const Data& data, const Data& other, const Places& inside) {
  return with_values(data, [&](int b, int t, int h, int d) { return (inside(b, t, h, d) ? other : data)(b, t, h, d); });
}

class Parts : public testing::TestWithParam<ElementType> {};
INSTANTIATE_TEST_SUITE_P(Types, Parts, testing::Values(ElementType::f32, ElementType::bf16),
                         [](const auto& param) { return std::string(name(param.param)); });

TEST_P(Parts, AreNamed) {
  Case one(GetParam(), {.batch = 2});
  const Data& x = one.before;
  const Data right = Engine{}(x), further = Engine{.position = [](int, int t, int) { return t + 9.0; }}(x),
             interleaved = Engine{.pairs = Pairs::interleaved}(x), other_base = Engine{.speed = speeds(500000)}(x),
             noise = random_data(x, GetParam(), 7);
  const Data zero = with_values(x, [](int, int, int, int) { return 0.0; });
  const auto row_1 = [](int b, int, int, int) { return b == 1; };
  const auto token_8_on = [](int, int t, int, int) { return t > 7; };
  const std::tuple<Data, Verdict, const char*> cases[] = {
      {mixed(right, further, row_1), Verdict::positions, "q in batch row 1 is rotated at positions that begin at 9"},
      {mixed(right, zero, row_1), Verdict::elements, "q in batch row 1 is zero after the rotation, in every element; "},
      {mixed(right, interleaved, row_1), Verdict::pairing, "q in batch row 1 is rotated in the interleaved (GPT-J)"},
      {mixed(interleaved, other_base, row_1), Verdict::pairing, "; in batch row 1 is rotated with base 5"},
      {mixed(right, interleaved, [](int, int, int h, int) { return h % 4 != 0; }), Verdict::pairing,
       "q in heads 1-3, 5-7 is rotated in the interleaved (GPT-J) pairing"},
      {mixed(right, other_base, token_8_on), Verdict::base, "q in tokens 8-15 is rotated with base 500000"},
      {mixed(interleaved, other_base, token_8_on), Verdict::pairing, "; in tokens 8-15 is rotated with base 5"},
      {mixed(right, x, [](int, int t, int, int) { return t == 15; }), Verdict::positions,
       "q in token 15 is not rotated"},
      {mixed(right, noise, [](int, int t, int h, int d) { return d == 37 && t == 2 * h; }), Verdict::elements,
       "q is as the config asks but for 16 elements: element 37 of head 0 at token 0 of batch row 0 and 15 others"},
      {mixed(right, noise, [](int b, int t, int h, int) { return b == 0 && t == 5 && h == 2; }), Verdict::elements,
       "q in batch row 0, head 2, token 5: cannot tell"},
      {Engine{.position = [](int, int t, int h) { return t + h; }}(x), Verdict::offset,
       "q in heads 1-7 is rotated at an offset of its own in each head: 1, 2, 3, 4, ... positions too far"},
      {Engine{.position = [](int, int t, int h) { return t + 3.0 * h + 2; }}(x), Verdict::offset,
       "q is rotated at an offset of its own in each head: 2, 5, 8, 11, ... positions too far"},
      {noise, Verdict::cannot_tell, "q: cannot tell, because no pairing"}};
  for (const auto& [after, verdict, words] : cases) expect_said(one.diagnose_after(after), verdict, words);
}

TEST_P(Parts, BeforesAndKernelsAreMended) {
  Case one(GetParam(), {.batch = 2});
  const Data& x = one.before;
  const Data right = Engine{}(x), before = normed(x, GetParam());
  const auto reversed = [&](int b, int t, int h, int d) { return right(b, t, 7 - h, d); };
  const auto of_other_row = [&](int b, int t, int h, int d) { return right(1 - b, t, h, d); };
  const auto scaled = [&](int b, int t, int h, int d) { return right(b, t, h, d) * (1.1 + (16 * b + 8 * t + h) % 7); };
  const auto aliased = [&](int b, int t, int h, int d) {
    const double angle = t * speeds()[static_cast<std::size_t>(d % 32)];
    return d < 32 ? right(b, t, h, d) : x(b, t, h, d) * std::cos(angle) + right(b, t, h, d - 32) * std::sin(angle);
  };
  const std::tuple<Data, Verdict, const char*> cases[] = {
      {with_values(x, reversed), Verdict::layout,
       "q is written with its heads in another order: head 0 after is head 7 before; in that order it is rotated as "
       "the config asks"},
      {with_values(x, of_other_row), Verdict::layout, "q is written with its batch rows in another order"},
      {Engine{}(before), Verdict::elements, "q: before lacks the norm of queries and keys (q_norm"},
      {Engine{.pairs = Pairs::interleaved}(before), Verdict::elements,
       "after the norm it is rotated in the interleaved (GPT-J) pairing; the model uses half"},
      {Engine{}(normed(x, GetParam(), true)), Verdict::elements,
       "(q_norm, k_norm, a LayerNorm), and after has it: each head differs"},
      {with_values(x, scaled), Verdict::elements,
       "q is multiplied by another factor in each head of each token, as by scales"},
      {with_values(x, aliased), Verdict::pairing, "computed from the new first one"}};
  for (const auto& [after, verdict, words] : cases) expect_said(one.diagnose_after(after), verdict, words);
}

TEST(Parts, TheSameElementsOfEachRowAreNoFaultOfARow) {
  Case one(ElementType::f32, {.batch = 3, .tokens = 9});
  Data after = Engine{}(one.before);
  for (int b = 0; b < 3; ++b) {
    for (int t = 0; t < 9; t += 3) after.values[after.at(b, t, 0, 7)] += 1;
  }
  const std::string sentence = one.diagnose_after(after).sentence;
  EXPECT_EQ(sentence.find("q in head 0, tokens 0, 3, 6: cannot tell"), 0U) << sentence;
}

TEST(Parts, ElementsThatAreNotRotatedAreNamed) {
  Case one(ElementType::f32);
  one.rope->rope.rotary_dim = 32;
  Data after = Engine{.speed = speeds(10000, 32)}(one.before);
  for (std::size_t i = 0; i < after.values.size(); ++i) after.values[i] *= i % 64 < 32 ? 1 : 1.5;
  const Diagnosis found = one.diagnose_after(after);
  EXPECT_EQ(found.sentence,
            "q is multiplied by 1.5 in elements 32-63, which the model does not rotate; but for that it is rotated as "
            "the config asks");
}

TEST(Parts, ChunksHaveTheBaseOfTheirTime) {
  Case one(ElementType::f32, {.tokens = 96});
  one.rope = model_rope(Dynamic{.factor = 2, .trained_length = 1024});
  one.subject.positions = from(1000, 96);
  const auto angle = [&](int, int t, int i) {
    return (1000 + t) * frequencies(one.rope->rope, 1000 + (t / 32 + 1) * 32).inv_freq[static_cast<std::size_t>(i)];
  };
  expect_words(one.diagnose({.angle = angle}), "own time, dynamic for lengths 1032, 1064, 1096;");
}

// A value, a key without an after, and one position for all tokens, which another order of the dimensions would
// explain.
TEST(Judged, WhatIsNoRotationOfItsRow) {
  const Case one(ElementType::f32, {.batch = 1});
  const Tensor x = tensor_of(one.before, one.type), right = tensor_of(Engine{}(one.before), one.type),
               still = tensor_of(Engine{.position = [](int, int, int) { return 100.0; }}(one.before), one.type);
  diagnose::Request request = request_of(model_of(*one.rope));
  const auto outcomes = [&](const std::vector<diagnose::TensorPair>& tensors) {
    std::vector<diagnose::Outcome> list;
    for (const diagnose::NamedCheck& found : diagnose::check(request, tensors).tensors) list.push_back(found.outcome);
    return list;
  };
  using enum diagnose::Outcome;
  EXPECT_EQ(outcomes({{"q", x, right}, {"v", x, right}, {"k", x, {}}}), (std::vector{equal, differs, undecided}));
  request.positions = written_positions("100:");
  EXPECT_EQ(outcomes({{"q", x, still}}), std::vector{undecided});
}

TEST(PowerOfAll, IsOfTheCoarsestTypeAndOfTheScalingThatOneOfThemHas) {
  diagnose::NamedCheck plain, scaled;
  plain.power = {.would_show = {"base"}, .tokens = 8, .unit = 0x1p-8, .scaling = "default"};
  scaled.power = {.would_show = {"base", "factor"}, .tokens = 8, .unit = 0x1p-24, .scaling = "linear"};
  for (const auto& tensors : {std::vector{plain, scaled}, {scaled, plain}}) {
    const std::string sentence = diagnose::common_power(tensors).sentence();
    EXPECT_NE(sentence.find("factor of linear"), std::string::npos) << sentence;
    EXPECT_NE(sentence.find("8 tokens of bf16"), std::string::npos) << sentence;
  }
}

// Frequencies and angles in float32 steps put some entries on the other side of a tie.
TEST(Precision, TablesOfFewBitsFromFloat32Steps) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16}) {
    for (const int tokens : {64, 128, 256}) {
      Case one(ElementType::f32, {.tokens = tokens});
      one.subject.positions = from(0, tokens);
      const Engine engine{.angle = [](int, int t, int pair) -> double {
                            const float exponent = static_cast<float>(2 * pair) / 64;
                            return static_cast<float>(t) * (1 / std::pow(10000.0F, exponent));
                          },
                          .rounds_table = [=](double entry) { return to_type(entry, type); }};
      const Diagnosis found = one.diagnose(engine);
      EXPECT_EQ(found.facts.precision, type == ElementType::bf16 ? Precision::bf16 : Precision::f16) << found.sentence;
      EXPECT_STREQ(name(found.found.at(0).cause), name(Cause::coarse_table)) << found.sentence;
    }
  }
}

TEST(Noise, IsItsOwnCause) {
  Case one(ElementType::f32);
  const Data right = Engine{}(one.before), random = random_data(right, ElementType::f32, 3);
  const Diagnosis found = one.diagnose_after(
      with_values(right, [&](int b, int t, int h, int d) { return right(b, t, h, d) + 0.001 * random(b, t, h, d); }));
  expect_said(found, Verdict::noise, "q is rotated as the config asks, with noise of 0.001 rms: half");
  EXPECT_STREQ(name(found.found.at(0).cause), name(Cause::only_noise));
  EXPECT_TRUE(found.findings.empty());
}

// After is not always made of before to the bit; what a partial rope leaves still then changes too.
TEST(Noise, OfTheLastBitBesideAPartialRope) {
  for (const ElementType type : {ElementType::bf16, ElementType::f16, ElementType::f32}) {
    Case one(type, {.tokens = 64});
    one.rope->rope.rotary_dim = 16;
    Data after = Engine{.speed = speeds(10000, 16)}(one.before);
    std::mt19937 random(5);
    const double unit = type == ElementType::bf16 ? 0x1p-7 : type == ElementType::f16 ? 0x1p-10 : 0x1p-23;
    for (double& value : after.values) value = to_type(value, type) * (random() % 50 == 0 ? 1 + unit : 1);
    expect_said(one.diagnose_after(after), Verdict::noise, "q is rotated as the config asks, with noise of");
  }
}

TEST(Noise, OfOneHeadIsNotTooSmall) {
  Case one(ElementType::f32, {.tokens = 40, .heads = 1, .head_dim = 128});
  one.rope->rope.head_dim = 128, one.rope->rope.rotary_dim = 32;
  const Data right = Engine{.speed = speeds(10000, 32)}(one.before);
  for (const unsigned seed : {3U, 4U, 5U, 6U, 7U, 8U}) {
    const Data random = random_data(right, ElementType::f32, seed);
    const Diagnosis found = one.diagnose_after(
        with_values(right, [&](int b, int t, int h, int d) { return right(b, t, h, d) + 0.003 * random(b, t, h, d); }));
    expect_said(found, Verdict::noise);
    EXPECT_NEAR(*found.facts.noise, 0.003, 0.0003) << seed;
  }
}

// The turns of several heads average it away.
TEST(SingleElement, IsFoundAmongSeveralHeads) {
  const Data before = random_data({.tokens = 100, .heads = 3}, ElementType::bf16);
  Data after = Engine{}(before);
  after.values[after.at(0, 20, 1, 5)] += 0.3;
  const Tensor x = tensor_of(before, ElementType::bf16, "bthd"), y = tensor_of(after, ElementType::bf16, "bthd");
  const auto found = diagnose::check(request_of(model_of(model_rope())), {{"q", x, y}}).tensors.at(0);
  EXPECT_EQ(found.sentence, "q is as the config asks but for element 5 of head 1 at token 20");
  EXPECT_EQ(found.outcome, diagnose::Outcome::differs);
}

TEST(Offset, OfHalfAPositionInFewBits) {
  Case one(ElementType::bf16, {.tokens = 40});
  expect_said(one.diagnose({.position = [](int, int t, int) { return t + 0.5; }}), Verdict::offset,
              "q is rotated at positions that begin at 0.5 instead of 0, 0.5 too far");
}

// A picture of 12 by 14 between words; the fast pairs turn as asked.
TEST(Axes, OtherSectionsInFewBits) {
  constexpr int tokens = 200, words = 10, rows = 12, columns = 14, end = words + rows * columns;
  Case one(ElementType::bf16, {.tokens = tokens, .heads = 4, .head_dim = 128});
  one.rope->rope.head_dim = one.rope->rope.rotary_dim = 128;
  one.rope->rope.base = 1e6;
  one.rope->rope.axis = sectioned_axes(std::vector<int>{16, 24, 24});
  const auto place = [=](int axis, int t) -> double {
    if (t < words) return t;
    const int patch = t - words;
    if (t >= end) return words + columns + t - end;
    return words + (axis == 0 ? 0 : axis == 1 ? patch / columns : patch % columns);
  };
  PositionSet places{.axes = 3, .tokens = tokens};
  for (int axis = 0; axis < 3; ++axis) {
    for (int t = 0; t < tokens; ++t) places.reals.push_back(place(axis, t));
  }
  one.subject.positions = places;
  const Engine engine{.speed = speeds(1e6, 128),
                      .angle = [=, axes = sectioned_axes(std::vector<int>{32, 24, 8})](int, int t, int pair) {
                        const auto i = static_cast<std::size_t>(pair);
                        return place(axes[i], t) * speeds(1e6, 128)[i];
                      }};
  expect_said(one.diagnose(engine), Verdict::axis, "q is rotated with other axes in");
}

TEST(Precision, FrequenciesInHalfFarAway) {
  Case one(ElementType::f32);
  one.subject.positions = from(120000);
  std::vector<double> rounded = speeds();
  for (double& speed : rounded) speed = to_type(speed, ElementType::f16);
  const Diagnosis found = one.diagnose({.speed = rounded, .position = [](int, int t, int) { return 120000.0 + t; }});
  EXPECT_EQ(found.facts.precision, Precision::f16) << found.sentence;
}

}  // namespace
}  // namespace rotary::diagnose_tests
