// Ropes of the whole equation: rows of frequencies for heads, sums over coordinates, phases, xPos.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "tools/tests/diagnose/case.h"

namespace rotary::diagnose_tests {
namespace {

constexpr int heads = 4, axes = 2, pairs = 16, columns = 8, tokens = 40;

using Angle = std::function<double(int h, int t, int i)>;
Engine turning(Angle angle) { return {.speed = speeds(10000, 2 * pairs), .angle = std::move(angle)}; }

// timm's mixed rope: a direction for each head and pair.
struct Mixed : testing::Test {
  Mixed() {
    std::mt19937 random(7);
    std::uniform_real_distribution<double> direction(0, 6.28);
    ModelRope used;
    used.heads = used.kv_heads = heads;
    used.rope.head_dim = used.rope.rotary_dim = 2 * pairs;
    used.rope.pairing = Pairing::half;
    used.rope.head_rows = heads;
    used.rope.summed_axes = axes;
    for (int h = 0; h < heads; ++h) {
      std::vector<double> at(pairs);
      for (double& one : at) one = direction(random);
      for (int i = 0; i < pairs; ++i) used.rope.inv_freq.push_back(std::pow(10, -i / 16.0) * std::cos(at[at_of(i)]));
      for (int i = 0; i < pairs; ++i) used.rope.inv_freq.push_back(std::pow(10, -i / 16.0) * std::sin(at[at_of(i)]));
    }
    c.rope = used;
    PositionSet places;
    places.axes = axes;
    places.tokens = tokens;
    for (int t = 0; t < tokens; ++t) places.reals.push_back(t % columns);
    for (int t = 0; t < tokens; ++t) places.reals.push_back(t / columns);
    c.subject.positions = places;
  }

  static std::size_t at_of(int i) { return static_cast<std::size_t>(i); }
  double speed(int h, int a, int i) const { return c.rope->rope.inv_freq[at_of((h * axes + a) * pairs + i)]; }
  double angle(double x, double y, int h, int i) const { return x * speed(h, 0, i) + y * speed(h, 1, i); }
  double right(int h, int t, int i) const { return angle(t % columns, t / columns, h, i); }
  Diagnosis diagnose(Angle by) { return c.diagnose(turning(std::move(by))); }

