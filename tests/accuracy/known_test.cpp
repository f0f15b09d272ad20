// What is computed once for several ways changes no bit of them.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "accuracy/measure.h"
#include "subjects.h"

namespace rotary::accuracy {
namespace {

constexpr std::int64_t largest_position = std::numeric_limits<std::int64_t>::max();

std::uint64_t random_bits(std::uint64_t& state) {
  state = state * 6364136223846793005U + 1442695040888963407U;
  return state ^ state >> 29;
}

TEST(Known, AnExactEntryIsRoundedAsRoundOnceDoes) {
  std::uint64_t state = 5;
  int far = 0;
  for (int k = 0; k < 200000; ++k) {
    const auto position = static_cast<std::int64_t>(random_bits(state) >> (random_bits(state) % 64));
    const double inv_freq = std::ldexp(static_cast<double>(random_bits(state) >> 11), -53 - k % 40);
    const double factor = k % 3 == 0 ? 1 : k % 3 == 1 ? 1.2304 : 0.70710678118654757;
    const CosSin wanted = detail::round_once(detail::dyadic(position), inv_freq, factor, Rounding::f32);
    const CosSin found = rounded_once(exact_cos_sin(position, inv_freq, factor), position, inv_freq, factor);
    far += std::memcmp(&found, &wanted, sizeof found) != 0 ? 1 : 0;
  }
  EXPECT_EQ(far, 0);
  for (const std::int64_t position : {std::int64_t{0}, std::int64_t{1}, largest_position}) {
    for (const double inv_freq : {0.0, 1e-300, 5e-324, 1e-13, -1e-13}) {
      const CosSin wanted = detail::round_once(detail::dyadic(position), inv_freq, 1, Rounding::f32);
      const CosSin found = rounded_once(exact_cos_sin(position, inv_freq, 1), position, inv_freq, 1);
      EXPECT_EQ(std::memcmp(&found, &wanted, sizeof found), 0) << position << ' ' << inv_freq;
    }
  }
}

TEST(Known, RowsAreTheSameWithIt) {
  const Rope rope = half_rope(64, 10000, Yarn{4, 4096});
  const Subject subject = subject_of(rope);
  Rows product(subject, Way::float32_product);
  std::vector<CosSin> known_product(32), plain_row(32), row(32);
  std::vector<ExactCosSin> exact(32);
  for (const Way way : each_way()) {
    Rows rows(subject, way), others(subject, way);
    for (const std::int64_t position : {0, 1, 77, 4097, 1000003}) {
      product.write(position, known_product);
      for (std::size_t i = 0; i < 32; ++i)
        exact[i] = exact_cos_sin(position, subject.inv_freq[i], subject.attention_factor);
      rows.write(position, plain_row);
      others.write(position, row, {exact, known_product});
      EXPECT_EQ(std::memcmp(row.data(), plain_row.data(), 32 * sizeof(CosSin)), 0) << info(way).name << ' ' << position;
    }
  }
}

TEST(Known, OneWayFindsWhatAllFind) {
  const Subject subject = plain(16);
  const std::vector<Decade> decades = default_decades(99999);
  const std::vector<WayErrors> together = measure(subject, each_way(), decades);
  for (std::size_t k = 0; k < together.size(); ++k) {
    const Way way = together[k].way;
    const std::vector<WayErrors> alone = measure(subject, std::span(&way, 1), decades);
    for (std::size_t d = 0; d < decades.size(); ++d) {
      EXPECT_EQ(alone[0].decades[d].cos_sin->error, together[k].decades[d].cos_sin->error) << info(way).name;
      EXPECT_EQ(alone[0].decades[d].scores->rms, together[k].decades[d].scores->rms) << info(way).name;
    }
  }
}

// The loops of the template, in words of 32 bits.
TEST(Known, AProductOfTwoLimbsIsThatOfLongMultiplication) {
  std::uint64_t state = 9;
  for (int k = 0; k < 100000; ++k) {
    detail::Fraction<2> a, b;
    for (std::uint64_t* limb : {&a.limb[0], &a.limb[1], &b.limb[0], &b.limb[1]})
      *limb = k % 7 == 0 ? ~std::uint64_t{0} : random_bits(state) << (k % 5 == 0 ? random_bits(state) % 64 : 0);
    std::array<std::uint64_t, 9> sum = {};
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        const std::uint64_t part =
            (a.limb[i / 2] >> 32 * (i % 2) & 0xffffffff) * (b.limb[j / 2] >> 32 * (j % 2) & 0xffffffff);
        sum[static_cast<std::size_t>(i + j)] += part & 0xffffffff;
        sum[static_cast<std::size_t>(i + j + 1)] += part >> 32;
      }
    }
    for (std::size_t i = 0; i < 8; ++i) {
      sum[i + 1] += sum[i] >> 32;
      sum[i] &= 0xffffffff;
    }
    const detail::Fraction<2> product = a * b;
    ASSERT_EQ(product.limb[0], sum[4] | sum[5] << 32);
    ASSERT_EQ(product.limb[1], sum[6] | sum[7] << 32);
  }
}

}  // namespace
}  // namespace rotary::accuracy
