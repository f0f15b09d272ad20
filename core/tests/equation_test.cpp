// Angles that are sums, phases, amplitudes and rows per head: every value against MPFR, every call against the
// reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "core/tests/support/angle_judge.h"
#include "core/tests/support/checks.h"
#include "core/tests/support/heads.h"
#include "core/tests/support/tables.h"
#include "rotary/cache.h"
#include "rotary/reference.h"
#include "rotary/rotary.h"
#include "rotary/targets.h"

namespace rotary {
namespace {

using judge::Real;

// xpos's amplitude times the attention factor, rounded to double.
template <class P>
double factor_of(const Frequencies& f, P position, int pair) {
  if (f.xpos.scale == 0) return f.attention_factor;
  const int n = f.pairs();
  const Real zeta = Real(10 * pair + 4 * n) / (14 * n);  // (2 i + 0.4 r) / (1.4 r), r = 2 n
  const double scale = f.xpos.reciprocal ? -f.xpos.scale : f.xpos.scale;
  return (pow(zeta, (judge::real(position) - f.xpos.center) / scale) * f.attention_factor).to_double();
}

template <class P>
judge::Pair right(const Frequencies& f, const std::vector<P>& p, std::size_t t, int h, int i, Rounding rounding) {
  const Real x = judge::angle(f, p, t, h, i);
  judge::Pair result = judge::cos_sin(x, factor_of(f, p[t], i), rounding);
  if (f.clockwise && x == 0) result.sin = -0.0f;
  return result;
}

// On every target.
template <class P>
void expect_right(const Frequencies& f, const std::vector<P>& p, Rounding rounding = Rounding::f32) {
  const int axes = f.axes(), n = f.pairs();
  const std::size_t tokens = p.size() / static_cast<std::size_t>(axes);
  std::vector<judge::Pair> wanted;
  for (std::size_t t = 0; t < tokens; ++t) {
    for (int h = 0; h < f.head_rows; ++h) {
      for (int i = 0; i < n; ++i) wanted.push_back(right(f, p, t, h, i, rounding));
    }
  }
  tests::on_every_target([&] {
    const Table table(f, Positions(p, axes), {Angles::exact, rounding});
    ASSERT_EQ(table.head_rows(), f.head_rows);
    ASSERT_EQ(table.cos().size(), wanted.size());
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      const judge::Pair got{table.cos()[k], table.sin()[k]};
      ASSERT_TRUE(got == wanted[k]) << chosen_target() << " value " << k << ": " << got.cos << ' ' << got.sin << " but "
                                    << wanted[k].cos << ' ' << wanted[k].sin;
    }
  });
}

std::vector<double> normal(std::size_t count, unsigned seed, double width = 1) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> draw(0, width);
  std::vector<double> values(count);
  for (double& x : values) x = draw(random);
  return values;
}

Frequencies summed(int heads, int axes, int pairs) {
  Frequencies f{.inv_freq = normal(static_cast<std::size_t>(heads * axes * pairs), 7), .pairing = Pairing::half};
  f.head_rows = heads;
  f.summed_axes = axes;
  return f;
}

std::vector<std::int64_t> integers(std::size_t count, std::int64_t most) {
  std::mt19937_64 random(3);
  std::vector<std::int64_t> p(count);
  for (std::int64_t& x : p) x = static_cast<std::int64_t>(random() % (2 * static_cast<std::uint64_t>(most))) - most;
  return p;
}

TEST(Equation, sums_over_axes_are_rounded_once) {
  for (const int axes : {1, 2, 3}) {
    Frequencies f = summed(2, axes, 9);
    for (const std::int64_t most : {std::int64_t{30}, std::int64_t{1} << 31, std::int64_t{1} << 62})
      expect_right(f, integers(static_cast<std::size_t>(20 * axes), most));
    expect_right(f, normal(static_cast<std::size_t>(20 * axes), 5, 100));
    expect_right(f, normal(static_cast<std::size_t>(6 * axes), 5, 1e30));
    expect_right(f, integers(static_cast<std::size_t>(20 * axes), 1000), Rounding::bf16);
    f.clockwise = true;
    f.attention_factor = 1.3;
    expect_right(f, std::vector<std::int64_t>(static_cast<std::size_t>(2 * axes), 0));
    expect_right(f, integers(static_cast<std::size_t>(20 * axes), 1000), Rounding::f16);
  }
}

