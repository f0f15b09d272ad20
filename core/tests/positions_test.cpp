// Positions: every way to give the same positions gives the same table, bit for bit; what is a view, what is refused.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "core/tests/support/checks.h"

namespace rotary::tests {
namespace {

Frequencies some(int axes = 1) {
  Frequencies f = frequencies(Rope{.head_dim = 48, .base = 500000, .pairing = Pairing::half});
  for (int i = 0; axes > 1 && i < 24; ++i) f.axis.push_back(static_cast<std::uint8_t>(i % axes));
  return f;
}

// Kinds of the same numbers give the same table.
void expect_same_tables(const Frequencies& f, const Positions& wanted, Angles angles,
                        std::initializer_list<Positions> others) {
  const Table expected(f, wanted, angles);
  EXPECT_EQ(expected.tokens(), wanted.tokens());
  int number = 0;
  for (const Positions& p : others) expect_same_table(Table(f, p, angles), expected, std::to_string(number++));
}

TEST(PositionKinds, OfTheSameNumbersGiveTheSameTable) {
  const std::vector<std::int64_t> wide = {-7, -6, -5, -4, -3, -2};
  const std::vector<std::int32_t> narrow(wide.begin(), wide.end());
  const std::vector<double> real(wide.begin(), wide.end());
  const std::array<std::int32_t, 6> array{-7, -6, -5, -4, -3, -2};
  for (const Angles angles : {Angles::exact, Angles::float32}) {
    for (const int axes : {1, 3}) {
      for (const int batch : {1, 2}) {
        const Positions wanted(wide, axes, batch);
        EXPECT_EQ(wanted.tokens(), 6 / axes / batch);
        expect_same_tables(some(axes), wanted, angles,
                           {{narrow, axes, batch},
                            {real, axes, batch},
                            {array, axes, batch},
                            {std::span(narrow), axes, batch},
                            {std::vector(wide), axes, batch},
                            {std::vector(narrow), axes, batch},
                            {std::vector(real), axes, batch},
                            {{-7, -6, -5, -4, -3, -2}, axes, batch},
                            {{-7.0, -6.0, -5.0, -4.0, -3.0, -2.0}, axes, batch}});
      }
    }
    expect_same_tables(some(), wide, angles, {positions(-7, 6), {-7, -6, -5, -4, -3, -2}});
  }
}

TEST(PositionKinds, OneNumberIsOneToken) {
  const Frequencies f = some();
  for (const std::int64_t p :
       {std::int64_t{0}, std::int64_t{5}, std::int64_t{-12345}, std::int64_t{1} << 40, lowest, largest})
    expect_same_tables(f, std::vector{p}, Angles::exact, {p, {p}, positions(p, 1)});
  expect_same_tables(f, std::vector<std::int64_t>{5}, Angles::exact, {5, 5u, 5ull, std::int16_t{5}, 5.0, 5.0f});
  const Positions fraction = Positions(2.25), copy = fraction;  // holds its value itself, wherever it is
  EXPECT_EQ(fraction.tokens(), 1);
  expect_same_tables(f, std::vector{2.25}, Angles::exact, {copy, {2.25}});
}

TEST(PositionKinds, ReachBothEndsOfInt64AndNotBeyond) {
  const Frequencies f = some();
  expect_same_table(Table(f, positions(largest - 2, 3)), Table(f, {largest - 2, largest - 1, largest}),
                    "the last three");
  expect_same_table(Table(f, positions(lowest, 3)), Table(f, {lowest, lowest + 1, lowest + 2}), "the first three");
  EXPECT_EQ(positions(largest, 0).tokens(), 0);
  EXPECT_EQ(Table(f, positions(3, 0)).tokens(), 0);
  EXPECT_EQ(code_of([] { positions(largest, 2); }), Code::POSITION);
  EXPECT_EQ(code_of([] { positions(largest - 2, 4); }), Code::POSITION);
  EXPECT_EQ(positions(1, largest).tokens(), largest);
  const std::uint64_t over = std::uint64_t{1} << 63;
  EXPECT_EQ(code_of([&] { Positions{over}; }), Code::POSITION);
  EXPECT_EQ(code_of([&] { Positions({over - 1, over}); }), Code::POSITION);
  EXPECT_NO_THROW(Positions{over - 1});
}

TEST(PositionKinds, AreViewsOfLvaluesAndOwnersOfTheRest) {
  const Frequencies f = some();
  std::vector<std::int64_t> p = {1, 2};
  const Positions view(p), span{std::span<const std::int64_t>(p)}, own(std::vector<std::int64_t>{1, 2});
  const Table before(f, p);
  p = {8, 9};
  expect_same_table(Table(f, view), Table(f, {8, 9}), "a view of the vector");
  expect_same_table(Table(f, span), Table(f, {8, 9}), "a view of the span");
  expect_same_table(Table(f, own), before, "a copy");
  const auto returned = [] { return Positions(std::vector<std::int32_t>{1, 2}); }();
  const Positions copied = returned;
  expect_same_table(Table(f, copied), before, "copies share what is held");
}

TEST(PositionKinds, FitTheirAxesAndBatch) {
  const std::vector<std::int32_t> twelve(12);
  const Positions p(twelve, 3, 2);
  EXPECT_EQ(p.axes(), 3);
  EXPECT_EQ(p.batch(), 2);
  EXPECT_EQ(p.tokens(), 2);
  expect_error_with("SHAPE", "multiple of axes * batch = 5 but got 12", [&] { Positions(twelve, 5); });
  expect_error_with("SHAPE", "axes", [&] { Positions(twelve, 0); });
  expect_error_with("SHAPE", "batch", [&] { Positions(twelve, 1, -1); });
  expect_error_with("SHAPE", "2 but got 3", [] { Positions({1, 2, 3}, 2); });
  EXPECT_EQ(code_of([] { positions(0, -1); }), Code::SHAPE);
  const auto largest_int = std::numeric_limits<int>::max();
  EXPECT_EQ(code_of([&] { Positions(twelve, largest_int, largest_int); }), Code::SHAPE);
}

TEST(PositionKinds, AreOfTypesThatHoldPositions) {
  static_assert(std::is_convertible_v<std::vector<std::int32_t>&, Positions>);
  static_assert(!std::is_constructible_v<Positions, bool>);
  static_assert(!std::is_constructible_v<Positions, std::vector<bool>&>);
  static_assert(!std::is_constructible_v<Positions, std::vector<float>&>);
  static_assert(!std::is_constructible_v<Positions, std::vector<std::uint64_t>&>);
  static_assert(!std::is_constructible_v<Positions, std::deque<std::int64_t>&>);
  static_assert(!std::is_constructible_v<Positions, const char*>);
  static_assert(!std::is_default_constructible_v<Positions>);
}

}  // namespace
}  // namespace rotary::tests
