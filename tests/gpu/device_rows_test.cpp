// The table's kernel on the emulator against rotary::Table, counting what it could not decide quickly.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "rotary/rotary.h"
#include "table/round_once.h"
#include "table/turns.h"
#include "tests/support/angle_judge.h"

namespace rotary {

using namespace detail;
namespace {

constexpr std::int64_t least32 = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t most32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t least64 = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t most64 = std::numeric_limits<std::int64_t>::max();

std::int64_t made_slowly = 0;
CosSin counted_round_once(const Dyadic& position, double inv_freq, double factor, Rounding type) noexcept {
  ++made_slowly;
  return round_once(position, inv_freq, factor, type);
}

}  // namespace
}  // namespace rotary

// A copy of the kernel that counts.
#define launch_table launch_counted_table
#define round_once counted_round_once
#include "gpu/kernels/table.cu"
#undef round_once
#undef launch_table

namespace rotary {
namespace {

// A host's frequencies as the kernel reads them: on the emulator the device's memory is the host's.
struct Arrays {
  gpu::FrequencyArrays device;
  std::vector<std::uint64_t> limbs;
  std::vector<float> float32;
  explicit Arrays(const Frequencies& f) : limbs(3 * f.inv_freq.size()), float32(f.inv_freq_float32) {
    const std::size_t pairs = f.inv_freq.size();
    for (std::size_t i = 0; i < pairs; ++i) {
      std::uint64_t of_pair[3];
      limbs_of(f.inv_freq[i], of_pair);
      for (std::size_t k = 0; k < 3; ++k) limbs[k * pairs + i] = of_pair[k];
    }
    if (float32.empty()) float32.assign(f.inv_freq.begin(), f.inv_freq.end());
    device.pairs = static_cast<int>(pairs);
    device.clockwise = f.clockwise;
    device.decidable = decidable(f.attention_factor);
    device.attention_factor = f.attention_factor;
    device.factor_float32 = static_cast<float>(f.attention_factor);
    device.limbs = limbs.data();
    device.inv_freq = f.inv_freq.data();
    device.inv_freq_float32 = float32.data();
    device.axis = f.axis.empty() ? nullptr : f.axis.data();
  }
};

struct Rows {
  std::vector<float> cos, sin;
  std::int64_t slow = 0;  // values made in wide arithmetic
};

template <class P>
Rows rows_of(const Frequencies& f, const std::vector<P>& p, const TableOptions& options, int axes = 1) {
  const Arrays arrays(f);
  gpu::TableJob job;
  job.frequencies = arrays.device;
  if constexpr (std::is_same_v<P, std::int64_t>) job.positions.i64 = p.data();
  if constexpr (std::is_same_v<P, std::int32_t>) job.positions.i32 = p.data();
  if constexpr (std::is_same_v<P, double>) job.positions.f64 = p.data();
  job.positions.rows = static_cast<std::int64_t>(p.size()) / axes;
  job.positions.one_axis = axes == 1;
  job.angles = options.angles;
  job.rounding = options.rounding;
  const std::size_t size = p.size() / static_cast<std::size_t>(axes) * f.inv_freq.size();
  Rows rows{std::vector<float>(size, -7.0f), std::vector<float>(size, -7.0f), 0};
  job.cos = rows.cos.data();
  job.sin = rows.sin.data();
  made_slowly = 0;
  gpu::launch_counted_table(job, nullptr);
  rows.slow = made_slowly;
  return rows;
}

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// How many values were made in wide arithmetic.
template <class P>
std::int64_t expect_rows_of_the_host(const Frequencies& f, const std::vector<P>& p, const TableOptions& options = {},
                                     int axes = 1) {
  const Rows rows = rows_of(f, p, options, axes);
  using Host = std::conditional_t<std::is_same_v<P, double>, double, std::int64_t>;
  const std::vector<Host> host(p.begin(), p.end());
  Frequencies paired = f;
  paired.pairing = Pairing::half;
  const Table table(paired, Positions(host, axes), options);
  EXPECT_TRUE(same_bits(rows.cos, table.cos())) << "factor " << f.attention_factor;
  EXPECT_TRUE(same_bits(rows.sin, table.sin())) << "factor " << f.attention_factor;
  return rows.slow;
}

Frequencies geometric(double base, int pairs, double factor = 1) {
  Frequencies f;
  for (int i = 0; i < pairs; ++i) f.inv_freq.push_back(std::pow(base, -static_cast<double>(i) / pairs));
  f.attention_factor = factor;
  return f;
}

std::vector<std::int64_t> rising(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> p;
  for (std::int64_t k = 0; k < count; ++k) p.push_back(first + k);
  return p;
}

std::vector<std::int64_t> of_every_size(std::mt19937_64& random) {
  std::vector<std::int64_t> p = {0, least64, least64 + 1, most64, least32, most32};
  for (int k = 0; k < 63; ++k) {
    const std::int64_t power = std::int64_t{1} << k;
    const std::int64_t between = power + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(power));
    for (const std::int64_t x : {power - 1, power, power + 1, between}) p.insert(p.end(), {x, -x});
  }
  return p;
}

const TableOptions float32 = {Angles::float32, Rounding::f32};

TEST(DeviceRows, OfIntegersAreTheHostsAndNearlyAllQuick) {
  for (const double base : {1e4, 5e5, 1e6}) {
    EXPECT_LE(expect_rows_of_the_host(geometric(base, 64), rising(0, 1024)), 3);
    EXPECT_LE(expect_rows_of_the_host(geometric(base, 64, 1.19023807), rising(130000, 1024)), 3);
  }
  std::mt19937_64 random(4);
  for (const double factor : {1.0, -0.707, 0x1p-60}) {
    for (const bool clockwise : {false, true}) {
      Frequencies f = geometric(1e4, 32, factor);
      f.inv_freq.insert(f.inv_freq.end(), {0, -0.0, -0.3, 1e-9, 1e-13, 7.0, 1e22, 3.1415926535897931});
      f.clockwise = clockwise;
      expect_rows_of_the_host(f, of_every_size(random));
      std::vector<std::int32_t> narrow = {0, 1, -1, static_cast<std::int32_t>(least32)};
      for (int k = 0; k < 200; ++k) narrow.push_back(static_cast<std::int32_t>(random()) >> (random() % 32));
      expect_rows_of_the_host(f, narrow);
      expect_rows_of_the_host(f, narrow, float32);
    }
  }
}

// Where the doubles, unsettled, would round to the wrong float (tests/cpu/angles_test.cpp).
TEST(DeviceRows, ThatDoublesCannotDecideAreMadeSlowly) {
  const std::vector<std::int64_t> p = {12731065, 25230078, 39543253, 40610537, 41266718, 44741561,
                                       45743150, 49704171, 51554166, 62003903, 65298894};
  const std::int64_t slow = expect_rows_of_the_host(geometric(5e5, 64), p);
  EXPECT_GE(slow, 11);
  EXPECT_LE(slow, 14);
}

// Positions next to whole quarter turns, as far as int64 goes: few bits are left of the remainder.
TEST(DeviceRows, NextToTheirZerosAreTheHosts) {
  std::int64_t slow = 0;
  for (const double w : {1.0, -1.0, 0.37, 1e-3, 0.7853981633974483, 1.5707963267948966}) {
    Frequencies f;
    f.inv_freq = {w};
    slow += expect_rows_of_the_host(f, judge::next_to_zeros(w));
  }
  EXPECT_GT(slow, 10);
}

TEST(DeviceRows, OfPairsThatStandStillAreQuick) {
  Frequencies f;
  f.inv_freq = {0, -0.0, 0};
  EXPECT_EQ(expect_rows_of_the_host(f, std::vector<std::int64_t>{0, 1, -1, least64, most64}), 0);
  EXPECT_EQ(expect_rows_of_the_host(geometric(1e4, 64), std::vector<std::int64_t>(100, 0)), 0);
}

TEST(DeviceRows, OfAnyFiniteFrequencyFactorAndFractionAreTheHosts) {
  const std::vector<std::int64_t> p = {0, 1, -1, 2, 1000, -12345678901234, least64, most64};
  const std::vector<double> reals = {0.0, -0.0, 0.5, -1.0 / 3, 5e-324, -1e-200, 0x1p65, 1e290, -1.7976931348623157e308};
  for (const double factor :
       {1.0, 1 + 0x1p-24, 1e-40, 0x1p-150, 5e-324, 0.0, -0.0, 1e30, 3.4028235677973366e38, -1e300}) {
    Frequencies f;
    f.inv_freq = {0,    -0.0, 5e-324, -1e-310, 1e-200, -1e-60, 1e-31,  1e-20,
                  1e-7, 0.3,  -1,     6.2832,  -100.5, 1e22,   -1e200, 1e308};
    f.attention_factor = factor;
    for (const Rounding rounding : {Rounding::f32, Rounding::f16, Rounding::bf16}) {
      expect_rows_of_the_host(f, p, {Angles::exact, rounding});
      expect_rows_of_the_host(f, reals, {Angles::exact, rounding});
    }
  }
}

TEST(DeviceRows, RoundedToF16AndBf16AreTheHosts) {
  std::mt19937_64 random(5);
  std::vector<std::int64_t> p = {0, least64};
  for (int k = 0; k < 300; ++k) p.push_back(static_cast<std::int64_t>(random() % (1 << 20)));
  for (const Rounding rounding : {Rounding::f16, Rounding::bf16}) {
    for (const double factor : {1.0, 1e-3, 6e-8, 0x1p-25, 1 + 0x1p-9, 1 + 0x1p-12, 65519.0, 65520.0, 1e30}) {
      Frequencies f = geometric(1e9, 24, factor);
      f.inv_freq.push_back(0);
      f.clockwise = factor > 1;
      const std::int64_t slow = expect_rows_of_the_host(f, p, {Angles::exact, rounding});
      EXPECT_TRUE(factor != 1.0 || slow <= 30) << slow;
      if (factor < 1e38) expect_rows_of_the_host(f, p, {Angles::float32, rounding});
    }
  }
}

TEST(DeviceRows, OfFloat32AreTheHostsFormula) {
  std::mt19937_64 random(6);
  for (const double factor : {1.0, 1.19023807, -0.5}) {
    Frequencies f = geometric(5e5, 32, factor);
    f.inv_freq.insert(f.inv_freq.end(), {0, -0.0, -0.3, 1e-30, 1e-44, 100, 1e15});
    std::vector<std::int64_t> p = rising(-20, 300);
    EXPECT_LE(expect_rows_of_the_host(f, p, float32), 1000);  // angles above 2^24
    for (int k = 0; k < 200; ++k) p.push_back(static_cast<std::int64_t>(random()) >> (random() % 64));
    p.insert(p.end(), {least64, most64, 16777217, -16777217});
    expect_rows_of_the_host(f, p, float32);
    expect_rows_of_the_host(f, std::vector<double>{0.0, -0.0, 0.1, -7.3, 1e-40, 1e-300, 1e20}, float32);
  }
  Frequencies given = geometric(5e5, 4);
  given.inv_freq_float32 = {1.0f, 0.037605f, 0.00141421f, 5.3183e-05f};
  expect_rows_of_the_host(given, std::vector<std::int64_t>{0, 1, 1000, -50000}, float32);
}

TEST(DeviceRows, OfSeveralAxesAreTheHosts) {
  std::mt19937_64 random(7);
  std::vector<std::int64_t> p;
  for (int k = 0; k < 3 * 50; ++k) p.push_back(static_cast<std::int64_t>(random() % 5000) - 100);
  Frequencies f = geometric(1e4, 37);
  for (int i = 0; i < 37; ++i) f.axis.push_back(static_cast<std::uint8_t>(i % 3));
  const std::vector<double> reals(p.begin(), p.end());
  expect_rows_of_the_host(f, p, {}, 3);
  expect_rows_of_the_host(f, reals, {}, 3);
  expect_rows_of_the_host(f, p, float32, 3);
  expect_rows_of_the_host(f, p);  // one axis for all
}

TEST(DeviceRows, OfAnyNumberOfPairsAreTheHosts) {
  for (const int pairs : {1, 2, 3, 5, 31, 33, 64, 127, 128, 129, 255, 256, 257, 300, 512, 700})
    expect_rows_of_the_host(geometric(1e4, pairs), rising(1, 9));
  expect_rows_of_the_host(geometric(1e4, 3), rising(-5, 1000));
  expect_rows_of_the_host(geometric(1e4, 200), rising(1, 2500));  // more rows than blocks
  expect_rows_of_the_host(geometric(1e4, 300), rising(1, 1200));
  EXPECT_EQ(rows_of(geometric(1e4, 4), std::vector<std::int64_t>(), {}).slow, 0);
}

TEST(DeviceRows, OfWhatIsNotFiniteAreNan) {
  const double infinity = std::numeric_limits<double>::infinity();
  Frequencies f = geometric(1e4, 4);
  f.axis = {0, 1, 0, 1};
  const std::vector<double> p = {1, std::nan(""), 3, infinity,
                                 5, -infinity};  // axis 0: 1, nan, 3; axis 1: inf, 5, -inf
  for (const Rounding rounding : {Rounding::f32, Rounding::f16, Rounding::bf16}) {
    for (const Angles angles : {Angles::exact, Angles::float32}) {
      const Rows rows = rows_of(f, p, {angles, rounding}, 2);
      for (std::size_t i = 0; i < 12; ++i) {
        const std::size_t row = i / 4, axis = i % 2;
        EXPECT_EQ(std::isnan(rows.cos[i]), !std::isfinite(p[axis * 3 + row])) << i;
        EXPECT_EQ(std::isnan(rows.sin[i]), !std::isfinite(p[axis * 3 + row])) << i;
      }
    }
  }
  f = geometric(1e4, 2);
  f.inv_freq[1] = 1e38;
  for (const Rounding rounding : {Rounding::f32, Rounding::f16, Rounding::bf16}) {
    const Rows rows = rows_of(f, std::vector<std::int64_t>{2, 100}, {Angles::float32, rounding});
    EXPECT_TRUE(!std::isnan(rows.cos[1]) && !std::isnan(rows.cos[2]));
    EXPECT_TRUE(std::isnan(rows.cos[3]) && std::isnan(rows.sin[3]));
  }
}

}  // namespace
}  // namespace rotary
