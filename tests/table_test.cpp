// Table: which position meets which pair, and what is refused. The values themselves: angles_test.cpp.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include "rotary/rotary.h"
#include "rotary/targets.h"

namespace rotary {
namespace {

Frequencies frequencies_of(int pairs, int axes = 1) {
  Frequencies f;
  for (int i = 0; i < pairs; ++i) {
    f.inv_freq.push_back(i % 5 == 4 ? 0.0 : 1.0 / (1 + i * i));
    if (axes > 1) f.axis.push_back(static_cast<std::uint8_t>(i % axes));
  }
  f.attention_factor = 1.19023807;
  return f;
}

bool same(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

template <class Act>
void expect_error(Act act, const std::string& code, const std::string& part) {
  try {
    act();
    ADD_FAILURE() << "no error " << code << " about " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

// Pair i of token t in batch row b has the position p[axis[i]][b][t], as the one-axis table of that position has it.
template <class P>
void expect_axes(const std::vector<P>& p, int axes, int batch, int pairs, Angles angles) {
  const Frequencies f = frequencies_of(pairs, axes);
  Frequencies flat = f;
  flat.axis.clear();
  const TableOptions options{angles, DType::f32, nullptr};
  const Table table(f, Pairing::half, Positions(p, axes, batch), options);
  const Table judge(flat, Pairing::half, Positions(p), options);
  const std::size_t rows = p.size() / static_cast<std::size_t>(axes);
  ASSERT_EQ(table.batch(), batch);
  ASSERT_EQ(table.tokens() * batch, static_cast<std::int64_t>(rows));
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(pairs); ++i) {
      const std::size_t at = row * static_cast<std::size_t>(pairs) + i;
      const std::size_t from = (f.axis[i] * rows + row) * static_cast<std::size_t>(pairs) + i;
      ASSERT_TRUE(same(table.cos()[at], judge.cos()[from]) && same(table.sin()[at], judge.sin()[from]))
          << chosen_target() << " row " << row << " pair " << i;
    }
  }
}

void on_every_target(const std::function<void()>& check) {
  for (const Target& target : targets()) {
    if (!target.runs) continue;
    use_target(target.name);
    check();
  }
  use_target("");
}

TEST(Table, GivesEachPairThePositionOfItsAxis) {
  std::mt19937_64 random(1);
  on_every_target([&] {
    for (const int pairs : {3, 8, 32, 61, 130}) {
      for (const Angles angles : {Angles::exact, Angles::float32}) {
        std::vector<std::int64_t> whole(3 * 2 * 5);
        std::vector<double> real(whole.size());
        for (std::size_t k = 0; k < whole.size(); ++k) {
          whole[k] = k % 4 == 0 ? 0 : static_cast<std::int64_t>(random()) >> (random() % 64);
          real[k] = k % 3 == 0 ? 0.0 : k % 7 == 1 ? -1e-300 : static_cast<double>(whole[k] % 1000) / 8;
        }
        expect_axes(whole, 3, 2, pairs, angles);
        expect_axes(real, 3, 2, pairs, angles);
        for (std::int64_t& p : whole) p %= 100;
        expect_axes(whole, 2, 5, pairs, angles);
      }
    }
  });
}

TEST(Table, OfOnePositionAxisServesARopeOfSeveral) {
  const std::vector<std::int64_t> p = {0, 1, 2, -77};
  const Frequencies several = frequencies_of(20, 4);
  Frequencies one = several;
  one.axis.clear();
  EXPECT_EQ(several.axes(), 4);
  EXPECT_EQ(one.axes(), 1);
  const Table a(several, Pairing::interleaved, p), b(one, Pairing::interleaved, p);
  EXPECT_TRUE(std::equal(a.cos().begin(), a.cos().end(), b.cos().begin()));
  EXPECT_TRUE(std::equal(a.sin().begin(), a.sin().end(), b.sin().begin()));
  EXPECT_EQ(a.pairing(), Pairing::interleaved);
  EXPECT_EQ(a.rotary_dim(), 40);
}

TEST(Table, HasTheSameValuesForAnyNumberOfPairs) {
  const std::vector<std::int64_t> p = {5, 0, -12345, std::int64_t{1} << 40};
  Frequencies longest = frequencies_of(200);
  const Table all(longest, Pairing::half, p);
  on_every_target([&] {
    for (int pairs = 1; pairs < 140; ++pairs) {
      Frequencies f = longest;
      f.inv_freq.resize(static_cast<std::size_t>(pairs));
      const Table some(f, Pairing::half, p);
      for (std::size_t t = 0; t < p.size(); ++t) {
        for (std::size_t i = 0; i < f.inv_freq.size(); ++i) {
          ASSERT_TRUE(same(some.cos()[t * f.inv_freq.size() + i], all.cos()[t * 200 + i])) << pairs;
          ASSERT_TRUE(same(some.sin()[t * f.inv_freq.size() + i], all.sin()[t * 200 + i])) << pairs;
        }
      }
    }
  });
}

// One row at a time, from the back.
class Backwards final : public Executor {
 public:
  unsigned concurrency() const noexcept override { return 1; }
  void run(std::int64_t count, std::int64_t, Body body, void* context) const override {
    while (count-- > 0) body(context, count, count + 1);
  }
};

TEST(Table, DoesNotDependOnWhoRunsTheWork) {
  std::vector<std::int64_t> p(1000);
  for (std::size_t t = 0; t < p.size(); ++t) p[t] = static_cast<std::int64_t>(t) * 31 - 7000;
  const Frequencies f = frequencies_of(33);
  const Backwards backwards;
  const ThreadPool pool(3);
  for (const DType rounding : {DType::f32, DType::f16}) {
    const Table mine(f, Pairing::half, Positions(p, 1, 4), {Angles::exact, rounding, nullptr});
    for (const Executor* executor : {static_cast<const Executor*>(&backwards), static_cast<const Executor*>(&pool)}) {
      const Table theirs(f, Pairing::half, Positions(p, 1, 4), {Angles::exact, rounding, executor});
      EXPECT_EQ(std::memcmp(mine.cos().data(), theirs.cos().data(), mine.cos().size_bytes()), 0);
      EXPECT_EQ(std::memcmp(mine.sin().data(), theirs.sin().data(), mine.sin().size_bytes()), 0);
    }
  }
}

TEST(Table, OfNoTokensIsEmpty) {
  const Table table(frequencies_of(4), Pairing::half, std::span<const std::int64_t>());
  EXPECT_EQ(table.tokens(), 0);
  EXPECT_EQ(table.pairs(), 4);
  EXPECT_TRUE(table.cos().empty() && table.sin().empty());
}

TEST(Table, FromCosAndSinCopiesThem) {
  std::vector<float> cos = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, sin(12, -0.5f);
  const Table table(cos, sin, 3, Pairing::half, 2);
  cos[0] = 99;
  EXPECT_EQ(table.pairs(), 3);
  EXPECT_EQ(table.batch(), 2);
  EXPECT_EQ(table.tokens(), 2);
  EXPECT_EQ(table.cos()[0], 1);
  EXPECT_EQ(table.cos()[11], 12);
  EXPECT_EQ(table.sin()[5], -0.5f);
}

TEST(Table, FromCosAndSinRefusesSizesThatDoNotFit) {
  const std::vector<float> twelve(12), eleven(11);
  expect_error([&] { Table(twelve, eleven, 3, Pairing::half); }, "SHAPE", "12 and 11");
  expect_error([&] { Table(eleven, eleven, 3, Pairing::half); }, "SHAPE", "multiple of batch * pairs = 3 but is 11");
  expect_error([&] { Table(twelve, twelve, 3, Pairing::half, 5); }, "SHAPE", "15");
  expect_error([&] { Table(twelve, twelve, 0, Pairing::half); }, "SHAPE", "pairs");
  expect_error([&] { Table(twelve, twelve, 3, Pairing::half, 0); }, "SHAPE", "batch");
}

TEST(Positions, RefuseSizesThatDoNotFit) {
  const std::vector<std::int64_t> p(10);
  EXPECT_EQ(Positions(p, 2, 5).tokens, 1);
  expect_error([&] { Positions(p, 3); }, "SHAPE", "multiple of axes * batch = 3 but is 10");
  expect_error([&] { Positions(p, 2, 2); }, "SHAPE", "4 but is 10");
  expect_error([&] { Positions(p, 0); }, "SHAPE", "axes");
  expect_error([&] { Positions(p, 1, -1); }, "SHAPE", "batch");
}

TEST(Table, RefusesFrequenciesThatAreNone) {
  const std::vector<std::int64_t> p = {1};
  Frequencies f;
  expect_error([&] { Table(f, Pairing::half, p); }, "SHAPE", "empty");
  f = frequencies_of(4);
  f.inv_freq[2] = std::numeric_limits<double>::quiet_NaN();
  expect_error([&] { Table(f, Pairing::half, p); }, "SCALING", "at pair 2");
  f = frequencies_of(4);
  f.attention_factor = std::numeric_limits<double>::infinity();
  expect_error([&] { Table(f, Pairing::half, p); }, "SCALING", "attention_factor");
  f = frequencies_of(4);
  f.axis = {0, 1};
  expect_error([&] { Table(f, Pairing::half, p); }, "SHAPE", "axis");
  f = frequencies_of(4);
  f.inv_freq_float32 = {1, 2, 3};
  expect_error([&] { Table(f, Pairing::half, p); }, "SHAPE", "inv_freq_float32");
  f.inv_freq_float32 = {1, 2, 3, std::numeric_limits<float>::infinity()};
  expect_error([&] { Table(f, Pairing::half, p, Angles::float32); }, "SCALING", "pair 3");
  f = frequencies_of(4);
  f.inv_freq[1] = 1e39;
  expect_error([&] { Table(f, Pairing::half, p, Angles::float32); }, "SCALING", "pair 1");
}

TEST(Table, RefusesARoundingThatIsNone) {
  const std::vector<std::int64_t> p = {1};
  TableOptions options;
  options.rounding = static_cast<DType>(9);
  expect_error([&] { Table(frequencies_of(4), Pairing::half, Positions(p), options); }, "DTYPE", "value 9");
}

TEST(Table, RefusesPositionsThatItCannotHonour) {
  const std::vector<std::int64_t> six(6);
  const std::vector<double> reals = {0, 1, std::numeric_limits<double>::quiet_NaN(), 3};
  const std::vector<double> infinite = {-std::numeric_limits<double>::infinity()};
  expect_error([&] { Table(frequencies_of(4), Pairing::half, Positions(six, 3)); }, "SHAPE", "one axis");
  expect_error([&] { Table(frequencies_of(6, 3), Pairing::half, Positions(six, 2)); }, "SHAPE", "0 to 2");
  expect_error([&] { Table(frequencies_of(4), Pairing::half, Positions(reals)); }, "POSITION", "position 2 is nan");
  expect_error([&] { Table(frequencies_of(4), Pairing::half, Positions(infinite)); }, "POSITION", "position 0 is -inf");
  Positions endless(six);
  endless.tokens = std::numeric_limits<std::int64_t>::max() / 2;
  expect_error([&] { Table(frequencies_of(4), Pairing::half, endless); }, "SHAPE", "memory");
}

TEST(Table, RefusesAFloat32AngleThatOverflows) {
  const TableOptions options{Angles::float32, DType::f32, nullptr};
  Frequencies f = frequencies_of(4, 2);
  f.inv_freq = {1, 1e38, 1, 0};
  const std::vector<std::int64_t> p = {1, 2, 100, 3, 1, 4};  // two axes of three tokens; only the second is fast
  EXPECT_EQ(Table(f, Pairing::half, Positions(std::vector<std::int64_t>{1, 2, 100, 3, 1, 2}, 2), options).tokens(), 3);
  expect_error([&] { Table(f, Pairing::half, Positions(p, 2), options); }, "POSITION", "at position 5");
  const std::vector<double> large = {1, 1e300};
  expect_error([&] { Table(frequencies_of(4), Pairing::half, Positions(large), options); }, "POSITION",
               "at position 1");
}

}  // namespace
}  // namespace rotary