TEST(Equation, what_cancels_and_what_almost_does) {
  Frequencies f{.inv_freq = {1, 0.1, 0x1p-250, 0.3, -1, -0.1, -0x1.0000000000001p-250, -0.3}, .pairing = Pairing::half};
  f.summed_axes = 2;
  expect_right(f, std::vector<std::int64_t>{7, -9, 1000003, 0, 7, -9, 1000003, 0});
  expect_right(f, std::vector<double>{0.5, 0x1p-60, 3, 0.5, 0x1.0000001p-60, 3});
  f.phase = {-7, 0x1p-200, 0, 0.3};
  expect_right(f, std::vector<std::int64_t>{7, 14, 0, 7, 0, 0, 1, 6});
  Frequencies still{.inv_freq = {0, 0}, .pairing = Pairing::half};
  still.phase = {0x1.23456789p-90, 0};  // the first pair alone has one: one doubt settles a whole vector
  expect_right(still, std::vector<std::int64_t>{5});
  Frequencies first{.inv_freq = {0x1.921fb54442d18p+0, 0}, .pairing = Pairing::half};  // pi/2; axis 1 turns nothing
  first.summed_axes = 2;
  expect_right(first, std::vector<std::int64_t>{1, 2, 3, 4, 7, 7, 7, 7});
}

TEST(Equation, a_phase_is_added_to_any_rope) {
  Frequencies f = frequencies({.head_dim = 20, .pairing = Pairing::half});
  f.phase = normal(10, 1, 3);
  expect_right(f, integers(40, 100000));
  f.axis = {0, 1, 0, 1, 2, 2, 0, 1, 2, 0};
  expect_right(f, integers(60, 1000));
  f.head_rows = 2;
  for (int i = 0; i < 10; ++i) f.inv_freq.push_back(f.inv_freq[static_cast<std::size_t>(i)] / 3);
  f.inv_freq_float32.clear();
  expect_right(f, integers(60, 1000));
  f.phase = normal(20, 2, 3);
  expect_right(f, normal(60, 8, 50));
  f.phase.clear();
  expect_right(f, integers(60, 1000));  // rows per head alone
}

TEST(Equation, xpos_multiplies_by_its_amplitude) {
  Frequencies f = frequencies({.head_dim = 32, .pairing = Pairing::interleaved});
  f.xpos = {512, 0, false};
  expect_right(f, integers(40, 20000));
  f.xpos.scale = 0.75;
  expect_right(f, integers(40, 20));
  f.xpos = {100.5, 333.25, true};
  f.attention_factor = 1.2;
  expect_right(f, normal(40, 4, 3000));
  f.head_rows = 2;
  const std::vector<double> once = f.inv_freq;
  f.inv_freq.insert(f.inv_freq.end(), once.begin(), once.end());
  f.inv_freq_float32.clear();
  f.clockwise = true;
  expect_right(f, integers(20, 2000), Rounding::bf16);
}

// ---- rows per head ----

struct Tensors {
  std::int64_t tokens, heads;
  std::vector<float> data = tests::counted(tokens * heads * 24);
  Heads view(std::int64_t first, std::int64_t count) {  // some of the heads
    Heads some = rotary::heads(data, thd(tokens, heads, 24));
    some.data = data.data() + first * 24, some.layout.heads = count;
    return some;
  }
  Heads view() { return view(0, heads); }
};

Table per_head(int rows, std::int64_t tokens) {
  return Table(summed(rows, 2, 8), Positions(integers(static_cast<std::size_t>(2 * tokens), 500), 2));
}

