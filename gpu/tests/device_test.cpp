// rotary/device.cuh against MPFR.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "core/tests/support/angle_judge.h"
#include "rotary/device.cuh"
#include "rotary/reference.h"
#include "rotary/rotary.h"

namespace rotary {

using namespace detail;
namespace {

constexpr std::int64_t least32 = std::numeric_limits<std::int32_t>::min();
constexpr std::int64_t most32 = std::numeric_limits<std::int32_t>::max();

constexpr double bound = 6.9e-8, turns_bound = 4e-10;  // the bounds that device.cuh says

struct RealCosSin {
  double cos, sin;
};
RealCosSin real_of(std::int64_t position, double inv_freq) {
  judge::Real c, s;
  mpfr_sin_cos(s.get(), c.get(), (judge::real(position) * inv_freq).get(), MPFR_RNDN);
  return {c.to_double(), s.to_double()};
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

// cos_sin of a phase depends on its quarter turn and on the float nearest to the 32 bits below: here the
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

TEST(DeviceAngle, RotatesAPairAsTheReferenceDoes) {
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
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      float right[2] = {in[0], in[1]}, got[2] = {in[0], in[1]};
      const Heads heads{right, DType::f32, thd(1, 1, 2)};
      reference::rotate(heads, heads, table, direction);
      (direction == Direction::backward ? device::rotate_backward : device::rotate)(got[0], got[1], by);
      ASSERT_TRUE(same(got[0], right[0]) && same(got[1], right[1])) << in[0] << " " << in[1] << " by " << c[0];
    }
  }
}

}  // namespace
}  // namespace rotary
