// The table's kernel on the emulator, counting the values that it could not decide quickly. Its rows: table_test.cpp.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "core/tests/support/angle_judge.h"
#include "core/tests/support/tables.h"
#include "host/jobs.h"
#include "table/round_once.h"

namespace rotary {

using namespace detail;
namespace {

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
#include "kernels/table.cu"
#undef round_once
#undef launch_table

namespace rotary {
namespace {

// Expects the rows of the host; returns how many values were made in wide arithmetic.
std::int64_t made_slowly_of(const Frequencies& f, const std::vector<std::int64_t>& p,
                            const TableOptions& options = {}) {
  Frequencies paired = f;
  paired.pairing = Pairing::half;
  const gpu::Frequencies on_device(paired);
  std::vector<float> cos(p.size() * f.inv_freq.size(), -7.0f), sin = cos;
  gpu::TableJob job;
  job.frequencies = DeviceAccess::arrays(on_device);
  job.positions.i64 = p.data();
  job.positions.rows = std::ssize(p);
  job.positions.one_axis = true;
  job.angles = options.angles;
  job.rounding = options.rounding;
  job.cos = cos.data();
  job.sin = sin.data();
  made_slowly = 0;
  gpu::launch_counted_table(job, nullptr);
  const Table table(paired, p, options);
  EXPECT_TRUE(tests::same_bits(cos, table.cos())) << "factor " << f.attention_factor;
  EXPECT_TRUE(tests::same_bits(sin, table.sin())) << "factor " << f.attention_factor;
  return made_slowly;
}

using tests::geometric;
using tests::rising;

TEST(DeviceRows, OfIntegersAreNearlyAllQuick) {
  for (const double base : {1e4, 5e5, 1e6}) {
    EXPECT_LE(made_slowly_of(geometric(base, 128), rising(0, 1024)), 3);
    EXPECT_LE(made_slowly_of(geometric(base, 128, 1.19023807), rising(130000, 1024)), 3);
  }
  std::mt19937_64 random(5);
  std::vector<std::int64_t> p = {0, tests::lowest};
  for (int k = 0; k < 300; ++k) p.push_back(static_cast<std::int64_t>(random() % (1 << 20)));
  for (const Rounding rounding : {Rounding::f16, Rounding::bf16}) {
    EXPECT_LE(made_slowly_of(geometric(1e9, 48), p, {Angles::exact, rounding}), 30);
  }
  EXPECT_LE(made_slowly_of(geometric(5e5, 64), rising(-20, 300), Angles::float32), 1000);  // angles above 2^24
}

TEST(DeviceRows, ThatDoublesCannotDecideAreMadeSlowly) {
  const std::int64_t slow = made_slowly_of(geometric(5e5, 128), tests::undecided_positions());
  EXPECT_GE(slow, 11);
  EXPECT_LE(slow, 14);
}

// Positions next to whole quarter turns, as far as int64 goes: few bits are left of the remainder.
TEST(DeviceRows, NextToTheirZerosAreTheHosts) {
  std::int64_t slow = 0;
  for (const double w : {1.0, -1.0, 0.37, 1e-3, 0.7853981633974483, 1.5707963267948966}) {
    Frequencies f;
    f.inv_freq = {w};
    slow += made_slowly_of(f, judge::next_to_zeros(w));
  }
  EXPECT_GT(slow, 10);
}

TEST(DeviceRows, OfPairsThatStandStillAreQuick) {
  Frequencies f;
  f.inv_freq = {0, -0.0, 0};
  EXPECT_EQ(made_slowly_of(f, {0, 1, -1, tests::lowest, tests::largest}), 0);
  EXPECT_EQ(made_slowly_of(geometric(1e4, 128), std::vector<std::int64_t>(100, 0)), 0);
}

}  // namespace
}  // namespace rotary
