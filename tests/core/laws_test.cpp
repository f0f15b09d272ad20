// The mathematics, as laws that any right rotary embedding obeys, on the whole chain.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/heads.h"

namespace rotary::tests {
namespace {

constexpr int dim = 128;
constexpr int pairs = dim / 2;
constexpr double ulp = 0x1p-24;  // half a unit in the last place of f32, relative

using Vector = std::vector<float>;

Frequencies unscaled(double attention_factor = 1, Pairing pairing = Pairing::half) {
  Frequencies f = frequencies(Rope{.head_dim = dim, .pairing = pairing});
  f.attention_factor = attention_factor;
  return f;
}

Vector random_vector(Random& random, std::size_t size = dim) {
  Vector x(size);
  std::normal_distribution<float> normal;
  for (float& e : x) e = normal(random);
  return x;
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}
double length(const Vector& a) { return std::sqrt(dot(a, a)); }

// One head at one position.
Vector at(std::int64_t position, Vector x, const Frequencies& f = unscaled()) {
  rotate(heads(x, thd(1, 1, dim)), Table(f, position));
  return x;
}
Vector back(std::int64_t position, Vector x, const Frequencies& f) {
  rotate(heads(x, thd(1, 1, dim)), Table(f, position), Direction::backward);
  return x;
}

const std::vector<std::int64_t> places = {
    -1000003, -1, 1, 2, 17, 4095, 131071, (std::int64_t{1} << 31) + 1, (std::int64_t{1} << 53) + 1};

TEST(Law, LengthIsPreserved) {
  Random random(1);
  for (const Pairing pairing : pairings) {
    for (const std::int64_t m : places) {
      const Vector x = random_vector(random);
      EXPECT_NEAR(length(at(m, x, unscaled(1, pairing))), length(x), 3 * ulp * length(x));
      EXPECT_NEAR(length(at(m, x, unscaled(1.25, pairing))), 1.25 * length(x), 4 * ulp * length(x));
    }
  }
}

TEST(Law, ScoresDependOnlyOnTheDistance) {
  Random random(2);
  const Vector q = random_vector(random), k = random_vector(random);
  for (const Pairing pairing : pairings) {
    for (const std::int64_t distance : {0, 1, 5, 1000}) {
      const double score = dot(at(distance, q, unscaled(1, pairing)), at(0, k, unscaled(1, pairing)));
      for (const std::int64_t m : places) {
        const double moved = dot(at(m + distance, q, unscaled(1, pairing)), at(m, k, unscaled(1, pairing)));
        EXPECT_NEAR(moved, score, 6 * ulp * length(q) * length(k)) << "distance " << distance << " at " << m;
      }
    }
  }
}

TEST(Law, PositionZeroChangesNothing) {
  Random random(5);
  const Table table(unscaled(), {0, 0});
  const Table woven(unscaled(1, Pairing::interleaved), {0, 0});
  for (const DType dtype : dtypes) {
    const Format f = format(dtype);
    Bytes x = hard_values(random, dtype, 2 * dim);
    for (int i = 0; i < 2 * dim; ++i) {  // finite, not zero: 0 * infinity is NaN, and -0 + 0 is 0
      const std::uint32_t magnitude = bits_at(x.data(), dtype, i) & (f.sign - 1);
      if (magnitude >= f.infinity || magnitude == 0) set_bits(x.data(), dtype, i, f.sign | 1);
    }
    const Bytes before = x;
    rotate({x.data(), dtype, thd(2, 1, dim)}, table);
    EXPECT_EQ(x, before) << name(dtype);
    rotate({x.data(), dtype, thd(2, 1, dim)}, woven);
    EXPECT_EQ(x, before) << name(dtype);
  }
}

TEST(Law, BackwardIsTheTranspose) {
  for (const Pairing pairing : pairings) {
    const Frequencies f = unscaled(1.3, pairing);
    std::vector<Vector> forward, backward;
    for (std::size_t j = 0; j < dim; ++j) {
      Vector unit(dim);
      unit[j] = 1;
      forward.push_back(at(777, unit, f));
      backward.push_back(back(777, unit, f));
    }
    for (std::size_t i = 0; i < dim; ++i) {
      for (std::size_t j = 0; j < dim; ++j) ASSERT_EQ(forward[j][i], backward[i][j]) << name(pairing);
    }
  }
}

TEST(Law, PairsWithInvFreqZeroStandStill) {
  Random random(8);
  Frequencies f = unscaled();
  for (std::size_t i = 0; i < pairs; i += 3) f.inv_freq[i] = 0;
  f.inv_freq_float32.clear();
  const Vector x = random_vector(random);
  for (const std::int64_t m : places) {
    const Vector out = at(m, x, f);
    for (std::size_t i = 0; i < pairs; ++i) {
      EXPECT_EQ(out[i] == x[i] && out[i + pairs] == x[i + pairs], i % 3 == 0) << "pair " << i << " at " << m;
    }
  }
}

}  // namespace
}  // namespace rotary::tests
