// rotary/device.cuh against MPFR; and the table's kernel on the emulator against rotary::Table, counting what it
// could not decide quickly.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "angle_judge.h"
#include "rotary/device.cuh"
#include "rotary/reference.h"
#include "rotary/rotary.h"
#include "src/round_once.h"
#include "src/turns.h"

namespace rotary {
namespace {

constexpr std::int64_t least32 = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t most32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t least64 = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t most64 = std::numeric_limits<std::int64_t>::max();

// ---- one angle -----------------------------------------------------------------------------------

constexpr double bound = 6.9e-8, turns_bound = 4e-10;  // what device.cuh says

struct RealCosSin {
  double cos, sin;
};
RealCosSin real_of(std::int64_t position, double inv_freq) {
  judge::Real x(128), c(80), s(80);
  mpfr_set_si(x, position, MPFR_RNDN);
  mpfr_mul_d(x, x, inv_freq, MPFR_RNDN);
  mpfr_sin_cos(s, c, x, MPFR_RNDN);
  return {mpfr_get_d(c, MPFR_RNDN), mpfr_get_d(s, MPFR_RNDN)};
}

TEST(DeviceAngle, IsWithinItsBoundAtAnyInt32Position) {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> exponent(-30, 4);
  for (int k = 0; k < 4000; ++k) {
    const double w = (k % 2 == 0 ? 1 : -1) * (k < 64 ? std::pow(5e5, -k / 64.0) : std::exp2(exponent(random)));
    const std::uint64_t turns = device::turns_of(w);
    std::vector<std::int64_t> positions = {0, 1, -1, most32, least32, static_cast<std::int32_t>(random())};
    for (int n = 1; n < 40; ++n) {  // next to the eighths of a turn
      const double p = std::nearbyint(n * 0.7853981633974483 / std::fabs(w));
      if (p <= static_cast<double>(most32)) positions.push_back(static_cast<std::int64_t>(p));
    }
    for (const std::int64_t p : positions) {
      const RealCosSin right = real_of(p, w);
      const device::CosSin got = device::cos_sin(p, turns);
      ASSERT_LE(std::fabs(double{got.cos} - right.cos), bound + turns_bound) << p << " * " << w;
      ASSERT_LE(std::fabs(double{got.sin} - right.sin), bound + turns_bound) << p << " * " << w;
    }
  }
}

// What cos_sin makes of a phase depends on its quarter turn and on the float nearest to the 32 bits below: here the
// first and the last phase of every 211th of these floats, on both sides.
TEST(DeviceAngle, IsWithinItsBoundForThePhasesOfEvery211thRemainder) {
  constexpr double unit = 2 * 3.14159265358979323846 * 0x1p-34;
  const auto expect = [](std::uint64_t phase, double remainder) {
    const double c = std::cos(remainder * unit), s = std::sin(remainder * unit);
    const RealCosSin right[4] = {{c, s}, {-s, c}, {-c, -s}, {s, -c}};
    for (std::uint64_t quarter = 0; quarter < 4; ++quarter) {
      const device::CosSin got = device::cos_sin(phase + (quarter << 62));
      if (std::fabs(double{got.cos} - right[quarter].cos) > bound) return false;
      if (std::fabs(double{got.sin} - right[quarter].sin) > bound) return false;
    }
    return true;
  };
  std::int64_t next = 0;
  for (std::int64_t first = 0; first < std::int64_t{1} << 31; first = next) {
    const int drop = std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(first))) - 24);
    next = first + (std::int64_t{211} << drop);
    const std::int64_t half = drop == 0 ? 0 : std::int64_t{1} << (drop - 1);
    for (const std::int64_t r : {first - half, first, first + half}) {
      if (r < 0 || r >= std::int64_t{1} << 31) continue;
      const auto phase = static_cast<std::uint64_t>(r) << 30;
      ASSERT_TRUE(expect(phase, static_cast<double>(r))) << r;
      ASSERT_TRUE(expect(phase | 0x3fffffff, static_cast<double>(r + 1))) << r;
      ASSERT_TRUE(expect(0 - phase, static_cast<double>(-r))) << r;
      ASSERT_TRUE(expect((0 - phase) | 0x3fffffff, static_cast<double>(-r + 1))) << r;
    }
  }
}

