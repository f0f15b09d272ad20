// Angles: every target against scalar, and runs against their rows, without MPFR, so that emulated machines run it too.
// angles_test.cpp judges the values.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <span>

#include "core/tests/support/tables.h"
#include "rotary/rotary.h"
#include "rotary/targets.h"

namespace rotary {
namespace {

using namespace tests;

// The library's own, whose bits every machine has; std::pow's differ.
Frequencies exactly_geometric(double base, int rotary_dim, double factor = 1) {
  Frequencies f = frequencies(Rope{.head_dim = rotary_dim, .base = base, .pairing = Pairing::half});
  f.inv_freq_float32.clear();
  f.attention_factor = factor;
  return f;
}

// FNV-1a over the bits of every value, the lowest byte first.
void add(std::span<const float> values, std::uint64_t& hash) {
  for (const float value : values) {
    const auto bits = __builtin_bit_cast(std::uint32_t, value);
    for (int k = 0; k < 32; k += 8) hash = (hash ^ (bits >> k & 0xffu)) * 0x100000001b3u;
  }
}

// Every target against scalar, whose values are added to the hash.
template <class P>
void expect_equal_targets(const Frequencies& f, const std::vector<P>& p, const TableOptions& options,
                          std::uint64_t& hash) {
  use_target("scalar");
  const Table wanted = table_of(f, p, options);
  add(wanted.cos(), hash);
  add(wanted.sin(), hash);
  on_every_target([&] {
    const Table table = table_of(f, p, options);
    EXPECT_TRUE(same_bits(table.cos(), wanted.cos()) && same_bits(table.sin(), wanted.sin())) << chosen_target();
  });
}

TEST(AngleTargets, EqualScalarWhichIsTheSameOnEveryMachine) {
  std::mt19937_64 random(1);
  const std::vector<std::int64_t> whole = positions_of_every_size(random);
  std::vector<double> real = hard_reals();
  for (int k = 0; k < 300; ++k)
    real.push_back(std::ldexp(static_cast<double>(random()), static_cast<int>(k % 128) - 96));
  std::vector<double> small;
  for (int k = 0; k < 300; ++k) small.push_back(std::ldexp(static_cast<double>(random() % 2048), -(k % 11)) - 1);
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const double factor : {1.0, 1.19023807, -0.5, 1 + 0x1p-24, 1e-40, 0.0, 1e30}) {
    for (const int pairs : {1, 3, 4, 61, 64}) {
      Frequencies f = exactly_geometric(5e5, 2 * pairs, factor);
      if (pairs == 61) f.inv_freq.insert(f.inv_freq.end(), {0, -0.0, -0.3, 1e-20, 5e-324, 1e-300, 7.0, 1e22, 1e308});
      for (const Rounding rounding : {Rounding::f32, Rounding::f16, Rounding::bf16}) {
        expect_equal_targets(f, whole, {Angles::exact, rounding}, hash);
        expect_equal_targets(f, real, {Angles::exact, rounding}, hash);
        expect_equal_targets(f, undecided_positions(), {Angles::exact, rounding}, hash);
      }
      if (pairs == 61) f = exactly_geometric(5e5, 2 * pairs, factor);
      if (factor < 1e30) expect_equal_targets(f, whole, {Angles::float32}, hash);
      if (factor < 1e30) expect_equal_targets(f, small, {Angles::float32}, hash);
    }
  }
  EXPECT_EQ(hash, 0xfb1afa5d680c53f6u);
}

// Rows of a run come by adding angles, a row by itself does not.
void expect_run_of_lone_rows(const Frequencies& f, const std::vector<std::int64_t>& p) {
  const std::size_t pairs = f.inv_freq.size();
  on_every_target([&] {
    const Table run = table_of(f, p);
    for (std::size_t t = 0; t < p.size(); ++t) {
      const Table row = table_of(f, std::vector<std::int64_t>{p[t]});
      ASSERT_TRUE(same_bits(run.cos().subspan(t * pairs, pairs), row.cos()) &&
                  same_bits(run.sin().subspan(t * pairs, pairs), row.sin()))
          << chosen_target() << " position " << p[t] << " factor " << f.attention_factor;
    }
  });
}

TEST(AngleTargets, OfARunAreThoseOfItsRowsAlone) {
  for (const double factor : {1.0, 1.19023807, -0.5, 1 + 0x1p-24, 0x1p-60}) {
    Frequencies f = exactly_geometric(5e5, 128, factor);
    f.inv_freq.insert(f.inv_freq.end(), {0, -0.0, -0.3, 1e-9, 1e-13, 1e-20, 1e-60, 1e-300, 7.0, 1e22,
                                         3.1415926535897931, 1.5707963267948966});
    for (const std::int64_t first : {std::int64_t{0}, std::int64_t{1}, std::int64_t{-20}, std::int64_t{131000},
                                     (std::int64_t{1} << 32) - 20, -(std::int64_t{1} << 32) - 20, lowest, largest - 99})
      expect_run_of_lone_rows(f, rising(first, 100));
  }
}

TEST(AngleTargets, OfRunsOfEveryLengthAreThoseOfTheirRowsAlone) {
  const Frequencies f = exactly_geometric(1e4, 26, 1.19023807);
  for (int count = 1; count < 90; ++count) expect_run_of_lone_rows(f, rising(1000 * count, count));
  expect_run_of_lone_rows(f, rising(500, 1100));
  std::vector<std::int64_t> p = rising(largest - 40, 41);  // runs that end and begin anew, at the end of int64 too
  for (const int count : {17, 3, 40, 1, 16}) {
    const std::vector<std::int64_t> more = rising(lowest + count, count);
    p.insert(p.end(), more.begin(), more.end());
  }
  p.insert(p.end(), {7, 6, 5, 5, 6});
  expect_run_of_lone_rows(f, p);
}

}  // namespace
}  // namespace rotary