TEST(Equation, a_packed_tensor_and_rows_of_the_callers_turn_by_rows_per_head_too) {
  const Table table = per_head(2, 5);
  Tensors qkv{5, 8}, out = qkv, wanted = qkv;  // 4 of q, 2 of k, 2 of v
  rotate_qk({qkv.view(0, 4), out.view(0, 4)}, {qkv.view(4, 2), out.view(4, 2)}, table, {.first = 8});
  rotate(slice(wanted.view(0, 4), 8, 16), table);
  rotate(slice(wanted.view(4, 2), 8, 16), table);
  EXPECT_EQ(out.data, wanted.data);

  Tensors both{5, 6}, each = both;  // 4 of q, 2 of k
  rotate_qk(both.view(0, 4), both.view(4, 2), table);
  rotate(each.view(0, 4), table);
  rotate(each.view(4, 2), table);
  EXPECT_EQ(both.data, each.data);
  tests::expect_error_with("SHAPE", "a multiple of the 2 heads",  // each, not both together
                           [&] { rotate_qk(both.view(0, 3), both.view(3, 1), table); });

  Rows rows{table.cos().data(), table.sin().data(), DType::f32, 8, Pairing::half, 16, 5, Positions({4, 0, 2}), 2};
  const Table by_number(rows);
  ASSERT_EQ(by_number.head_rows(), 2);
  EXPECT_EQ(by_number.cos()[16], table.cos()[0]);
  std::vector<float> cos(100), sin(100);
  write_rows(summed(2, 2, 8), Positions(integers(10, 500), 2), cos.data(), sin.data(), DType::f32, 20);
  for (std::size_t i = 0; i < 80; ++i) EXPECT_EQ(cos[i / 16 * 20 + i % 16], table.cos()[i]) << i;
  Tensors x{3, 4}, y = x;
  rotate(x.view(), rows);
  rotate(y.view(), by_number);
  EXPECT_EQ(x.data, y.data);
}

TEST(Equation, refusals) {
  const Frequencies f = summed(4, 2, 8);
  const auto sentence = [](Code code, const std::string& part, const auto& call) {
    tests::expect_error_with(name(code), part, call);
  };
  Frequencies g = frequencies({.head_dim = 16, .pairing = Pairing::half});
  g.xpos = {512, 0, true};
  Frequencies fewer = f;
  fewer.head_rows = 2;
  fewer.inv_freq.resize(f.inv_freq.size() / 2);
  sentence(Code::SHAPE, "the same head_rows but have 4 and 2", [&] {
    between(f, Positions({1, 2}, 2), fewer, Positions({1, 2}, 2));
  });
  Frequencies h = g;
  h.xpos.center = 1;
  sentence(Code::SHAPE, "with xpos from and to must be one rope", [&] { between(g, 1, h, 2); });
  h = g, h.clockwise = true;
  sentence(Code::SHAPE, "with xpos from and to must be one rope", [&] { between(g, 1, h, 2); });
  sentence(Code::POSITION, "whose distances are exact", [&] { between(g, 0.1, g, 1e20); });

  const Table table = per_head(4, 5);
  Tensors q{5, 8}, k{5, 2};
  sentence(Code::SHAPE, "k must have a multiple of the 4 heads", [&] { rotate_qk(q.view(), k.view(), table); });
  Heads apart = q.view(0, 4);
  apart.layout.head_stride = 48;
  sentence(Code::ALIAS, "x and out must not overlap", [&] { rotate(q.view(0, 4), apart, table); });
}

TEST(Equation, between_multiplies_keys_by_the_quotient_of_xpos) {
  Rope rope{.head_dim = 8, .pairing = Pairing::half};
  rope.xpos = {64, 3, true};
  const Frequencies f = frequencies(rope);
  for (const double by : {-7.0, 0.25}) {
    const Table table = by < 0 ? between(f, 10, f, 3) : between(f, 10.0, f, 10.25);
    for (std::size_t i = 0; i < 4; ++i) {
      const long double zeta = (2.0L * static_cast<long double>(i) + 0.4L * 8) / (1.4L * 8);
      const long double factor = std::pow(zeta, -static_cast<long double>(by) / 64), x = f.inv_freq[i] * by;
      EXPECT_EQ(table.cos()[i], static_cast<float>(static_cast<double>(factor) * std::cos(x))) << i;
      EXPECT_EQ(table.sin()[i], static_cast<float>(static_cast<double>(factor) * std::sin(x))) << i;
    }
  }
}