TEST(DeviceAngle, OfWholeQuarterTurnsIsExact) {
  const float expected[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
  for (std::uint64_t quarter = 0; quarter < 4; ++quarter) {
    const device::CosSin got = device::cos_sin(quarter << 62);
    EXPECT_EQ(got.cos, expected[quarter][0]);
    EXPECT_EQ(got.sin, expected[quarter][1]);
  }
  EXPECT_FALSE(std::signbit(device::cos_sin(0).sin));
  EXPECT_FALSE(std::signbit(device::cos_sin(-5, 0).sin));
}

// inv_freq / (2 pi) modulo 1 in units of 2^(-64 limbs), the most significant limb first.
std::vector<std::uint64_t> turns_by_mpfr(double inv_freq, std::size_t limbs, mpfr_rnd_t rounding) {
  judge::Real x(3000), pi(3000);
  mpfr_const_pi(pi, MPFR_RNDN);
  mpfr_set_d(x, inv_freq, MPFR_RNDN);
  mpfr_div(x, x, pi, MPFR_RNDN);
  mpfr_mul_2si(x, x, static_cast<long>(64 * limbs) - 1, MPFR_RNDN);
  mpz_t whole;
  mpz_init(whole);
  mpfr_get_z(whole, x, rounding);
  mpz_fdiv_r_2exp(whole, whole, 64 * limbs);
  std::vector<std::uint64_t> result(limbs);
  for (std::size_t k = limbs; k-- > 0; mpz_fdiv_q_2exp(whole, whole, 64)) result[k] = mpz_get_ui(whole);
  mpz_clear(whole);
  return result;
}

TEST(DeviceAngle, TurnsAreThoseOfMpfr) {
  std::mt19937_64 random(2);
  std::vector<double> frequencies = {1.0, -1.0, 6.283185307179586, 1e22, -1e200, 1.7976931348623157e308, 1e-9, -1e-9};
  std::uniform_real_distribution<double> exponent(-60, 1023);
  for (int k = 0; k < 500; ++k) frequencies.push_back((k % 2 == 0 ? 1 : -1) * std::exp2(exponent(random)));
  for (const double w : frequencies) {
    EXPECT_EQ(device::turns_of(w), turns_by_mpfr(w, 1, MPFR_RNDN)[0]) << w;
    EXPECT_EQ(turns_to_nearest(w), device::turns_of(w));
    std::uint64_t limbs[3];
    limbs_of(w, limbs);
    const std::vector<std::uint64_t> right = turns_by_mpfr(w, 3, MPFR_RNDD);
    EXPECT_EQ(limbs[0], right[0]) << w;
    EXPECT_EQ(limbs[1], right[1]) << w;
    EXPECT_LE(std::fabs(static_cast<double>(static_cast<std::int64_t>(limbs[2] - right[2]))), 3.0) << w;
  }
  EXPECT_EQ(device::turns_of(0), 0u);
  EXPECT_EQ(device::turns_of(-0.0), 0u);
  EXPECT_EQ(device::turns_of(5e-324), 0u);
  EXPECT_EQ(device::turns_of(-5e-324), 0u);
}

TEST(DeviceAngle, TurnsAPairAsTheReferenceDoes) {
  std::mt19937_64 random(3);
  const float infinity = std::numeric_limits<float>::infinity();
  const float edges[] = {0.0f, -0.0f, 1.0f, -1.0f, 1e-40f, -1e-45f, 3e38f, infinity, -infinity, std::nanf("")};
  const auto any = [&] {
    const std::uint64_t bits = random();
    if (bits % 4 == 0) return edges[bits / 4 % std::size(edges)];
    return static_cast<float>(std::ldexp(static_cast<double>(static_cast<std::int32_t>(bits >> 32)), -31));
  };
  const auto same = [](float a, float b) {
    return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
  };
  for (int k = 0; k < 20000; ++k) {
    const device::CosSin by = k % 8 == 0 ? device::CosSin{any(), any()} : device::cos_sin(random());
    const float c[] = {by.cos}, s[] = {by.sin};
    const Table table(c, s, 1, Pairing::half);
    const float in[2] = {any(), any()};
    for (const bool backward : {false, true}) {
      float right[2] = {in[0], in[1]}, got[2] = {in[0], in[1]};
      const Heads heads{right, DType::f32, thd(1, 1, 2)};
      backward ? reference::rotate_backward(heads, heads, table) : reference::rotate(heads, heads, table);
      backward ? device::turn_backward(got[0], got[1], by) : device::turn(got[0], got[1], by);
      ASSERT_TRUE(same(got[0], right[0]) && same(got[1], right[1])) << in[0] << " " << in[1] << " by " << c[0];
    }
  }
}

// ---- rows, on the emulator -----------------------------------------------------------------------

#ifdef ROTARY_GPU_EMULATED

std::int64_t made_slowly = 0;
CosSin counted_round_once(const Dyadic& position, double inv_freq, double factor, DType type) noexcept {
  ++made_slowly;
  return round_once(position, inv_freq, factor, type);
}

}  // namespace
}  // namespace rotary

