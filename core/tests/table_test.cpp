// Table: which position meets which pair, and what is refused. The values themselves: core/tests/angles_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <random>
#include <string>
#include <type_traits>

#include "core/tests/support/checks.h"
#include "core/tests/support/refused_tables.h"
#include "core/tests/support/splits.h"

// This program counts its allocations, and refuses them on demand.
static std::atomic<int> allocations = 0;
static std::atomic<bool> out_of_memory = false;

static void* allocated(std::size_t bytes, std::size_t alignment) {
  ++allocations;
  if (out_of_memory) throw std::bad_alloc();
  void* memory = std::aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// Not inlined: g++ 12 then takes malloc and delete for a pair that does not match.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return allocated(bytes, alignof(std::max_align_t)); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocated(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace rotary::tests {
namespace {

Frequencies frequencies_of(int pairs, int axes = 1, Pairing pairing = Pairing::half) {
  Frequencies f;
  f.pairing = pairing;
  for (int i = 0; i < pairs; ++i) {
    f.inv_freq.push_back(i % 5 == 4 ? 0.0 : 1.0 / (1 + i * i));
    if (axes > 1) f.axis.push_back(static_cast<std::uint8_t>(i % axes));
  }
  f.attention_factor = 1.19023807;
  return f;
}

bool same(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// Pair i of token t in batch row b has the position p[axis[i]][b][t], as the one-axis table of that position has it.
template <class P>
void expect_axes(const std::vector<P>& p, int axes, int batch, int pairs, Angles angles) {
  const Frequencies f = frequencies_of(pairs, axes);
  Frequencies flat = f;
  flat.axis.clear();
  const Table table(f, Positions(p, axes, batch), angles);
  const Table judge(flat, p, angles);
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

// A token of text has one position for all axes; the further axes that no pair turns by are not read (ggml's MROPE with
// sections n, 0, 0, 0).
TEST(Table, TakesOnePositionForAllAxesAndReadsOnlyThoseThatItsPairsTurnBy) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> p = {5, 6, 7, 2, 1, 0, nan, nan, nan, 1e300, 0, 0}, two(p.begin(), p.begin() + 6),
                            thrice = {5, 6, 7, 5, 6, 7, 5, 6, 7};
  for (const Angles angles : {Angles::exact, Angles::float32}) {
    Frequencies one = frequencies_of(6), zeros = one, three = frequencies_of(6, 3);
    zeros.axis.assign(6, 0);
    if (angles == Angles::exact) one.phase = zeros.phase = three.phase = {0.5, 0.25, 0, -1, 0, 2};
    const Table wanted(one, {5, 6, 7}, angles);
    expect_same_table(Table(three, {5, 6, 7}, angles), wanted);
    expect_same_table(Table(three, Positions(thrice, 3), angles), wanted);
    expect_same_table(Table(one, Positions(p, 4), angles), wanted);
    expect_same_table(Table(zeros, Positions(p, 4), angles), wanted);
    three.phase.clear();
    three.head_rows = 2;
    three.inv_freq.insert(three.inv_freq.end(), one.inv_freq.rbegin(), one.inv_freq.rend());
    expect_same_table(Table(three, {5, 6, 7}, angles), Table(three, Positions(thrice, 3), angles));
    const Frequencies both = frequencies_of(6, 2);
    expect_same_table(Table(both, Positions(p, 4), angles), Table(both, Positions(two, 2), angles));
  }
}

// A rotation by such a table is the transposed one, as a backward call is (rotate_test.cpp).
TEST(Table, OfAClockwiseRopeHasEverySinNegatedAndNothingElseChanged) {
  const std::vector<double> real = {0, 0.5, -2.25, 1e9};
  for (const Angles angles : {Angles::exact, Angles::float32}) {
    for (const Rounding rounding : {Rounding::f32, Rounding::f16, Rounding::bf16}) {
      Frequencies f = frequencies({.head_dim = 14, .pairing = Pairing::half});
      f.attention_factor = 1.25;
      f.inv_freq[3] = 0;
      const Table plain(f, real, {angles, rounding});
      f.clockwise = true;
      const Table table(f, real, {angles, rounding});
      std::vector<float> negated(plain.sin().size());
      std::transform(plain.sin().begin(), plain.sin().end(), negated.begin(), std::negate());
      EXPECT_TRUE(same_bits(table.cos(), plain.cos()) && same_bits(table.sin(), negated));
    }
  }
}

TEST(Table, HasTheSameValuesForAnyNumberOfPairs) {
  const std::vector<std::int64_t> p = {5, 0, -12345, std::int64_t{1} << 40};
  Frequencies longest = frequencies_of(200);
  const Table all(longest, p);
  on_every_target([&] {
    for (int pairs = 1; pairs < 140; ++pairs) {
      Frequencies f = longest;
      f.inv_freq.resize(static_cast<std::size_t>(pairs));
      const Table some(f, p);
      for (std::size_t t = 0; t < p.size(); ++t) {
        for (std::size_t i = 0; i < f.inv_freq.size(); ++i) {
          ASSERT_TRUE(same(some.cos()[t * f.inv_freq.size() + i], all.cos()[t * 200 + i])) << pairs;
          ASSERT_TRUE(same(some.sin()[t * f.inv_freq.size() + i], all.sin()[t * 200 + i])) << pairs;
        }
      }
    }
  });
}

TEST(Table, DoesNotDependOnWhoRunsTheWork) {
  std::vector<std::int64_t> p(1000);
  for (std::size_t t = 0; t < p.size(); ++t) p[t] = static_cast<std::int64_t>(t) * 31 - 7000;
  const Frequencies f = frequencies_of(33);
  const Shuffled shuffled(1);
  const ThreadPool pool(3);
  for (const Rounding rounding : {Rounding::f32, Rounding::f16}) {
    const Table mine(f, Positions(p, 1, 4), {Angles::exact, rounding});
    for (const Executor* executor : {static_cast<const Executor*>(&shuffled), static_cast<const Executor*>(&pool)}) {
      const Table theirs(f, Positions(p, 1, 4), {Angles::exact, rounding, *executor});
      expect_same_table(mine, theirs);
    }
  }
}

TEST(Table, RefusesWhatItCannotBeMadeOf) {
  for (const RefusedTable& r : refused_tables()) {
    expect_error(r.code, "[table] " + r.sentence, [&] { Table(r.f, Positions(r.positions, r.axes), r.angles); });
  }
  const std::vector<float> values(12);
  for (const RefusedRows& r : refused_rows) {
    const auto cos = std::span(values).first(r.cos), sin = std::span(values).first(r.sin);
    expect_error("SHAPE", r.sentence, [&] { Table(cos, sin, r.pairs, Pairing::half, r.batch); });
    expect_error("SHAPE", r.sentence, [&] { Table::borrow(cos, sin, r.pairs, Pairing::half, r.batch); });
  }
  const Positions endless = positions(0, std::numeric_limits<std::int64_t>::max() / 2);
  expect_error_with("SHAPE", "memory", [&] { Table(frequencies_of(4), endless); });
  float rows[32];
  const auto write = [&](float* sin, std::int64_t stride, DType dtype) {
    return [=, &rows] { write_rows(frequencies_of(4), positions(0, 4), rows, sin, dtype, stride); };
  };
  expect_error_with("DTYPE", "[write_rows]", write(rows + 4, 8, static_cast<DType>(9)));
  expect_error_with("ALIAS", "[write_rows]", write(rows + 4, 4, DType::f32));
  expect_error_with("SHAPE", "[write_rows] cos must span less than 2^63 bytes",
                    write(rows + 4, std::numeric_limits<std::int64_t>::max(), DType::f32));
  EXPECT_NO_THROW(write(rows + 4, 8, DType::f32)());  // vLLM's rows: cos and sin in one
}

TEST(Table, RefusesAFloat32AngleThatOverflows) {
  const TableOptions options = Angles::float32;
  Frequencies f = frequencies_of(4, 2);
  f.inv_freq = {1, 1e38, 1, 0};
  const std::vector<std::int64_t> p = {1, 2, 100, 3, 1, 4};  // two axes of three tokens; only the second is fast
  EXPECT_EQ(Table(f, Positions({1, 2, 100, 3, 1, 2}, 2), options).tokens(), 3);
  expect_error_with("POSITION", "at position 5", [&] { Table(f, Positions(p, 2), options); });
}

// ---- assign, and a table as a value --------------------------------------------------------------

// Calls that differ in everything they may, one after another with one table.
TEST(Table, AssignGivesWhatConstructingAnewGives) {
  const std::vector<std::int64_t> few = {3}, many = {1, 2, 3, 4, 5, 9, -7, 1 << 20, 0, 12, 13, 14}, none;
  const std::vector<double> reals = {0.5, -3.25, 1e-3};
  Frequencies five = frequencies_of(5, 1, Pairing::interleaved), hundred = frequencies_of(100);
  Frequencies axes = frequencies_of(12, 3), back = five;
  back.clockwise = true;
  Frequencies nearly = hundred, given = five, strange = five;
  nearly.inv_freq[99] = std::nextafter(nearly.inv_freq[99], 1);
  given.inv_freq_float32 = {1, 0.5f, 0.25f, 0, 0.125f};
  strange.attention_factor = 1e-30;
  const ThreadPool pool(2);
  on_every_target([&] {
    Table table(frequencies_of(5), few);
    for (const Rounding rounding : {Rounding::f32, Rounding::bf16, Rounding::f16}) {
      for (const Angles angles : {Angles::exact, Angles::float32}) {
        for (const Executor* executor : {&serial(), static_cast<const Executor*>(&pool)}) {
          const TableOptions options{angles, rounding, *executor};
          for (const Frequencies* f : {&five, &hundred, &nearly, &given, &back, &strange}) {
            for (const Positions& p : {Positions(few), Positions(many, 1, 2), Positions(none), Positions(reals)}) {
              table.assign(*f, p, options);
              EXPECT_EQ(table.pairing(), f->pairing);
              expect_same_table(table, Table(*f, p, options));
            }
          }
          table.assign(axes, Positions(many, 3), options);
          expect_same_table(table, Table(axes, Positions(many, 3), options));
        }
      }
    }
  });
}

TEST(Table, AnEmptyOneTakesAllThatAConstructorTakes) {
  Table table;
  EXPECT_EQ(table.tokens(), 0);
  EXPECT_EQ(Table(table).pairs(), 0);
  const Frequencies f = frequencies_of(6), several = frequencies_of(6, 3);
  const std::vector<std::int32_t> narrow = {3, 1, 2};
  table.assign(f, narrow);
  expect_same_table(table, Table(f, narrow));
  table.assign(several, {narrow, 3});
  expect_same_table(table, Table(several, {narrow, 3}));
  const std::vector<float> cos(24, 1), sin(24, 0.5);
  table.assign(cos, sin, 4, Pairing::interleaved, 2);
  expect_same_table(table, Table(cos, sin, 4, Pairing::interleaved, 2));
  const int before = allocations;
  table.assign(sin, cos, 4, Pairing::half, 2);
  EXPECT_EQ(allocations, before);
  EXPECT_EQ(table.pairing(), Pairing::half);
  Rows rows{cos.data(), sin.data(), DType::f32, 4, Pairing::half, 4, 6, narrow};
  expect_error_with("SHAPE", "tokens", [&] {
    std::vector<float> x(16);
    rotate(heads(x, thd(2, 1, 8)), rows);
  });
  for (const std::int32_t outside : {-1, 6}) {
    const std::vector<std::int32_t> numbers = {0, outside};
    rows.numbers = numbers;
    expect_error_with("POSITION", "from 0 to 5 but token 1 has " + std::to_string(outside),
                      [&] { table.assign(rows); });
  }
  rows.numbers = Positions(0.5);
  expect_error_with("POSITION", "integers of one axis", [&] { Table{rows}; });
  rows.numbers = 3, rows.sin = nullptr;
  expect_error_with("SHAPE", "sin must point", [&] { Table{rows}; });
  EXPECT_EQ(table.tokens(), 3);
}

// A decode step of several tokens or of one, however its position is given.
TEST(Table, AssignOfAnotherStepAllocatesNothing) {
  const Frequencies f = frequencies(Rope{.head_dim = 128, .pairing = Pairing::half});
  const ThreadPool pool(2);
  const std::vector<std::int32_t> narrow = {7};
  const std::vector<double> real = {7.5};
  std::vector<std::int64_t> p(8);
  on_every_target([&] {
    for (const Angles angles : {Angles::exact, Angles::float32}) {
      for (const Rounding rounding : {Rounding::f32, Rounding::bf16, Rounding::f16}) {
        for (const Executor* executor : {&serial(), static_cast<const Executor*>(&pool)}) {
          const TableOptions options{angles, rounding, *executor};
          Table table(f, p, options);
          table.assign(f, positions(0, 8), options);  // with a pool the rows are made in turns in two places
          const int before = allocations;
          for (std::int64_t step = 0; step < 50; ++step) {
            std::iota(p.begin(), p.end(), step * 1000);
            table.assign(f, std::span(p).first(static_cast<std::size_t>(step % 9)), options);
            table.assign(f, step, options);
            table.assign(f, static_cast<double>(step) / 2, options);
            table.assign(f, positions(step, 1), options);
            table.assign(f, narrow, options);
            table.assign(f, real, options);
          }
          EXPECT_EQ(allocations - before, 0) << chosen_target() << " " << name(rounding) << " " << name(angles);
        }
      }
    }
  });
}

// A step of a sliding window, whatever ropes and positions the table was made for before.
TEST(Table, AssignBetweenIsBetweenAndAllocatesNothing) {
  Frequencies fast = frequencies_of(20), spatial = frequencies_of(20, 3), faster = spatial, phased = fast;
  for (Frequencies* const f : {&fast, &faster}) std::ranges::for_each(f->inv_freq, [](double& w) { w *= 3; });
  phased.phase.assign(20, 0.5);
  std::vector<std::int32_t> p(3 * 8), q(3 * 8);
  Table table;
  const std::vector<std::pair<Frequencies, Frequencies>> ropes{{frequencies_of(20), frequencies_of(20)},
                                                               {frequencies_of(20), fast},
                                                               {spatial, spatial},
                                                               {spatial, faster},
                                                               {fast, faster},
                                                               {phased, fast}};
  for (const auto& both : ropes) {
    const Frequencies &from = both.first, &to = both.second;
    const auto step = [&](std::int32_t first, const auto& check) {
      std::iota(p.begin(), p.end(), first);
      std::iota(q.begin(), q.end(), -3 * first);
      const std::vector<double> halves(q.begin(), q.end());
      const auto at = [](const Frequencies& f, auto& all) {
        return Positions(std::span(all).first(static_cast<std::size_t>(8 * f.axes())), f.axes(), 2);
      };
      check(at(from, p), at(to, q)), check(at(from, p), at(to, halves));
    };
    const auto compare = [&](const Positions& a, const Positions& b) {
      table.assign_between(from, a, to, b);
      const Table wanted = between(from, a, to, b);
      EXPECT_EQ(table.batch(), 2);
      EXPECT_EQ(table.tokens(), 4);
      EXPECT_TRUE(same_bits(table.cos(), wanted.cos()) && same_bits(table.sin(), wanted.sin()));
    };
    const auto count = [&](const Positions& a, const Positions& b) {
      const int before = allocations;
      table.assign_between(from, a, to, b);
      EXPECT_EQ(allocations - before, 0) << from.axes() << " axes";
    };
    for (std::int32_t first = 0; first < 4; ++first) step(first, compare);
    for (std::int32_t first = 4; first < 20; ++first) step(first, count);
  }
}

// Steps by one table of all positions, each with numbers of its own.
TEST(Table, RowsByNumberAreThoseOfATableOfThePositionsAndAllocateNothing) {
  const Frequencies f = frequencies_of(20);
  const Table all(f, positions(0, 100));
  std::vector<float> q(6 * 2 * 40, 1.5f), k(6 * 40, -0.5f), wanted_q = q, wanted_k = k;
  const Layout of_q = bthd(2, 3, 2, 40), of_k = bthd(2, 3, 1, 40);
  std::vector<std::int32_t> at{0, 1, 2, 50, 7, 7};
  for (int step = 0; step < 40; ++step) {
    const int before = allocations;
    rotate_qk(heads(q, of_q), heads(k, of_k), all.rows({at, 1, 2}));
    EXPECT_EQ(allocations - before, 0);
    const Table wanted(f, Positions(at, 1, 2)), copied(all.rows({at, 1, 2}));
    EXPECT_TRUE(same_bits(copied.cos(), wanted.cos()) && same_bits(copied.sin(), wanted.sin()));
    EXPECT_EQ(wanted.rows(0).rows, 6);
    rotate_qk(heads(wanted_q, of_q), heads(wanted_k, of_k), wanted);
    for (std::int32_t& p : at) ++p;
  }
  EXPECT_EQ(q, wanted_q);
  EXPECT_EQ(k, wanted_k);
}

// Gives out one row, then fails.
class Failing final : public Executor {
 public:
  unsigned concurrency() const noexcept override { return 1; }
  void run(std::int64_t, std::int64_t, Body body, void* context) const override {
    body(context, 0, 1);
    throw std::runtime_error("no thread");
  }
};

TEST(Table, IsAsItWasAfterAnAssignThatThrows) {
  const std::vector<std::int64_t> p = {1, 2, 3, 4}, other = {100, 200, 300, 400};
  const std::vector<double> endless = {1, std::numeric_limits<double>::infinity()};
  const Frequencies f = frequencies_of(9), woven = frequencies_of(9, 1, Pairing::interleaved);
  Frequencies wrong = woven;
  wrong.inv_freq[3] = std::numeric_limits<double>::infinity();
  Table table(f, p);
  const Table before = table;
  const Failing failing;
  EXPECT_THROW(table.assign(wrong, other), Error);
  EXPECT_THROW(table.assign(frequencies_of(9, 3), Positions(other, 2)), Error);
  EXPECT_THROW(table.assign(woven, endless), Error);
  EXPECT_THROW(table.assign(woven, other, failing), std::runtime_error);
  EXPECT_THROW(table.assign(woven, other, {Angles::exact, static_cast<Rounding>(7)}), Error);
  EXPECT_THROW(table.assign(woven, other, static_cast<Angles>(7)), Error);
  wrong = woven;
  wrong.pairing = Pairing::unset;
  EXPECT_THROW(table.assign(wrong, other), Error);
  expect_same_table(table, before);
  const std::vector<std::int64_t> many(1000);
  const Frequencies larger = frequencies_of(10);
  out_of_memory = true;
  EXPECT_THROW(table.assign(f, many), std::bad_alloc);
  EXPECT_THROW(table.assign(larger, p), std::bad_alloc);
  out_of_memory = false;
  expect_same_table(table, before);
  table.assign(larger, other);
  expect_same_table(table, Table(larger, other));
}

TEST(Table, IsAValueLikeOthers) {
  static_assert(std::is_nothrow_move_constructible_v<Table> && std::is_nothrow_move_assignable_v<Table>);
  const std::vector<std::int64_t> p = {5, 6, 7}, other = {8};
  const Frequencies f = frequencies_of(6), woven = frequencies_of(6, 1, Pairing::interleaved);
  const Table judge(woven, p);
  Table a = judge, b(f, other);
  b = a;
  EXPECT_NE(a.cos().data(), b.cos().data());
  a.assign(f, other);
  expect_same_table(b, judge);
  const float* rows = b.cos().data();
  Table c = std::move(b);
  EXPECT_EQ(c.cos().data(), rows);
  b.assign(woven, p);
  expect_same_table(b, judge);
  a = std::move(c);
  a = *&a;
  expect_same_table(a, judge);
}

TEST(Table, BeginsItsRowsOnACacheLine) {
  for (const int tokens : {1, 3, 100, 40000}) {  // the last: more than a huge page
    for (const int pairs : {1, 7, 64}) {
      const Table table(frequencies_of(pairs), positions(0, tokens));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(table.cos().data()) % 64, 0u);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(table.sin().data()) % 64, 0u);
    }
  }
}

}  // namespace
}  // namespace rotary::tests