  Case c{ElementType::f32, {.tokens = tokens, .heads = heads, .head_dim = 2 * pairs}};
};

TEST_F(Mixed, what_is_right_is_as_configured) {
  const Diagnosis one = diagnose([this](int h, int t, int i) { return right(h, t, i); });
  expect_said(one, Verdict::as_configured);
  EXPECT_TRUE(one.facts.inv_freq.empty()) << "they are no list of pairs";
  EXPECT_FALSE(one.facts.scaling);
}

TEST_F(Mixed, faults_of_an_ordinary_rope_are_named) {
  Engine interleaved = turning([this](int h, int t, int i) { return right(h, t, i); });
  interleaved.pairs = Pairs::interleaved;
  EXPECT_EQ(c.diagnose(interleaved).verdict, Verdict::pairing);
  for (const auto& [times, verdict] :
       {std::pair(-1, Verdict::direction), {2, Verdict::twice}, {0, Verdict::not_rotated}}) {
    expect_said(diagnose([this, by = times](int h, int t, int i) { return by * right(h, t, i); }), verdict);
  }
}

TEST_F(Mixed, coordinates_are_found_though_an_angle_is_a_sum_of_them) {
  const auto column = [](int t) { return t % columns; };
  const auto row = [](int t) { return t / columns; };
  const auto expect_at = [this](auto x, auto y, const std::vector<const char*>& words) {
    const Diagnosis one = diagnose([=, this](int h, int t, int i) { return angle(x(t), y(t), h, i); });
    for (const char* some : words) expect_words(one, some);
  };
  expect_at([=](int t) { return column(t) + 1; }, row, {"begin at 1 instead of 0, 1 too far on axis 0"});
  expect_at(column, [=](int t) { return row(t) - 2.5; }, {"2.5 too early on axis 1"});
  expect_at([=](int t) { return column(t) + 2; }, [=](int t) { return row(t) - 1; },
            {"2 too far on axis 0", "1 too early on axis 1"});
  expect_at(row, column, {"with axis 0 and axis 1 exchanged"});
  expect_at(column, [](int) { return 0; }, {"without axis 1 ("});
}

// Several coordinates make the same angles.
TEST_F(Mixed, clockwise_is_not_taken_for_other_positions) {
  std::vector<double>& f = c.rope->rope.inv_freq;
  for (std::size_t i = 0; i < f.size(); ++i) f[i] = f[i / (axes * pairs) * axes * pairs + i % pairs];
  expect_said(diagnose([this](int h, int t, int i) { return -right(h, t, i); }), Verdict::direction);
}

TEST_F(Mixed, rows_of_other_heads_are_named) {
  const auto by_row = [this](auto row) {
    return diagnose([=, this](int h, int t, int i) { return right(row(h), t, i); });
  };
  expect_said(by_row([](int h) { return heads - 1 - h; }), Verdict::heads, "head 0 by row 3");
  expect_said(by_row([](int) { return 0; }), Verdict::heads, "row 0 in all heads");
}

TEST_F(Mixed, parts_keep_the_rows_of_their_heads) {
  const Diagnosis some = diagnose([this](int h, int t, int i) { return (h == 2 ? 2 : 1) * right(h, t, i); });
  expect_words(some, "in head 2 is rotated twice");
  const Diagnosis late =
      diagnose([this](int h, int t, int i) { return right(h, t, i) + (t < 20 ? 0 : speed(h, 0, i)); });
  expect_words(late, "in tokens 20-39 is rotated at positions");
}

TEST_F(Mixed, what_differs_is_not_said_to_be_as_configured) {
  Case half{ElementType::f16, {.tokens = tokens, .heads = heads, .head_dim = 2 * pairs}};
  Engine by = turning([this](int h, int t, int i) { return right(h, t, i); });
  by.rounds_table = [](double value) { return to_type(value, ElementType::bf16); };
  c.subject.used = &*c.rope;
  const Tensor x = tensor_of(half.before, half.type, half.order), y = tensor_of(by(half.before), half.type, half.order);
  diagnose::NamedCheck one = diagnose::judge({"q", x, y}, c.subject, std::nullopt, {});
  diagnose::say(one);
  EXPECT_EQ(one.outcome, diagnose::Outcome::differs);
  EXPECT_NE(one.diagnosis.verdict, Verdict::as_configured) << one.sentence;
  expect_words(one.diagnosis, "cos and sin are rounded to bf16");
}

TEST_F(Mixed, angles_of_no_such_rope_say_what_was_not_asked) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> any(0, 6.28);
  expect_words(diagnose([&](int, int, int) { return any(random); }), "cannot tell");
}

TEST_F(Mixed, heads_that_the_rope_has_no_rows_for_are_refused) {
  c.before = random_data({.tokens = tokens, .heads = 3, .head_dim = 2 * pairs}, ElementType::f32);
  EXPECT_THROW(c.diagnose(turning({})), Error);
}

// Each axis would have 17 positions to try: 24 million trials.
TEST(Sums, of_many_axes_are_not_tried) {
  constexpr int many = 6;
  Case c(ElementType::f32);
  c.rope->rope.summed_axes = many;
  PositionSet places{.axes = many, .tokens = 16};
  for (int i = 0; i < many * 32; ++i) c.rope->rope.inv_freq.push_back(0.3 * std::sin(1 + 7 * i));
  for (int i = 0; i < many * 16; ++i) places.integers.push_back(i * i % 9);
  c.subject.positions = places;
  EXPECT_NE(c.diagnose({}).verdict, Verdict::as_configured);
}

// ---- a phase, and xPos ----

struct Own : testing::Test {
  Own() { set_rope(c); }
  static void set_rope(Case& c) {
    c.rope = model_rope();
    c.rope->heads = c.rope->kv_heads = heads;
    c.rope->rope.head_dim = c.rope->rope.rotary_dim = 2 * pairs;
  }
  static double turn(double t, int i) { return t * std::pow(10000, -i / 16.0); }
  Diagnosis diagnose(Angle by) { return c.diagnose(turning(std::move(by))); }
  Case c{ElementType::f32, {.tokens = tokens, .heads = heads, .head_dim = 2 * pairs}};
};

TEST_F(Own, faults_beside_a_phase_are_told) {
  for (int i = 0; i < pairs; ++i) c.rope->rope.phase.push_back(std::sin(3 * i + 1));
  const auto with = [this](double speed, double moved = 0) {
    return diagnose([=, this](int, int t, int i) {
             return speed * turn(t + moved, i) + c.rope->rope.phase[static_cast<std::size_t>(i)];
           })
        .verdict;
  };
  EXPECT_EQ(with(1), Verdict::as_configured);
  EXPECT_EQ(with(-1), Verdict::direction);
  EXPECT_EQ(with(2), Verdict::twice);
  EXPECT_EQ(with(1, 3), Verdict::offset);
}

// At positions so far that every angle is within their rounding, nothing is explained.
TEST_F(Own, pairs_that_stand_still_are_not_far_away) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> any(-3, 3);
  for (int round = 0; round < 4; ++round) {
    std::vector<double>& phase = c.rope->rope.phase;
    phase.clear();
    for (int i = 0; i < pairs; ++i) phase.push_back(any(random));
    const Diagnosis half = diagnose(
        [&](int, int t, int i) { return i < pairs / 2 ? turn(t, i) + phase[static_cast<std::size_t>(i)] : 0; });
    EXPECT_EQ(half.sentence.find("begin at"), std::string::npos) << half.sentence;
  }
}

TEST_F(Own, faults_beside_an_amplitude_are_told) {
  for (const ElementType type : {ElementType::f32, ElementType::bf16}) {
    c = Case{type, {.tokens = tokens, .heads = heads, .head_dim = 2 * pairs}};
    set_rope(c);
    c.rope->rope.xpos = {512, 0, false};
    for (const double moved : {0, 10, 40}) {
      Engine by = turning([=](int, int t, int i) { return turn(t + moved, i); });
      by.amplitude = [=](int t, int i) {
        return std::pow((2 * i + 0.4 * 2 * pairs) / (1.4 * 2 * pairs), (t + moved) / 512);
      };
      const Diagnosis found = c.diagnose(by);
      EXPECT_EQ(found.verdict, moved == 0 ? Verdict::as_configured : Verdict::offset) << found.sentence;
      EXPECT_EQ(found.findings.size(), moved == 0 ? 0U : 1U) << found.sentence;
    }
  }
}

}  // namespace
}  // namespace rotary::diagnose_tests