// A copy of the kernel that counts.
#define launch_table launch_counted_table
#define round_once counted_round_once
#include "src/gpu/table.cu"
#undef round_once
#undef launch_table

namespace rotary {
namespace {

// A host's frequencies as the kernel reads them: on the emulator the device's memory is the host's.
struct Arrays {
  gpu::FrequencyArrays plain;
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
    plain.pairs = static_cast<int>(pairs);
    plain.clockwise = f.clockwise;
    plain.decidable = decidable(f.attention_factor);
    plain.attention_factor = f.attention_factor;
    plain.factor_float32 = static_cast<float>(f.attention_factor);
    plain.limbs = limbs.data();
    plain.inv_freq = f.inv_freq.data();
    plain.inv_freq_float32 = float32.data();
    plain.axis = f.axis.empty() ? nullptr : f.axis.data();
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
  job.frequencies = arrays.plain;
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
  const Table table(f, Pairing::half, Positions(host, axes), options);
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

constexpr TableOptions float32 = {Angles::float32, DType::f32, nullptr};

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

// Where the doubles, unsettled, would round to the wrong float (angles_test.cpp).
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
    std::vector<std::int64_t> p;
    judge::Real x(400), whole(400);
    mpfr_const_pi(x, MPFR_RNDN);
    mpfr_d_div(x, 2 * std::fabs(w), x, MPFR_RNDN);
    for (std::int64_t before = 0, q = 1; q >= 0;) {
      p.insert(p.end(), {q, -q});
      mpfr_frac(x, x, MPFR_RNDN);
      mpfr_ui_div(x, 1, x, MPFR_RNDN);
      mpfr_rint_floor(whole, x, MPFR_RNDN);
      std::int64_t next = 0;
      if (__builtin_mul_overflow(mpfr_get_si(whole, MPFR_RNDN), q, &next) ||
          __builtin_add_overflow(next, before, &next))
        break;
      before = q;
      q = next;
    }
    Frequencies f;
    f.inv_freq = {w};
    slow += expect_rows_of_the_host(f, p);
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
    for (const DType rounding : {DType::f32, DType::f16, DType::bf16}) {
      expect_rows_of_the_host(f, p, {Angles::exact, rounding, nullptr});
      expect_rows_of_the_host(f, reals, {Angles::exact, rounding, nullptr});
    }
  }
}

TEST(DeviceRows, RoundedToF16AndBf16AreTheHosts) {
  std::mt19937_64 random(5);
  std::vector<std::int64_t> p = {0, least64};
  for (int k = 0; k < 300; ++k) p.push_back(static_cast<std::int64_t>(random() % (1 << 20)));
  for (const DType rounding : {DType::f16, DType::bf16}) {
    for (const double factor : {1.0, 1e-3, 6e-8, 0x1p-25, 1 + 0x1p-9, 1 + 0x1p-12, 65519.0, 65520.0, 1e30}) {
      Frequencies f = geometric(1e9, 24, factor);
      f.inv_freq.push_back(0);
      f.clockwise = factor > 1;
      const std::int64_t slow = expect_rows_of_the_host(f, p, {Angles::exact, rounding, nullptr});
      EXPECT_TRUE(factor != 1.0 || slow <= 30) << slow;
      if (factor < 1e38) expect_rows_of_the_host(f, p, {Angles::float32, rounding, nullptr});
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
  for (const DType rounding : {DType::f32, DType::f16, DType::bf16}) {
    for (const Angles angles : {Angles::exact, Angles::float32}) {
      const Rows rows = rows_of(f, p, {angles, rounding, nullptr}, 2);
      for (std::size_t i = 0; i < 12; ++i) {
        const std::size_t row = i / 4, axis = i % 2;
        EXPECT_EQ(std::isnan(rows.cos[i]), !std::isfinite(p[axis * 3 + row])) << i;
        EXPECT_EQ(std::isnan(rows.sin[i]), !std::isfinite(p[axis * 3 + row])) << i;
      }
    }
  }
  f = geometric(1e4, 2);
  f.inv_freq[1] = 1e38;
  for (const DType rounding : {DType::f32, DType::f16, DType::bf16}) {
    const Rows rows = rows_of(f, std::vector<std::int64_t>{2, 100}, {Angles::float32, rounding, nullptr});
    EXPECT_TRUE(!std::isnan(rows.cos[1]) && !std::isnan(rows.cos[2]));
    EXPECT_TRUE(std::isnan(rows.cos[3]) && std::isnan(rows.sin[3]));
  }
}

#endif  // ROTARY_GPU_EMULATED

}  // namespace
}  // namespace rotary