TEST(Equation, keys_take_the_inverse_of_xpos_and_one_table_is_not_for_both) {
  Rope rope{.head_dim = 24, .pairing = Pairing::half};
  rope.xpos = {64, 3, false};
  Frequencies f = frequencies(rope);
  const Table of_q(f, positions(0, 5));
  f.xpos.reciprocal = true;
  const Table of_k(f, positions(0, 5));
  Tensors q{5, 2}, k{5, 2}, wanted_q = q, wanted_k = k;
  rotate(wanted_q.view(), of_q);
  rotate(wanted_k.view(), of_k);
  const auto refused = [&](const Table& table) {
    EXPECT_TRUE(table.xpos());
    tests::expect_error_with("SCALING", "have no xPos, whose inverse keys take",
                             [&] { rotate_qk(q.view(), k.view(), table); });
  };
  refused(of_q);
  refused(Table(of_k));
  Table moved = Table(of_k);
  refused(moved);
  const Rows of_queries = of_q.rows(positions(0, 5));
  refused(Table(of_queries));
  tests::expect_error_with("SCALING", "have no xPos", [&] { rotate_qk(q.view(), k.view(), of_queries); });
  Tensors alone = q;
  rotate(alone.view(), of_queries);
  EXPECT_EQ(alone.data, wanted_q.data);
  moved.assign(frequencies({.head_dim = 24, .pairing = Pairing::half}), positions(0, 5));
  EXPECT_FALSE(moved.xpos());
  refused(Table(of_q.cos(), of_q.sin(), of_q.pairs(), of_q.pairing(), 1, 1, /*xpos=*/true));
  EXPECT_FALSE(Table(of_q.cos(), of_q.sin(), of_q.pairs(), of_q.pairing()).xpos());
  rotate_qk(q.view(), k.view(), rope, 0);
  EXPECT_EQ(q.data, wanted_q.data);
  EXPECT_EQ(k.data, wanted_k.data);
}

TEST(Equation, a_rope_carries_it_to_its_frequencies) {
  Rope rope{.head_dim = 8, .pairing = Pairing::half, .inv_freq = normal(16, 1), .head_rows = 2, .summed_axes = 2};
  rope.phase = {1, 2, 3, 4};
  const Frequencies f = frequencies(rope);
  EXPECT_EQ(f.inv_freq, rope.inv_freq);
  EXPECT_EQ(f.head_rows, 2);
  EXPECT_EQ(f.axes(), 2);
  EXPECT_EQ(f.pairs(), 4);
  EXPECT_EQ(f.phase, rope.phase);
  rope.multiplier = {0, 1, 1, 2};
  const Frequencies scaled = frequencies(rope);
  EXPECT_EQ(scaled.inv_freq[4], 0);
  EXPECT_EQ(scaled.inv_freq[15], 2 * rope.inv_freq[15]);
  rope.inv_freq.pop_back();
  EXPECT_EQ(tests::code_of([&] { frequencies(rope); }), Code::SHAPE);
  const auto refused = [](Code code, auto member, auto value) {
    Rope wrong{.head_dim = 8, .pairing = Pairing::half};
    wrong.*member = value;
    EXPECT_EQ(tests::code_of([&] { frequencies(wrong); }), code);
  };
  refused(Code::SHAPE, &Rope::head_rows, 0);
  refused(Code::SHAPE, &Rope::summed_axes, -1);
  refused(Code::SHAPE, &Rope::phase, std::vector<double>{1});
  refused(Code::SCALING, &Rope::xpos, XPos{-1});
  refused(Code::SCALING, &Rope::attention_factor, -1.0);
}

TEST(Equation, head_rows_without_their_frequencies_are_answered_by_what_to_do) {
  const char* const advice = "not the model's heads: leave it 1 unless inv_freq has a row for each head";
  for (const int heads : {32, 28}) {  // 64 pairs are rows of 2, and no rows of 28
    const Rope rope{.head_dim = 128, .pairing = Pairing::half, .head_rows = heads};
    tests::expect_error_with("SHAPE", advice, [&] { frequencies(rope); });
  }
  const Rope short_one{.head_dim = 8, .pairing = Pairing::half, .inv_freq = {1, 2}, .summed_axes = 1};
  tests::expect_error_with("SHAPE", "inv_freq must have 4 pairs for each head but got 2",
                           [&] { frequencies(short_one); });
}

}  // namespace
}  // namespace rotary
