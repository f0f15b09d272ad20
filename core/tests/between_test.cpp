// between(): every value against MPFR, and what it does to keys.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "core/tests/support/angle_judge.h"
#include "core/tests/support/checks.h"
#include "rotary/rotary.h"

namespace rotary {
namespace {

template <class P, class Q>
judge::Pair right(const Frequencies& from, const std::vector<P>& p, const Frequencies& to, const std::vector<Q>& q,
                  std::size_t t, int h, int i, double factor = 1, Rounding rounding = Rounding::f32) {
  return judge::cos_sin(judge::angle(to, q, t, h, i) - judge::angle(from, p, t, h, i), factor, rounding);
}

template <class P, class Q>
void expect_right(const Frequencies& from, const std::vector<P>& p, const Frequencies& to, const std::vector<Q>& q,
                  double factor = 1, Rounding rounding = Rounding::f32) {
  const Table table = between(from, Positions(p, from.axes()), to, Positions(q, to.axes()), {Angles::exact, rounding});
  const std::size_t tokens = p.size() / static_cast<std::size_t>(from.axes());
  ASSERT_EQ(table.tokens(), static_cast<std::int64_t>(tokens));
  ASSERT_EQ(table.head_rows(), to.head_rows);
  std::size_t k = 0;
  for (std::size_t t = 0; t < tokens; ++t) {
    for (int h = 0; h < to.head_rows; ++h) {
      for (int i = 0; i < to.pairs(); ++i, ++k) {
        const judge::Pair got{table.cos()[k], table.sin()[k]};
        const judge::Pair wanted = right(from, p, to, q, t, h, i, factor, rounding);
        ASSERT_TRUE(got == wanted) << p[t] << " -> " << q[t] << " head " << h << " pair " << i << ": " << got.cos << ' '
                                   << got.sin << " but " << wanted.cos << ' ' << wanted.sin;
      }
    }
  }
}

Frequencies rope(double base, Scaling scaling = {}) {
  return frequencies({.head_dim = 32, .base = base, .pairing = Pairing::half, .scaling = scaling}, 0);
}

std::vector<std::int64_t> random_positions(std::size_t count, std::uint64_t seed, std::int64_t most) {
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> positions(count);
  for (std::int64_t& p : positions) p = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
  return positions;
}

TEST(Between, every_value_is_the_real_number_rounded_once) {
  const Frequencies plain = rope(10000), longer = rope(500000), linear = rope(10000, Linear{4});
  Frequencies clockwise = longer;
  clockwise.clockwise = true;
  for (const std::int64_t most : {std::int64_t{100}, std::int64_t{1} << 20, std::int64_t{1} << 52}) {
    const auto p = random_positions(100, 1, most), q = random_positions(100, 2, most);
    expect_right(plain, p, longer, q);
    expect_right(plain, p, linear, q);
    expect_right(longer, p, clockwise, q);
    expect_right(plain, p, longer, q, 1, Rounding::bf16);
    expect_right(plain, std::vector<double>(p.begin(), p.end()), plain, std::vector<double>(q.begin(), q.end()));
  }
}

TEST(Between, angles_that_cancel_are_exact) {
  // 4 p under Linear{4} is p: the angles are equal in the pairs whose frequencies are divided without a rounding.
  Frequencies fast = rope(10000), slow = fast, near = fast;
  for (double& w : slow.inv_freq) w /= 4;
  for (double& w : near.inv_freq) w = std::nextafter(w, 2);
  const std::vector<std::int64_t> p = {0, 1, 5, 1000003, -7}, q = {0, 4, 20, 4000012, -28};
  const Table none = between(fast, p, slow, q);
  EXPECT_TRUE(std::ranges::all_of(none.cos(), [](float c) { return c == 1; }));
  EXPECT_TRUE(std::ranges::all_of(none.sin(), [](float s) { return s == 0 && !std::signbit(s); }));
  expect_right(fast, p, near, p);
  Frequencies tiny = fast, tinier = fast;
  for (double& w : tiny.inv_freq) w = 0x1.8p-250;
  for (double& w : tinier.inv_freq) w = 0x1.8000000000001p-250;
  expect_right(tiny, p, tinier, p);
  expect_right(tiny, std::vector<double>{0x1p-60, 0.25}, tinier, std::vector<double>{0x1p-60, 0.25});
}

// Also by a distance that 64 bits do not hold.
TEST(Between, one_rope_turns_by_the_distance) {
  const Frequencies f = rope(10000);
  constexpr std::int64_t end = std::numeric_limits<std::int64_t>::max();
  expect_right(f, random_positions(100, 3, std::int64_t{1} << 62), f, random_positions(100, 4, std::int64_t{1} << 62));
  expect_right(f, std::vector{-end, end}, f, std::vector{end, -end});
}

TEST(Between, the_attention_factor_is_a_ratio) {
  Frequencies a = rope(10000), b = rope(500000);
  a.attention_factor = b.attention_factor = 1.1386294361119891;
  const std::vector<std::int64_t> p = {3, 1000}, q = {5, 7};
  expect_right(a, p, b, q);
  expect_right(a, p, a, q);
  a.attention_factor = 1;
  expect_right(a, p, b, q, b.attention_factor);
  expect_right(b, p, a, q, 1 / b.attention_factor);
}

TEST(Between, batches_and_axes_are_those_of_both_sides) {
  Frequencies text = rope(10000), image = text;  // alike but for the axes
  for (std::size_t i = 0; i < 16; ++i) image.axis.push_back(i % 2);
  const std::vector<std::int64_t> p = {3, 4, 5}, q = {1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60};  // [2 axes, 2, 3]
  const Table table = between(text, p, image, Positions(q, 2, 2));
  ASSERT_EQ(table.batch(), 2);
  for (std::size_t row = 0; row < 6; ++row) {
    for (std::size_t i = 0; i < 16; ++i) {
      const std::vector<std::int64_t> from{p[row % 3]}, to{q[row], q[6 + row]};
      const judge::Pair got{table.cos()[row * 16 + i], table.sin()[row * 16 + i]};
      EXPECT_TRUE(got == right(text, from, image, to, 0, 0, static_cast<int>(i))) << row << ' ' << i;
    }
  }
  const Table unused = between(text, {{3, 9}, 2}, text, {{10, 8, 7}, 3});  // axes that no pair uses
  EXPECT_TRUE(std::ranges::equal(unused.cos(), between(text, 3, text, 10).cos()));
}

TEST(Between, rows_of_heads_sums_and_phases_are_taken) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> any(-1, 1);
  Frequencies f{.pairing = Pairing::half, .head_rows = 3, .summed_axes = 2};
  for (int i = 0; i < 3 * 2 * 4; ++i) f.inv_freq.push_back(any(random));
  for (int i = 0; i < 3 * 4; ++i) f.phase.push_back(any(random));
  Frequencies g = f;
  g.clockwise = true;
  for (double& w : g.inv_freq) w *= 0.75;
  g.phase.resize(4);
  Frequencies other_phase = f;
  other_phase.phase[5] += 0.5;
  const std::vector<std::int64_t> p{3, 5}, q{17, -2};
  const std::vector<double> r{0.5, -2.25};
  expect_right(f, p, f, q);
  expect_right(f, p, f, r);
  expect_right(f, p, other_phase, q);
  expect_right(f, p, g, q);
  expect_right(f, r, g, q);
  expect_right(g, r, f, p);
}

TEST(Between, keys_of_interleaved_to_half_lie_in_halves) {
  const Frequencies half = rope(10000), longer = rope(26339.5);
  Frequencies to_half = half;
  to_half.pairing = Pairing::interleaved_to_half;
  EXPECT_EQ(between(to_half, 1, longer, 2).pairing(), Pairing::half);
  EXPECT_EQ(between(to_half, 1, to_half, 2).pairing(), Pairing::half);
}

TEST(Between, refusals) {
  const Frequencies f = rope(10000), fewer = frequencies({.head_dim = 16, .pairing = Pairing::half});
  Frequencies other = f, slow = f, none = f, uneven = f;
  other.pairing = Pairing::interleaved, slow.inv_freq[3] = 0x1p-257, none.attention_factor = 0;
  uneven.axis.resize(3);
  const std::vector<std::int64_t> two = {1, 2}, six(6), nine(9);
  const auto refused = [](Code code, const Frequencies& from, const Positions& p, const Frequencies& to,
                          const Positions& q, Angles angles = Angles::exact) {
    EXPECT_EQ(tests::code_of([&] { between(from, p, to, q, angles); }), code);
  };
  refused(Code::PAIRING, f, 1, other, 1);
  refused(Code::SHAPE, f, 1, fewer, 1);
  refused(Code::SHAPE, uneven, 1, f, 1);
  refused(Code::SHAPE, f, two, f, {1, 2, 3});
  refused(Code::SHAPE, f, positions(0, std::int64_t{1} << 40), f, 1);  // before the run is written out
  refused(Code::SHAPE, f, {six, 1, 2}, f, {nine, 1, 3});
  refused(Code::VALUE, f, two, f, two, Angles::float32);
  refused(Code::POSITION, f, std::numeric_limits<double>::infinity(), f, 1);
  refused(Code::POSITION, f, 0x1p-65, f, 1.0);
  refused(Code::SCALING, f, 1, slow, 1);
  refused(Code::SCALING, none, 1, f, 1);
}

}  // namespace
}  // namespace rotary
