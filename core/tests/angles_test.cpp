// Angles: every value against MPFR, on every target.
#include <gtest/gtest.h>

#include <cfenv>
#include <cstdlib>
#include <random>

#include "core/tests/support/angle_judge.h"
#include "core/tests/support/tables.h"
#include "rotary/rotary.h"
#include "rotary/targets.h"
#include "table/angle_job.h"
#include "table/narrow.h"
#include "table/turns.h"

namespace rotary::device {
ROTARY_API std::uint64_t turns_of(double inv_freq) noexcept;  // rotary/device.cuh, above the core, has it
}

// A copy of the scalar kernel that counts what it cannot decide.
namespace rotary {

using namespace detail;
static std::int64_t settled = 0;
static void settle_counted(const AngleJob& job, std::int64_t row, int pair, Rounding rounding) noexcept {
  if (job.integers[row] != 0) ++settled;
  settle(job, row, pair, rounding);
}
}  // namespace rotary
#define settle settle_counted
#include "cpu/lanes/angles_scalar.h"
//
#include "cpu/angles/angles.inc"
//
#include "cpu/angles/run.inc"
#undef settle

namespace rotary {
namespace {

using namespace tests;

// One axis, one batch row: every value against MPFR once, and every target against the first.
template <class P>
void expect_right(const Frequencies& f, const std::vector<P>& positions, const TableOptions& options = {}) {
  use_target("scalar");
  const Table table = table_of(f, positions, options);
  int wrong = 0;
  for (std::size_t t = 0; t < positions.size() && wrong < 10; ++t) {
    for (std::size_t i = 0; i < f.inv_freq.size(); ++i) {
      judge::Pair right;
      if (options.angles == Angles::exact) {
        right = judge::exact(positions[t], f.inv_freq[i], f.attention_factor, options.rounding);
      } else {
        const float w = f.inv_freq_float32.empty() ? static_cast<float>(f.inv_freq[i]) : f.inv_freq_float32[i];
        right = judge::float32(positions[t], w, f.attention_factor);
      }
      const std::size_t k = t * f.inv_freq.size() + i;
      const judge::Pair got{table.cos()[k], table.sin()[k]};
      if (got == right) continue;
      ADD_FAILURE() << "position " << positions[t] << " inv_freq " << f.inv_freq[i] << " factor " << f.attention_factor
                    << ": cos " << got.cos << " sin " << got.sin << " but MPFR has " << right.cos << " " << right.sin;
      if (++wrong == 10) break;
    }
  }
  on_every_target([&] {
    const Table other = table_of(f, positions, options);
    EXPECT_TRUE(same_bits(table.cos(), other.cos()) && same_bits(table.sin(), other.sin())) << chosen_target();
  });
}

TEST(Angles, AreRightAtEveryPositionBelow1024AndInASampleOfEverySizeAndSign) {
  std::mt19937_64 random(1);
  std::vector<std::int64_t> p;
  for (std::int64_t x = 0; x < 1024; ++x) p.push_back(x);
  for (int k = 0; k < 400; ++k) p.push_back(static_cast<std::int64_t>(random() % (1 << 20)));
  expect_right(geometric(5e5, 128), p);
  expect_right(geometric(1e4, 64), positions_of_every_size(random));
}

TEST(Angles, AreRightAtFractionalPositions) {
  std::mt19937_64 random(3);
  std::vector<double> p = hard_reals();
  std::uniform_real_distribution<double> uniform(-20, 44);
  for (int k = 0; k < 300; ++k) p.push_back(std::exp2(uniform(random)) * (k % 2 == 0 ? 1 : -1));
  Frequencies f = geometric(1e4, 64);
  f.inv_freq.insert(f.inv_freq.end(), {-0.3, 7.0, 3.141592653589793 * 128, -1e6, 0});
  expect_right(f, p);
}

TEST(Angles, AreRightForAnyFiniteFrequency) {
  std::mt19937_64 random(4);
  Frequencies f;
  f.inv_freq = any_frequency();
  std::vector<std::int64_t> p = {0, 1, -1, 2, 3, 1000, 1 << 20, -12345678901234, lowest, largest};
  for (int k = 0; k < 60; ++k) p.push_back(static_cast<std::int64_t>(random()) >> (random() % 64));
  expect_right(f, p);
  expect_right(f, std::vector<double>{0.0, 5e-324, -1e-200, 0.5, -1.7976931348623157e308, 1e5, 1e290});
}

TEST(Angles, AreRightForAnyFiniteAttentionFactor) {
  std::mt19937_64 random(5);
  for (const double factor :
       {1.19023807, 0.1 * std::log(40.0) + 1, 1 + 0x1p-24, 1 + 3 * 0x1p-24, -1.0, -0.707, 1e-40, 0x1p-150, 0x1.8p-150,
        1e-60, 5e-324, 0.0, -0.0, 1e30, 3.4028235677973366e38, 3.5e38, -1e300, 1.7976931348623157e308}) {
    Frequencies f = geometric(1e6, 16, factor);
    f.inv_freq.insert(f.inv_freq.end(), {0, 1e-20, 1e-40, -1e-300});
    std::vector<std::int64_t> p = {0, 1, -1, 100, lowest};
    for (int k = 0; k < 20; ++k) p.push_back(static_cast<std::int64_t>(random()) >> (random() % 64));
    expect_right(f, p);
  }
}

TEST(Angles, AreRightNextToTheirZeros) {
  std::mt19937_64 random(6);
  std::uniform_real_distribution<double> uniform(-20, 0);
  for (int k = 0; k < 40; ++k) {
    const double w = k == 0 ? 1.0 : std::exp2(uniform(random));
    Frequencies f;
    f.inv_freq = {w, -w};
    expect_right(f, judge::next_to_zeros(w));
  }
  // The double nearest to a multiple of pi/2 (Muller et al.).
  Frequencies f;
  f.inv_freq = {0x1.6ac5b262ca1ffp849};
  expect_right(f, std::vector<std::int64_t>{1, -1, 2, 3});
}

TEST(Angles, AreRightWhereDoubleArithmeticRoundsWrongly) { expect_right(geometric(5e5, 128), undecided_positions()); }

TEST(Angles, AreRoundedOnceToF16AndBf16) {
  std::mt19937_64 random(7);
  std::vector<std::int64_t> p = {0};
  for (int k = 0; k < 1200; ++k) p.push_back(static_cast<std::int64_t>(random() % (1 << 20)));
  for (const Rounding rounding : {Rounding::f16, Rounding::bf16}) {
    expect_right(geometric(1e4, 64), p, {Angles::exact, rounding});
    // Small sines, subnormals of f16, factors on a midpoint or out of range.
    for (const double factor : {1e-3, 6e-8, 0x1p-25, 1 + 0x1p-9, 1 + 0x1p-12, 65519.0, 65520.0, 1e30, 0x1.ffp127}) {
      Frequencies f = geometric(1e9, 16, factor);
      f.inv_freq.insert(f.inv_freq.end(), {0, 1e-30});
      expect_right(f, std::vector<std::int64_t>{0, 1, 2, 3, -4, 77, 100000, lowest}, {Angles::exact, rounding});
    }
  }
}

TEST(Angles, NarrowingRoundsToNearestEven) {
  std::mt19937_64 random(8);
  for (int k = 0; k < 200000; ++k) {
    const auto bits = static_cast<std::uint32_t>(random()) & (k % 4 == 0   ? 0xfffff000u
                                                              : k % 4 == 1 ? 0xffff8000u
                                                                           : ~0u);
    float value;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    for (const Rounding to : {Rounding::f16, Rounding::bf16}) {
      const float got = to == Rounding::f16 ? narrowed<Rounding::f16>(value) : narrowed<Rounding::bf16>(value);
      ASSERT_EQ(got, judge::rounded(double{value}, to)) << value;
      ASSERT_EQ(std::signbit(got), std::signbit(value));
    }
  }
}

TEST(Angles, Float32FollowsTheFloat32FormulaStepByStep) {
  std::mt19937_64 random(9);
  for (const double factor : {1.0, 1.19023807, -0.5}) {
    Frequencies f = geometric(5e5, 64, factor);
    f.inv_freq.insert(f.inv_freq.end(), {0, -0.3, 1e-30, 1e-44, 100, 1e15});
    std::vector<std::int64_t> p;
    for (std::int64_t k = -20; k < 300; ++k) p.push_back(k);
    for (int k = 0; k < 200; ++k) p.push_back(static_cast<std::int64_t>(random()) >> (random() % 64));
    p.insert(p.end(), {lowest, largest, 16777217, -16777217});
    expect_right(f, p, Angles::float32);
    expect_right(f, std::vector<double>{0.0, -0.0, 0.1, -7.3, 1e-40, 1e-300, 1e20}, Angles::float32);
  }
  Frequencies f = geometric(5e5, 8);
  f.inv_freq_float32 = {1.0f, 0.037605f, 0.00141421f, 5.3183e-05f};  // not the rounded ones
  expect_right(f, std::vector<std::int64_t>{0, 1, 1000, -50000}, Angles::float32);
}

TEST(Angles, DoNotDependOnTheRoundingModeOfTheCaller) {
  const Frequencies f = geometric(1e4, 64, 1.19023807);
  const std::vector<std::int64_t> p = {0, 1, 77, 4096, 1000003, lowest};
  for (const Angles angles : {Angles::exact, Angles::float32}) {
    const Table nearest = table_of(f, p, angles);
    ASSERT_EQ(std::fesetround(FE_UPWARD), 0);
    const Table upward = table_of(f, p, angles);
    std::fesetround(FE_TONEAREST);
    EXPECT_TRUE(same_bits(nearest.cos(), upward.cos()) && same_bits(nearest.sin(), upward.sin()));
  }
}

// ---- every position of one model -----------------------------------------------------------------

// The correctly rounded f32 of value + error, |error| <= 2^-48 |value|, or nothing if that may cross a midpoint.
bool round_if_sure(long double value, float* result) {
  const long double margin = std::fabs(value) * 0x1p-48L;
  *result = static_cast<float>(value);
  return static_cast<float>(value - margin) == static_cast<float>(value + margin);
}

// cosl and sinl of the exact product (high + low), accurate to some 2^-60; where that leaves a doubt, MPFR.
judge::Pair checked(std::int64_t p, double w, std::int64_t* doubts) {
  const long double upper = static_cast<float>(w);
  const long double a = static_cast<long double>(p) * upper, b = static_cast<long double>(p) * (w - upper);
  const long double high = a + b, low = b - (high - a);
  const long double c = std::cos(high), s = std::sin(high);
  judge::Pair result;
  const bool cos_sure = round_if_sure(c - s * low, &result.cos), sin_sure = round_if_sure(s + c * low, &result.sin);
  if (cos_sure && sin_sure) return result;
  ++*doubts;
  return judge::exact(p, w, 1);
}

// Positions [0, end) of d = 128, base 5e5: all values right; returns how many pairs the kernel left to wide arithmetic.
std::int64_t expect_all_right(std::int64_t end) {
  const Frequencies f = geometric(5e5, 128);
  Turns turns;
  prepare(f.inv_freq, turns);
  const std::size_t pairs = f.inv_freq.size();
  const std::int64_t chunk = 4096;
  settled = 0;
  std::int64_t wrong = 0, doubts = 0;
  for (std::int64_t first = 0; first < end; first += chunk) {
    std::vector<std::int64_t> p(chunk);
    for (std::size_t t = 0; t < p.size(); ++t) p[t] = first + static_cast<std::int64_t>(t);
    const Table table = table_of(f, p);
    std::vector<float> cos(p.size() * pairs), sin(p.size() * pairs);
    AngleJob job;
    job.pairs = job.padded = static_cast<int>(pairs);
    job.rows = chunk;
    job.integers = p.data();
    job.inv_freq = f.inv_freq.data();
    job.turns = turns.limbs.data();
    job.floor = turns.floor.data();
    job.cos = cos.data();
    job.sin = sin.data();
    cpu::exact_rows(job, 0, job.rows);
    EXPECT_TRUE(same_bits(cos, table.cos()) && same_bits(sin, table.sin()));
    for (std::size_t k = 0; k < cos.size(); ++k) {
      const judge::Pair right = checked(p[k / pairs], f.inv_freq[k % pairs], &doubts);
      if (!(right == judge::Pair{cos[k], sin[k]})) ++wrong;
    }
  }
  EXPECT_EQ(wrong, 0);
  std::printf("%lld values, %lld misrounded, %lld pairs settled in wide arithmetic, %lld judged by MPFR\n",
              static_cast<long long>(2 * end * static_cast<std::int64_t>(pairs)), static_cast<long long>(wrong),
              static_cast<long long>(settled), static_cast<long long>(doubts));
  return settled;
}

TEST(Angles, AreRarelyLeftToWideArithmetic) {
  EXPECT_LE(expect_all_right(1 << 13), 10);  // among 524288 pairs; 2^-23 of them are expected
}

TEST(Angles, AreRightAtEveryPositionBelow2To20) {
  if (std::getenv("ROTARY_LONG_TESTS") == nullptr) GTEST_SKIP() << "134 million values: set ROTARY_LONG_TESTS=1";
  EXPECT_LE(expect_all_right(1 << 20), 200);
}

// inv_freq / (2 pi) modulo 1 in units of 2^(-64 limbs), the most significant limb first.
std::vector<std::uint64_t> turns_by_mpfr(double inv_freq, std::size_t limbs, mpfr_rnd_t rounding) {
  judge::Real x(inv_freq, 3000), pi(0, 3000);
  mpfr_const_pi(pi.get(), MPFR_RNDN);
  x = x / pi;
  mpfr_mul_2si(x.get(), x.get(), static_cast<long>(64 * limbs) - 1, MPFR_RNDN);
  mpz_t whole;
  mpz_init(whole);
  mpfr_get_z(whole, x.get(), rounding);
  mpz_fdiv_r_2exp(whole, whole, 64 * limbs);
  std::vector<std::uint64_t> result(limbs);
  for (std::size_t k = limbs; k-- > 0; mpz_fdiv_q_2exp(whole, whole, 64)) result[k] = mpz_get_ui(whole);
  mpz_clear(whole);
  return result;
}

TEST(Turns, AreThoseOfMpfr) {
  std::mt19937_64 random(2);
  std::vector<double> frequencies = {-0.0, 1.0,  -1.0, 6.283185307179586, 1e22, -1e200, 1.7976931348623157e308,
                                     1e-9, -1e-9};
  std::uniform_real_distribution<double> exponent(-60, 1023);
  for (int k = 0; k < 500; ++k) frequencies.push_back((k % 2 == 0 ? 1 : -1) * std::exp2(exponent(random)));
  for (const double w : frequencies) {
    EXPECT_EQ(device::turns_of(w), turns_by_mpfr(w, 1, MPFR_RNDN)[0]) << w;
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

}  // namespace
}  // namespace rotary
