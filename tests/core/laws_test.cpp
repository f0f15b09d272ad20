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

TEST(Law, RotatingByMThenByNEqualsRotatingByMPlusN) {
  Random random(4);
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved}) {
    for (const std::int64_t m : places) {
      const Vector x = random_vector(random);
      const Vector twice = at(12345, at(m, x, unscaled(1, pairing)), unscaled(1, pairing));
      const Vector once = at(m + 12345, x, unscaled(1, pairing));
      for (std::size_t i = 0; i < dim; ++i) EXPECT_NEAR(twice[i], once[i], 8 * ulp * length(x));
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

TEST(Law, BackwardUndoesForwardWhenTheAttentionFactorIsOne) {
  Random random(6);
  for (const Pairing pairing : pairings) {
    const Vector x = random_vector(random), again = back(4321, at(4321, x, unscaled(1, pairing)), unscaled(1, pairing));
    for (std::size_t i = 0; i < dim; ++i) EXPECT_NEAR(again[i], x[i], 6 * ulp * length(x));
  }
}

TEST(Law, EachPairingRotatesExactlyItsTwoElements) {
  for (int j = 0; j < dim; ++j) {
    Vector unit(dim);
    unit[static_cast<std::size_t>(j)] = 1;
    const auto moved = [&](Pairing pairing) {
      std::vector<int> where;
      const Vector out = at(3, unit, unscaled(1, pairing));
      for (int i = 0; i < dim; ++i) {
        if (out[static_cast<std::size_t>(i)] != 0) where.push_back(i);
      }
      return where;
    };
    EXPECT_EQ(moved(Pairing::half), (std::vector{j % pairs, j % pairs + pairs}));
    EXPECT_EQ(moved(Pairing::interleaved), (std::vector{j / 2 * 2, j / 2 * 2 + 1}));
    EXPECT_EQ(moved(Pairing::interleaved_to_half), (std::vector{j / 2, j / 2 + pairs}));
  }
}

TEST(Law, HalfAndInterleavedAreTheSameUpToThePermutation) {
  Random random(7);
  const Vector x = random_vector(random);
  Vector halves(dim);
  for (std::size_t i = 0; i < pairs; ++i) {
    halves[i] = x[2 * i];
    halves[pairs + i] = x[2 * i + 1];
  }
  const Vector half = at(99, halves, unscaled(1, Pairing::half));
  const Vector interleaved = at(99, x, unscaled(1, Pairing::interleaved));
  EXPECT_EQ(at(99, x, unscaled(1, Pairing::interleaved_to_half)), half);
  for (std::size_t i = 0; i < pairs; ++i) {
    EXPECT_EQ(interleaved[2 * i], half[i]);
    EXPECT_EQ(interleaved[2 * i + 1], half[pairs + i]);
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

TEST(Law, RowsDoNotSeeEachOther) {
  Random random(9);
  const Layout layout = bthd(2, 3, 2, dim);
  const Table table(unscaled(1, Pairing::interleaved), {5, 6, 7});
  for (const DType dtype : dtypes) {
    const std::size_t row_bytes = dim * size_of(dtype);
    const Bytes x = hard_values(random, dtype, extent(layout));
    Bytes all = x;
    rotate({all.data(), dtype, layout}, table);
    for (std::size_t row = 0; row < 12; ++row) {
      Bytes alone(x.size());
      fill_signalling(alone.data(), dtype, extent(layout));
      std::memcpy(alone.data() + row * row_bytes, x.data() + row * row_bytes, row_bytes);
      rotate({alone.data(), dtype, layout}, table);
      EXPECT_EQ(std::memcmp(alone.data() + row * row_bytes, all.data() + row * row_bytes, row_bytes), 0);
    }
  }
}

TEST(Law, ElementsOutsideTheRotatedBlockKeepTheirBitsNaNPayloadsIncluded) {
  Random random(10);
  const Layout layout = bthd(2, 3, 2, dim + 10);
  const Table table(unscaled(), {5, 6, 7});
  for (const DType dtype : dtypes) {
    Bytes x(bytes_of(layout, dtype));
    const Format f = format(dtype);
    for (std::int64_t i = 0; i < extent(layout); ++i) {
      set_bits(x.data(), dtype, i, f.infinity | (1 + static_cast<std::uint32_t>(i) % 63));  // signalling NaN, payloads
    }
    for (const int first : {0, 3, 10}) {  // a leading, an inner and a trailing block
      Bytes in_place = x, out = x;
      const Heads block = slice(Heads{in_place.data(), dtype, layout}, first, dim);
      rotate(block, table);
      rotate(slice(ConstHeads(x.data(), dtype, layout), first, dim + 10 - first),
             slice(Heads{out.data(), dtype, layout}, first, dim + 10 - first), table);
      for (std::int64_t i = 0; i < extent(layout); ++i) {
        const bool turns = i % (dim + 10) >= first && i % (dim + 10) < first + dim;
        const std::uint32_t before = bits_at(x.data(), dtype, i);
        ASSERT_TRUE(turns || bits_at(in_place.data(), dtype, i) == before);
        ASSERT_TRUE(turns || bits_at(out.data(), dtype, i) == before);
        ASSERT_TRUE(is_nan(bits_at(in_place.data(), dtype, i), dtype));
      }
    }
  }
}

// labml's _test_rotary (annotated_deep_learning_paper_implementations, e6b3c8a6): d = 4, base 10000.
TEST(Law, TheRowsOfLabmlsTest) {
  const Table table(frequencies(Rope{.head_dim = 4, .pairing = Pairing::half}), {0, 1, 2});
  Vector x = {1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10};
  rotate({x.data(), DType::f32, thd(3, 1, 4)}, table);
  const Vector wanted = {1,         2,         3,           4,         -2.887617f, 4.929751f,
                         6.607697f, 7.049649f, -11.096704f, 7.798414f, 2.619761f,  10.157990f};
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], wanted[i], 1e-6f * std::abs(wanted[i]));
}

}  // namespace
}  // namespace rotary::tests
