// Faults made by the engine of engine.h, each with the verdict and the facts that must be found.
#include <algorithm>
#include <limits>

#include "tools/tests/diagnose/case.h"

namespace rotary::diagnose_tests {
namespace {

class Faults : public testing::TestWithParam<ElementType> {
 protected:
  Case with(Data data = {}) const { return Case(GetParam(), data); }
};
INSTANTIATE_TEST_SUITE_P(Types, Faults, testing::Values(ElementType::f32, ElementType::f16, ElementType::bf16),
                         [](const auto& param) { return std::string(name(param.param)); });

TEST_P(Faults, None) {
  for (const char* order : {"bthd", "bhtd", "tbhd"}) {
    Case one = with({.batch = 2, .tokens = 12});
    one.order = order;
    const Diagnosis found = one.diagnose(Engine{});
    expect_said(found, Verdict::as_configured);
    EXPECT_EQ(found.facts.layout, order);
    EXPECT_EQ(found.facts.pairing, "half");
    EXPECT_EQ(found.facts.clockwise, false);
    EXPECT_EQ(found.facts.first, 0);
    EXPECT_EQ(found.facts.rotary_dim, 64);
    EXPECT_EQ(found.facts.base, 10000);
    EXPECT_EQ(found.facts.attention_factor, 1);
    ASSERT_EQ(found.facts.positions.size(), 1U);
    EXPECT_EQ(found.facts.positions[0][11], 11);
  }
}

TEST_P(Faults, Pairing) {
  const Diagnosis found = with().diagnose({.pairs = Pairs::interleaved});
  EXPECT_EQ(found.verdict, Verdict::pairing);
  EXPECT_EQ(found.facts.pairing, "interleaved");
  EXPECT_EQ(found.sentence.rfind("q is rotated in the interleaved (GPT-J) pairing; the model uses half (", 0), 0U)
      << found.sentence;
  EXPECT_EQ(found.findings.size(), 1U);
  EXPECT_EQ(found.facts.base, 10000);
  EXPECT_EQ(with().diagnose({.pairs = Pairs::interleaved_to_half}).facts.pairing, "interleaved_to_half");
  Case asks_interleaved = with();
  asks_interleaved.rope = model_rope(Unscaled{}, Pairing::interleaved);
  EXPECT_EQ(asks_interleaved.diagnose({}).verdict, Verdict::pairing);
  EXPECT_EQ(asks_interleaved.diagnose({.pairs = Pairs::interleaved}).verdict, Verdict::as_configured);
}

TEST_P(Faults, Direction) {
  const Diagnosis found = with().diagnose({.clockwise = true});
  EXPECT_EQ(found.verdict, Verdict::direction);
  EXPECT_EQ(found.facts.clockwise, true);
  Case backwards = with();
  backwards.rope->rope.clockwise = true;  // as nanochat
  EXPECT_EQ(backwards.diagnose({.clockwise = true}).verdict, Verdict::as_configured);
  EXPECT_EQ(backwards.diagnose({}).verdict, Verdict::direction);
}

TEST_P(Faults, Offset) {
  for (const double offset : {1.0, -3.0, 100.0, 5000.0}) {
    const Diagnosis found = with().diagnose({.position = [=](int, int t, int) { return t + offset; }});
    expect_said(found, Verdict::offset);
    ASSERT_EQ(found.facts.positions.size(), 1U);
    EXPECT_EQ(found.facts.positions[0][2], 2 + offset);
  }
  Case given = with();
  given.subject.positions = from(100);
  EXPECT_EQ(given.diagnose({.position = [](int, int t, int) { return t + 100.0; }}).verdict, Verdict::as_configured);
}

TEST_P(Faults, OffsetOfOneToken) {
  Case one = with({.tokens = 1});
  one.subject.positions = from(5, 1);
  EXPECT_EQ(one.diagnose({.position = [](int, int, int) { return 5.0; }}).verdict, Verdict::as_configured);
  EXPECT_EQ(one.diagnose({.position = [](int, int, int) { return 6.0; }}).verdict, Verdict::offset);
}

TEST_P(Faults, Positions) {
  const std::vector<std::pair<const char*, std::function<double(int, int, int)>>> faults = {
      {"reverse order", [](int, int t, int) { return 15.0 - t; }},
      {"for every token", [](int, int, int) { return 7.0; }},
      {"begin again at 0 with token 6", [](int, int t, int) { return t < 6 ? t : t - 6.0; }},
      {"row 1", [](int b, int t, int) { return b == 0 ? t : t + 3.0; }},
      {"tokens 12-15", [](int, int t, int) { return std::min(t, 11); }}};
  for (const auto& [words, position] : faults) {
    expect_said(with({.batch = 2}).diagnose({.position = position}), Verdict::positions, words);
  }
  const Diagnosis rows = with({.batch = 2}).diagnose({.position = faults[3].second});
  ASSERT_EQ(rows.facts.positions.size(), 2U);
  EXPECT_EQ(rows.facts.positions[1][0], 3);
}

TEST_P(Faults, PositionsOfFewBits) {
  const std::tuple<int, double (*)(int), const char*> faults[] = {
      {1000, [](int place) { return to_type(place, ElementType::bf16); }, "rounded to bf16"},
      {32760, [](int place) { return static_cast<double>(static_cast<std::int16_t>(place)); }, "wrapped at int16"},
      {250, [](int place) { return static_cast<double>(static_cast<std::uint8_t>(place)); }, "wrapped at uint8"}};
  for (const auto& [first, stored, words] : faults) {
    Case one = with();
    one.subject.positions = from(first);
    const auto position = [first = first, stored = stored](int, int t, int) { return stored(first + t); };
    expect_said(one.diagnose({.position = position}), Verdict::positions, words);
  }
}

TEST_P(Faults, Base) {
  for (const double base : {500000.0, 1e6, 12345.0}) {
    const Diagnosis found = with({.tokens = 64}).diagnose({.speed = speeds(base)});
    expect_said(found, Verdict::base);
    ASSERT_TRUE(found.facts.base.has_value());
    EXPECT_NEAR(*found.facts.base / base, 1, GetParam() == ElementType::bf16 ? 0.02 : 2e-3);
  }
}

TEST_P(Faults, Scaling) {
  Case linear = with();
  std::vector<double> slower = speeds();
  for (double& speed : slower) speed /= 4;
  const Diagnosis unasked = linear.diagnose({.speed = slower});
  EXPECT_EQ(unasked.verdict, Verdict::scaling);
  ASSERT_TRUE(unasked.facts.scaling.has_value());
  EXPECT_EQ(*unasked.facts.scaling, Scaling(Linear{4}));
  linear.rope = model_rope(Linear{4});
  EXPECT_EQ(linear.diagnose({.speed = slower}).verdict, Verdict::as_configured);
  const Diagnosis missing = linear.diagnose({});
  EXPECT_EQ(missing.verdict, Verdict::scaling);
  EXPECT_EQ(missing.facts.scaling, std::optional<Scaling>(Unscaled{}));

  Case yarn = with({.tokens = 200});
  Yarn asked;
  asked.factor = 8;
  asked.trained_length = 512;
  yarn.rope = model_rope(asked);
  expect_said(yarn.diagnose({}), Verdict::scaling, "without the scaling yarn");
  Engine right{.speed = frequencies(yarn.rope->rope).inv_freq};
  EXPECT_EQ(yarn.diagnose(right).verdict, Verdict::attention_factor);
  right.factor = 0.1 * std::log(8.0) + 1;
  EXPECT_EQ(yarn.diagnose(right).verdict, Verdict::as_configured);
  right.factor *= right.factor;
  expect_said(yarn.diagnose(right), Verdict::attention_factor, "twice");
}

TEST_P(Faults, TheOtherListOfLongRope) {
  LongRope lists;
  lists.trained_length = 64;
  lists.short_factor.assign(32, 1.1);
  lists.long_factor.assign(32, 4);
  Case one = with();
  one.rope = model_rope(lists);
  EXPECT_EQ(one.diagnose({.speed = frequencies(one.rope->rope, 64).inv_freq}).verdict, Verdict::as_configured);
  const Diagnosis found = one.diagnose({.speed = frequencies(one.rope->rope, 65).inv_freq});
  EXPECT_EQ(found.verdict, Verdict::scaling);
  // Both lists are constants here, so that a position factor would explain the data too; the sentence says so.
  EXPECT_FALSE(found.findings.empty());
}

TEST_P(Faults, Block) {
  const Diagnosis leading = with().diagnose({.speed = speeds(10000, 32)});
  expect_said(leading, Verdict::block);
  EXPECT_EQ(leading.facts.rotary_dim, 32);
  const Diagnosis trailing = with().diagnose({.speed = speeds(10000, 32), .first = 32});
  EXPECT_EQ(trailing.verdict, Verdict::block);
  EXPECT_EQ(trailing.facts.first, 32);
  Case partial = with();
  partial.rope->rope.rotary_dim = 32;
  EXPECT_EQ(partial.diagnose({.speed = speeds(10000, 32)}).verdict, Verdict::as_configured);
  EXPECT_EQ(partial.diagnose({}).verdict, Verdict::block);
}

TEST_P(Faults, Layout) {
  Case one = with({.tokens = 12});
  expect_said(one.diagnose({.position = [](int, int, int h) { return h; }}), Verdict::layout, "head index");
  expect_said(one.diagnose({.position = [](int, int t, int h) { return (t * 8 + h) % 12; }}), Verdict::layout);
}

TEST_P(Faults, AttentionFactor) {
  const Diagnosis found = with().diagnose({.factor = 1.25});
  expect_said(found, Verdict::attention_factor);
  EXPECT_NEAR(*found.facts.attention_factor, 1.25, 2e-3);
}

TEST_P(Faults, Precision) {
  const ElementType type = GetParam();
  const auto to_bf16 = [](double value) { return to_type(value, ElementType::bf16); };
  Case one = with({.tokens = 64, .heads = 8});
  const Diagnosis angles = one.diagnose({.rounds_angle = to_bf16});
  expect_said(angles, Verdict::precision);
  EXPECT_EQ(angles.facts.precision, Precision::bf16);
  std::vector<double> rounded = speeds();
  for (double& speed : rounded) speed = to_bf16(speed);
  EXPECT_EQ(one.diagnose({.speed = rounded}).facts.precision, Precision::bf16);
  const Diagnosis table = one.diagnose({.rounds_table = to_bf16});
  EXPECT_EQ(table.facts.precision, Precision::bf16) << table.sentence;
  // In a bf16 tensor such a table is usual.
  EXPECT_EQ(table.verdict, type == ElementType::bf16 ? Verdict::as_configured : Verdict::precision);
}

TEST_P(Faults, Twice) {
  Case one = with();
  const Engine engine;
  expect_said(one.diagnose_after(engine(engine(one.before))), Verdict::twice);
  Engine interleaved{.pairs = Pairs::interleaved};
  EXPECT_EQ(one.diagnose_after(interleaved(engine(one.before))).verdict, Verdict::twice);
}

TEST_P(Faults, SomeHeads) {
  const Diagnosis found = with().diagnose({.rotates = [](int h) { return h < 3; }});
  expect_said(found, Verdict::some_heads);
  EXPECT_EQ(found.facts.heads, (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(found.sentence, "q is rotated in 3 of its 8 heads only (0-2); the others are the same before and after");
  EXPECT_EQ(found.found.at(0).where.heads, (std::vector<std::int64_t>{3, 4, 5, 6, 7}));
}

TEST_P(Faults, NotRotated) {
  Case one = with();
  EXPECT_EQ(one.diagnose_after(one.before).verdict, Verdict::not_rotated);
  Case at_zero = with({.tokens = 1});
  EXPECT_EQ(at_zero.diagnose_after(at_zero.before).verdict, Verdict::cannot_tell);
}

TEST_P(Faults, Axis) {
  Case one = with({.tokens = 24, .heads = 8});
  one.rope->rope.axis = sectioned_axes(std::vector<int>{8, 12, 12});
  PositionSet given;
  given.axes = 3;
  given.tokens = 24;
  for (int axis = 0; axis < 3; ++axis) {
    for (int t = 0; t < 24; ++t) given.reals.push_back(axis == 0 ? t / 6 : axis == 1 ? t / 3 : t);
  }
  one.subject.positions = given;
  const auto at = [&](const std::vector<std::uint8_t>& axes) {
    return [=, list = axes](int, int t, int pair) {
      const auto i = static_cast<std::size_t>(pair);
      return given.reals[list[i] * std::size_t{24} + static_cast<std::size_t>(t)] * speeds()[i];
    };
  };
  EXPECT_EQ(one.diagnose({.angle = at(one.rope->rope.axis)}).verdict, Verdict::as_configured);
  const std::vector<std::uint8_t>& own = one.rope->rope.axis;
  std::vector<std::uint8_t> swapped = own, shifted = own, unknown = own;
  for (std::size_t i = 0; i < own.size(); ++i) swapped[i] = own[i] == 0 ? 0 : 3 - own[i];
  std::rotate(shifted.begin(), shifted.begin() + 31, shifted.end());
  std::ranges::reverse(unknown.begin(), unknown.begin() + 12);
  const std::pair<std::vector<std::uint8_t>, const char*> maps[] = {
      {interleaved_axes(std::vector<int>{8, 12, 12}), "with the axes in turns"},
      {swapped, "with axis 1 and axis 2 exchanged among its axes: pair 8 turns by axis 2, the model asks axis 1"},
      {shifted, "with the axes shifted one pair further"},
      {std::vector<std::uint8_t>(32, 0), "with axis 0 alone instead of all axes"},
      {unknown, "with other axes in 8 of its 32 pairs"}};
  for (const auto& [axes, words] : maps) {
    const Diagnosis other = one.diagnose({.angle = at(axes)});
    expect_said(other, Verdict::axis);
    EXPECT_EQ(other.facts.axis.size(), 32U);
    const bool is_named = other.sentence.find(words) != std::string::npos;
    EXPECT_TRUE(is_named || GetParam() != ElementType::f32) << other.sentence;
  }
  const auto only_time = [=, right = at(own)](int b, int t, int pair) {
    return own[static_cast<std::size_t>(pair)] == 0 ? right(b, t, pair) : 0;
  };
  expect_words(one.diagnose({.angle = only_time}), "without axis 1 and axis 2, whose pairs do not rotate");
}

// The same mistake of all axes is said once, also where few tokens tell little of the slow ones.
TEST(Diagnose, OneMistakeOfAllAxes) {
  Case one(ElementType::bf16, {.tokens = 8});
  one.rope->rope.axis = sectioned_axes(std::vector<int>{8, 12, 12});
  for (const bool image : {false, true}) {
    PositionSet& given = one.subject.positions.emplace();
    given.tokens = 8;
    given.axes = 3;
    for (int i = 0; i < 24; ++i) given.reals.push_back(image ? 4 + i / 8 * (i % 8) / 2 : 13 + i % 8);
    const Diagnosis found = one.diagnose({.position = [](int, int t, int) { return t + 40.0; }});
    const std::string words =
        image ? "count the tokens from 40 up on every axis" : "begin at 40 instead of 13, 27 too far on every axis";
    EXPECT_EQ(found.findings.size(), 1U) << found.sentence;
    expect_words(found, words);
  }
}

// The slowest and the fastest are named of pairs that turn otherwise, each for itself.
TEST(Diagnose, SpeedsOfSomePairs) {
  Case one(ElementType::f32, {.tokens = 24});
  std::vector<double> list = speeds();
  const std::vector<double> times = {1.02, 1.3, 1.05, 1.7, 1.1};
  for (std::size_t i = 0; i < times.size(); ++i) list[i + 12] *= times[i];
  const Diagnosis found = one.diagnose({.speed = list});
  expect_words(found, "; pairs 12-16 are 1.02 to 1.7 times as fast as asked");
  ASSERT_EQ(found.found.size(), 1U);
  EXPECT_EQ(found.found[0].cause, diagnose::Cause::some_pairs_other);
  EXPECT_EQ(found.found[0].where.pairs, (std::vector<std::int64_t>{12, 13, 14, 15, 16}));
}

// Sentences on pairs are about the speeds that the model asks, and no cause is named for pairs that do not turn.
TEST(Diagnose, SomePairs) {
  for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
    Case one(type, {.tokens = 24});
    std::vector<double> list = speeds();
    std::fill(list.begin() + 16, list.end(), 0);
    const Diagnosis still = one.diagnose({.speed = list});
    expect_words(still, "at the asked speeds in pairs 0-15 only; pairs 16-");
    expect_words(still, "do not rotate");
    EXPECT_EQ(still.sentence.find("exponent"), std::string::npos) << still.sentence;
  }
  Case one(ElementType::f32, {.tokens = 24});
  one.rope->rope.rotary_dim = 32;
  std::vector<double> list = speeds();
  std::fill(list.begin() + 16, list.end(), 0);
  expect_words(one.diagnose({.speed = list}), "at the speeds of 64 elements (exponent 2i/64) in pairs 0-15 only");
}

TEST_P(Faults, NothingThatARotationCouldBe) {
  Case one = with();
  const Diagnosis noise = one.diagnose_after(random_data(one.before, GetParam(), 99));
  expect_said(noise, Verdict::cannot_tell);
  EXPECT_FALSE(noise.facts.pairing.has_value());
  EXPECT_FALSE(noise.facts.base.has_value());
}

TEST_P(Faults, WithoutConfig) {
  Case one = with({.tokens = 32});
  one.rope.reset();
  const Diagnosis alone = one.diagnose({.pairs = Pairs::interleaved});
  EXPECT_EQ(alone.verdict, Verdict::cannot_tell);
  EXPECT_EQ(alone.facts.pairing, "interleaved");
  EXPECT_FALSE(alone.facts.clockwise.has_value());
  EXPECT_TRUE(alone.facts.positions.empty());
  EXPECT_TRUE(alone.facts.inv_freq.empty());
  one.subject.positions = from(0, 32);
  const Diagnosis placed = one.diagnose({.pairs = Pairs::interleaved, .clockwise = true});
  EXPECT_EQ(placed.facts.clockwise, true);
  ASSERT_TRUE(placed.facts.base.has_value());
  EXPECT_NEAR(*placed.facts.base / 10000, 1, 0.02);
  EXPECT_EQ(one.diagnose({.position = [](int, int t, int) { return t + 2.0; }}).verdict, Verdict::offset);
}

// ---- facts that only f32 shows ----

TEST(Diagnose, Float32AnglesAreAsConfigured) {
  Case one(ElementType::f32);
  one.subject.positions = from(100000);
  Engine engine{.position = [](int, int t, int) { return t + 100000.0; }};
  EXPECT_EQ(one.diagnose(engine).facts.precision, Precision::exact);
  std::vector<double> rounded = speeds();
  for (double& speed : rounded) speed = static_cast<float>(speed);
  engine.speed = rounded;
  engine.rounds_angle = [](double angle) { return static_cast<double>(static_cast<float>(angle)); };
  const Diagnosis found = one.diagnose(engine);
  expect_said(found, Verdict::as_configured);
  EXPECT_EQ(found.facts.precision, Precision::f32);
}

TEST(Diagnose, OneHead) {
  Case one(ElementType::f32, {.heads = 1});
  EXPECT_EQ(one.diagnose({}).verdict, Verdict::as_configured);
  EXPECT_EQ(one.diagnose({.pairs = Pairs::interleaved}).verdict, Verdict::pairing);
}

TEST(Diagnose, TwoElementsHaveNoPairing) {
  Case one(ElementType::f32, {.head_dim = 2});
  one.rope->rope.head_dim = one.rope->rope.rotary_dim = 2;
  const Diagnosis found = one.diagnose({.speed = {1.0}});
  expect_said(found, Verdict::as_configured);
  EXPECT_FALSE(found.facts.pairing.has_value());
}

TEST(Diagnose, DoublesAndTensorsOfFewerDimensions) {
  Case doubles(ElementType::f64);
  EXPECT_EQ(doubles.diagnose({}).verdict, Verdict::as_configured);
  for (const char* order : {"thd", "htd"}) {
    Case one(ElementType::f32, {.tokens = 12});
    one.order = order;
    const Diagnosis found = one.diagnose({});
    expect_said(found, Verdict::as_configured);
    EXPECT_EQ(found.facts.layout, order);
  }
}

TEST(Diagnose, ValuesRoundedToBf16ButStoredAsF32) {
  Case one(ElementType::bf16);
  Data after = Engine{}(one.before);
  for (double& value : after.values) value = to_type(value, ElementType::bf16);
  one.type = ElementType::f32;
  EXPECT_EQ(one.diagnose_after(after).verdict, Verdict::as_configured);
}

TEST(Diagnose, AHeadOfZerosSaysNothing) {
  Case one(ElementType::f32);
  for (int t = 0; t < 16; ++t) {
    for (int d = 0; d < 64; ++d) one.before.values[one.before.at(0, t, 5, d)] = 0;
  }
  EXPECT_EQ(one.diagnose({}).verdict, Verdict::as_configured);
}

TEST(Diagnose, NotFinite) {
  Case one(ElementType::f32);
  Data after = Engine{}(one.before);
  after.values[7] = std::numeric_limits<double>::quiet_NaN();
  expect_said(one.diagnose_after(after), Verdict::cannot_tell,
              "after the rotation but got nan at token 0, head 0, element 7");
}

TEST(Diagnose, ABlockThatEndsTheHeadAndIsReordered) {
  Case one(ElementType::f32, {.head_dim = 96});
  one.rope->rope.head_dim = 96;
  one.rope->first = 32;
  one.rope->rope.pairing = Pairing::interleaved_to_half;
  const Engine right{.pairs = Pairs::interleaved_to_half, .first = 32};
  EXPECT_EQ(one.diagnose(right).verdict, Verdict::as_configured);
  EXPECT_EQ(one.diagnose_after(right(right(one.before))).verdict, Verdict::twice);
  expect_said(one.diagnose({.pairs = Pairs::interleaved, .first = 32}), Verdict::pairing, "scores of q and k");
}

TEST(Diagnose, AtPosition0WhatIsReorderedMovesTheElements) {
  Case one(ElementType::f32, {.tokens = 1});
  one.rope->rope.pairing = Pairing::interleaved_to_half;
  EXPECT_EQ(one.diagnose_after(one.before).verdict, Verdict::not_rotated);
  std::ranges::fill(one.before.values, 0);
  EXPECT_EQ(one.diagnose_after(one.before).verdict, Verdict::cannot_tell);
}

TEST(Diagnose, OneHeadThatIsFlat) {
  const Data data = random_data({.batch = 2, .heads = 1}, ElementType::f32);
  Tensor x = tensor_of(data, ElementType::f32), y = tensor_of(Engine{}(data), ElementType::f32);
  x.shape = y.shape = {2, 16, 64};
  diagnose::Request request = request_of(model_of(model_rope()));
  request.layout = "flat";
  EXPECT_TRUE(diagnose::check(request, {{"k", x, y}}).equal());
}

TEST(Diagnose, PositionsThatNoIntegerHolds) {
  for (const double first : {1e19, 1e300, -1e300}) {
    Case one(ElementType::f32);
    one.rope = model_rope(Dynamic{.factor = 2, .trained_length = 2048});
    one.subject.positions = from(first);
    EXPECT_EQ(one.diagnose_after(one.before).verdict, Verdict::not_rotated);
  }
}

TEST(Combine, ValuesAreNoTensorThatIsRotated) {
  Case one(ElementType::f32);
  const Diagnosis still = one.diagnose_after(one.before);
  for (const auto cause : {diagnose::Cause::not_to_rotate, diagnose::Cause::changed_nonetheless}) {
    const diagnose::Finding found = diagnose::finding(cause, {{"value", true}});
    const Diagnosis all = diagnose::combine({{"q", still}, {"k", still}, {"v", {found.verdict, {found}}}});
    EXPECT_EQ(all.verdict, Verdict::not_rotated);
    EXPECT_TRUE(all.sentence.starts_with("q and k are not rotated")) << all.sentence;
  }
}

// Measured on two tensors, one fault differs in digits that neither has.
TEST(Combine, AMeasuredFaultIsOneWithinItsErrors) {
  const std::tuple<ElementType, unsigned, Engine, Engine, const char*> faults[] = {
      {ElementType::bf16, 2, {.factor = 1.0371}, {.factor = 1.25}, "multiplied by 1."},
      {ElementType::f16, 6, {.speed = speeds(12345)}, {.speed = speeds(12845)}, "rotated with base 12"}};
  for (const auto& [type, seed, engine, other, words] : faults) {
    const auto of = [type = type](unsigned own_seed, const Engine& by) {
      Case one(type, {.tokens = 40});
      one.before = random_data(one.before, type, own_seed);
      return one.diagnose(by);
    };
    const Diagnosis q = of(1, engine), k = of(seed, engine);
    EXPECT_TRUE(q.facts.attention_factor != k.facts.attention_factor || q.facts.base != k.facts.base);
    const std::string both = diagnose::combine({{"q", q}, {"k", k}}).sentence;
    EXPECT_TRUE(both.starts_with(std::string("q and k are ") + words)) << both;
    const std::string two = diagnose::combine({{"q", q}, {"k", of(seed, other)}}).sentence;
    EXPECT_TRUE(two.starts_with(std::string("q is ") + words)) << two;
    EXPECT_NE(two.find(std::string("k is ") + words), std::string::npos) << two;
  }
}

}  // namespace
}  // namespace rotary::diagnose_tests
