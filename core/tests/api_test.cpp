// The public interface of the core: what is required, what is deduced, what is refused, and calls that equal others.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>

#include "core/tests/support/checks.h"
#include "core/tests/support/heads.h"
#include "core/tests/support/oracle.h"
#include "rotary/cache.h"
#include "rotary/query_scale.h"
#include "rotary/reference.h"

namespace rotary::tests {
namespace {

// ---- fields without a default ----

TEST(Required, APairingThatIsUnsetOrUnknownIsRefused) {
  EXPECT_EQ(Pairing{}, Pairing::unset);
  EXPECT_EQ(Rope{}.pairing, Pairing::unset);
  EXPECT_EQ(Frequencies{}.pairing, Pairing::unset);
  const std::vector<float> one{1};
  for (const Pairing pairing : {Pairing::unset, static_cast<Pairing>(4), static_cast<Pairing>(255)}) {
    const Rope rope{.head_dim = 8, .pairing = pairing};
    Frequencies f = frequencies(Rope{.head_dim = 8, .pairing = Pairing::half});
    f.pairing = pairing;
    EXPECT_EQ(code_of([&] { frequencies(rope); }), Code::PAIRING);
    EXPECT_EQ(code_of([&] { frequencies(rope, 5); }), Code::PAIRING);
    EXPECT_EQ(code_of([&] { Table(f, 1); }), Code::PAIRING);
    EXPECT_EQ(code_of([&] { f.check(); }), Code::PAIRING);
    EXPECT_EQ(code_of([&] { Table(one, one, 1, pairing); }), Code::PAIRING);
    EXPECT_EQ(code_of([&] { Table::borrow(one, one, 1, pairing); }), Code::PAIRING);
    std::vector<float> q(8), k(8);
    EXPECT_EQ(code_of([&] { rotate_qk(heads(q, thd(1, 1, 8)), heads(k, thd(1, 1, 8)), rope, 0); }), Code::PAIRING);
  }
  for (const Pairing pairing : pairings) {
    const Frequencies f = frequencies(Rope{.head_dim = 8, .pairing = pairing});
    f.check();
    EXPECT_EQ(f.pairing, pairing);
    EXPECT_EQ(Table(f, 1).pairing(), pairing);
  }
}

TEST(Required, ALengthWhereTheFrequenciesDependOnIt) {
  const LongRope longrope{.short_factor = {1, 2}, .long_factor = {3, 4}, .trained_length = 16, .factor = 2};
  const std::vector<std::pair<Scaling, bool>> all = {
      {Unscaled{}, false},      {Linear{2}, false},      {Ntk{2}, false},           {NtkFixed{2}, false},
      {Dynamic{2, 16}, true},   {Yarn{2, 16}, false},    {longrope, true},          {Llama3{2, 16}, false},
      {Proportional{1}, false}, {YarnLog{2, 16}, false}, {ThetaScale{2, 16}, false}};
  ASSERT_EQ(all.size(), std::variant_size_v<Scaling>);
  for (const auto& [scaling, depends] : all) {
    SCOPED_TRACE(name(scaling));
    const Rope rope{.head_dim = 4, .pairing = Pairing::half, .scaling = scaling};
    EXPECT_EQ(depends_on_length(scaling), depends);
    EXPECT_EQ(frequencies(rope, 0).inv_freq.size(), 2u);
    EXPECT_EQ(frequencies(rope, 0).inv_freq != frequencies(rope, 1000).inv_freq, depends);
    if (depends) {
      EXPECT_EQ(code_of([&] { frequencies(rope); }), Code::LENGTH);
    } else {
      EXPECT_EQ(frequencies(rope).inv_freq, frequencies(rope, 0).inv_freq);
    }
  }
}

// Directions are judged with other calls (core/tests/support/refused_calls.h).
TEST(Required, EveryUnknownEnumeratorIsRefused) {
  const Frequencies f = frequencies(Rope{.head_dim = 8, .pairing = Pairing::half});
  const Table table(f, 1);
  std::vector<float> x(8), y(8);
  const Heads in = heads(x, thd(1, 1, 8)), out = heads(y, thd(1, 1, 8));
  for (const int value : {3, 4, 100, 255}) {
    const auto arithmetic = static_cast<reference::Arithmetic>(value);
    EXPECT_EQ(code_of([&] { Table(f, 1, static_cast<Angles>(value)); }), Code::VALUE);
    EXPECT_EQ(code_of([&] { Table(f, 1, {Angles::exact, static_cast<Rounding>(value)}); }), Code::VALUE);
    EXPECT_EQ(code_of([&] { reference::rotate(in, out, table, Direction::forward, arithmetic); }), Code::VALUE);
  }
}

TEST(Rotate, ElementsBeforeTheBlockAreCheckedToo) {
  std::vector<float> x(40);
  const Layout one = thd(1, 1, 24);
  const Table table(frequencies({.head_dim = 16, .pairing = Pairing::half}), 1);
  const ConstHeads in{x.data(), DType::f32, one};
  const Heads out{x.data() + 16, DType::f32, one};  // its first 8 elements are the last of x's block
  EXPECT_EQ(code_of([&] { rotate(in, out, table, {.first = 8}); }), Code::ALIAS);
}

// ---- heads() ----

template <class T>
class TypedHeads : public ::testing::Test {};
using Elements = ::testing::Types<float, f16, bf16>;
TYPED_TEST_SUITE(TypedHeads, Elements);

TYPED_TEST(TypedHeads, DeduceTheDTypeAndWhetherTheyMayBeWritten) {
  constexpr DType dtype = std::is_same_v<TypeParam, float> ? DType::f32
                          : std::is_same_v<TypeParam, f16> ? DType::f16
                                                           : DType::bf16;
  EXPECT_EQ(sizeof(TypeParam), size_of(dtype));
  std::vector<TypeParam> memory(24);
  const std::vector<TypeParam> readable(24);
  std::array<TypeParam, 24> array{};
  const Layout layout = thd(3, 2, 4);
  const auto check = [&](const auto& view, const TypeParam* data, auto expected) {
    static_assert(std::is_same_v<std::remove_cvref_t<decltype(view)>, decltype(expected)>);
    EXPECT_EQ(view.data, data);
    EXPECT_EQ(view.dtype, dtype);
    EXPECT_EQ(view.layout.heads, 2);
    EXPECT_EQ(view.layout.token_stride, 8);
  };
  check(heads(memory, layout), memory.data(), Heads{});
  check(heads(array, layout), array.data(), Heads{});
  check(heads(std::span(memory), layout), memory.data(), Heads{});
  const ConstHeads none(nullptr, dtype, {});
  check(heads(readable, layout), readable.data(), none);
  check(heads(std::as_const(array), layout), array.data(), none);
  check(heads(std::span<const TypeParam>(memory), layout), memory.data(), none);
}

TYPED_TEST(TypedHeads, MustLieInsideTheMemory) {
  std::vector<TypeParam> memory(24);
  const auto fits = [&](const Layout& l, std::size_t elements = 24) {
    const Outcome got = outcome_of([&] { heads(std::span(memory).first(elements), l); });
    EXPECT_TRUE(!got.refused || got.code == Code::SHAPE) << got.text();
    return !got.refused;
  };
  EXPECT_TRUE(fits(thd(3, 2, 4)) && fits(bhtd(3, 2, 1, 4)) && fits(thd(0, 2, 4), 0));
  EXPECT_FALSE(fits(thd(3, 2, 5)) || fits(thd(4, 2, 4)) || fits(thd(3, 2, 4), 23) || fits(thd(1, 1, 1), 0));
  EXPECT_FALSE(fits({1, 1, 1, -4, 0, 0, 0}));
  // Two heads of 4; the stride of one token does not matter.
  for (const auto& [tokens, stride, inside] :
       {std::tuple(3, 9, false), std::tuple(2, 9, true), std::tuple(2, -1, false), std::tuple(1, -1, true)})
    EXPECT_EQ(fits({1, tokens, 2, 4, 0, stride, 4}), inside) << tokens << " " << stride;
  for (std::int64_t Layout::*stride : {&Layout::batch_stride, &Layout::token_stride, &Layout::head_stride}) {
    Layout far = bthd(2, 2, 2, 2);
    for (const std::int64_t large : {largest, std::int64_t{1} << 62, std::int64_t{23}}) {
      far.*stride = large;
      EXPECT_FALSE(fits(far)) << large;
    }
  }
  for (std::int64_t Layout::*size : {&Layout::batch, &Layout::tokens, &Layout::heads}) {
    Layout many = bthd(2, 2, 2, 2);
    for (const std::int64_t count : {std::int64_t{-1}, largest, std::int64_t{0}}) {
      many.*size = count;
      EXPECT_EQ(fits(many), count == 0) << count;
    }
  }
}

// Every value, and what lies between it and the next.
TEST(Storage, SixteenBitTypesRoundToNearestEven) {
  for (const DType type : {DType::f16, DType::bf16}) {
    const auto narrow = [&](float x) { return type == DType::f16 ? to_f16(x).bits : to_bf16(x).bits; };
    const auto widen = [&](std::uint16_t bits) {
      return type == DType::f16 ? to_float(f16{bits}) : to_float(bf16{bits});
    };
    for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
      const float x = widen(static_cast<std::uint16_t>(bits)), next = widen(static_cast<std::uint16_t>(bits + 1));
      ASSERT_TRUE(is_nan(bits, type) ? std::isnan(x) && is_nan(narrow(x), type) : narrow(x) == bits) << bits;
      if (is_nan(bits, type)) continue;
      ASSERT_EQ(x, oracle::widen(bits, type));
      for (const float between : {x / 2 + next / 2, x * 0.75F + next * 0.25F}) {
        if (std::isnan(between)) continue;
        ASSERT_EQ(narrow(between), oracle::narrow(between, type)) << bits;
      }
    }
  }
  EXPECT_EQ(to_f16(65520.0f), f16{0x7c00});
}

// ---- tables from the caller's rows ----

TEST(Borrowed, ReadsWhereTheRowsLieAndCopiesOwnTheirs) {
  std::vector<float> cos = counted(12), sin = counted(12);
  const std::vector<float> before = cos;
  const Table table = Table::borrow(cos, sin, 3, Pairing::interleaved, 2);
  EXPECT_EQ(table.cos().data(), cos.data());
  EXPECT_EQ(table.sin().data(), sin.data());
  EXPECT_EQ(table.tokens(), 2);
  EXPECT_EQ(table.rotary_dim(), 6);
  const Table copy = table, own_rows(cos, sin, 3, Pairing::interleaved, 2);
  Table assigned = Table::borrow(cos, sin, 12, Pairing::half), moved = table;
  assigned = table;
  expect_same_table(own_rows, table);
  cos[0] = 99;
  EXPECT_EQ(table.cos()[0], 99);
  EXPECT_TRUE(same_bits(own_rows.cos(), before) && same_bits(own_rows.sin(), sin));
  expect_same_table(copy, own_rows);
  expect_same_table(assigned, own_rows);
  moved = Table::borrow(cos, sin, 3, Pairing::half, 2);
  const Table target = std::move(moved);
  EXPECT_EQ(target.cos().data(), cos.data()) << "a move still borrows";
}

TEST(Borrowed, RotatesAsACopyDoesAndIsReplacedByAssign) {
  Random random(1);
  const Table own = random_table(random, 3, 8, Pairing::half);
  Table borrowed = Table::borrow(own.cos(), own.sin(), 8, Pairing::half);
  std::vector<float> a = counted(96), b = a;
  rotate(heads(a, thd(3, 2, 16)), own);
  rotate(heads(b, thd(3, 2, 16)), borrowed);
  EXPECT_TRUE(same(a.data(), b.data(), DType::f32, 96, std::vector<bool>(96, true)));
  const std::vector<float> before(own.cos().begin(), own.cos().end());
  const Frequencies f = frequencies(Rope{.head_dim = 16, .pairing = Pairing::interleaved});
  borrowed.assign(f, {4, 5, 6});
  EXPECT_NE(borrowed.cos().data(), own.cos().data());
  EXPECT_EQ(std::memcmp(before.data(), own.cos().data(), before.size() * sizeof(float)), 0) << "not written";
  EXPECT_EQ(borrowed.pairing(), Pairing::interleaved);
}

TEST(MovedFrom, ATableHasNoTokensAndNoPairsAndCanBeUsedAgain) {
  const std::vector<float> ones(6, 1.0f);
  const Frequencies f = frequencies(Rope{.head_dim = 4, .pairing = Pairing::half});
  for (const bool borrowed : {false, true}) {
    Table table = borrowed ? Table::borrow(ones, ones, 2, Pairing::half) : Table(f, {1, 2, 3});
    const Table target = std::move(table);
    EXPECT_EQ(target.tokens(), 3);
    EXPECT_EQ(table.tokens(), 0);  // NOLINT: the state of a moved-from table
    EXPECT_EQ(table.pairs(), 0);
    EXPECT_EQ(table.rotary_dim(), 0);
    EXPECT_TRUE(table.cos().empty() && table.sin().empty());
    std::vector<float> x(12);
    EXPECT_EQ(code_of([&] { rotate(heads(x, thd(3, 1, 4)), table); }), Code::SHAPE);
    EXPECT_NO_THROW(rotate(heads(x, thd(0, 1, 4)), table));
    const Table copy = table;
    EXPECT_EQ(copy.pairs(), 0);
    table.assign(f, 7);
    EXPECT_EQ(table.tokens(), 1);
    EXPECT_EQ(table.pairs(), 2);
  }
}

// ---- rotate ----

TEST(Options, APartIsOneOfThePartsAndHasNoExecutorWhichIsEnoughForATable) {
  std::vector<float> x(8);
  const Heads heads{x.data(), DType::f32, thd(2, 1, 4)};
  const Table table(frequencies(Rope{.head_dim = 4, .pairing = Pairing::half}), positions(0, 2));
  const ThreadPool pool(2);
  const std::vector<std::int64_t> slots{0, 1};
  const std::vector<float> factors{2, 3};
  std::vector<float> k_cache(8), v_cache(8);
  const Cache cache = nhd(k_cache.data(), v_cache.data(), 1, 2, 1, 4);
  for (const RotateOptions& wrong : {RotateOptions{.part = 3, .parts = 3}, RotateOptions{.part = -1},
                                     RotateOptions{.parts = 0}, RotateOptions{.parts = 2, .executor = &pool}}) {
    EXPECT_EQ(code_of([&] { rotate(heads, table, wrong); }), Code::VALUE);
    EXPECT_EQ(code_of([&] { multiply(heads, factors, wrong); }), Code::VALUE);
    EXPECT_EQ(code_of([&] { append(heads, heads, cache, Slots::flat(slots.data()), wrong); }), Code::VALUE);
  }
  std::iota(x.begin(), x.end(), 1.F);
  const std::vector<float> before = x;
  for (const int part : {1, 0}) append(heads, heads, cache, Slots::flat(slots.data()), {.part = part, .parts = 2});
  EXPECT_EQ(k_cache, before);
  EXPECT_EQ(v_cache, before);
  for (const int part : {2, 0, 1}) multiply(heads, factors, {.part = part, .parts = 3});
  EXPECT_EQ(x, (std::vector<float>{2, 4, 6, 8, 15, 18, 21, 24}));
  EXPECT_EQ(TableOptions(pool).executor, &pool);
  EXPECT_EQ(TableOptions(Angles::float32).executor, &serial());
}

TEST(RotateQkByARope, EqualsTheChainBitForBit) {
  Random random(3);
  const ThreadPool pool(2);
  const LongRope longrope{
      .short_factor = std::vector(32, 1.0), .long_factor = std::vector(32, 2.0), .trained_length = 64, .factor = 2};
  const Layout q_layout = bthd(2, 4, 3, 80), k_layout = bhtd(2, 1, 4, 80);
  for (const Scaling& scaling :
       std::vector<Scaling>{Unscaled{}, Yarn{4, 64}, Llama3{8, 64}, Dynamic{2, 64}, longrope}) {
    for (const Pairing pairing : pairings) {
      const Rope rope{.head_dim = 80, .rotary_dim = 64, .pairing = pairing, .scaling = scaling};
      for (const std::int64_t first : {0, 60, 61, 100000}) {  // 4 tokens: up to, and beyond, the trained 64
        SCOPED_TRACE(::testing::Message() << name(scaling) << " at " << first);
        const DType dtype = dtypes[random() % 3];
        const Direction direction = directions[random() % 2];
        Bytes q = hard_values(random, dtype, extent(q_layout)), k = hard_values(random, dtype, extent(k_layout));
        Bytes q_once = q, k_once = k;
        rotate_qk({q.data(), dtype, q_layout}, {k.data(), dtype, k_layout},
                  Table(frequencies(rope, first + 4), positions(first, 4)), {.direction = direction});
        rotate_qk({q_once.data(), dtype, q_layout}, {k_once.data(), dtype, k_layout}, rope, first,
                  {.direction = direction, .executor = &pool});
        EXPECT_EQ(q_once, q);
        EXPECT_EQ(k_once, k);
      }
    }
  }
}

TEST(RotateQkByARope, RefusesOtherHeadsAndPositionsThatAreNone) {
  const Rope rope{.head_dim = 8, .pairing = Pairing::half};
  std::vector<float> q(64), k(64);
  const auto call = [&](int q_dim, int k_dim, std::int64_t first, std::int64_t tokens = 2) {
    rotate_qk(heads(q, thd(2, 1, q_dim)), heads(k, thd(tokens, 1, k_dim)), rope, first);
  };
  EXPECT_NO_THROW(call(8, 8, 0));
  EXPECT_NO_THROW(call(8, 8, largest - 1));
  EXPECT_EQ(code_of([&] { call(10, 8, 0); }), Code::SHAPE);
  EXPECT_EQ(code_of([&] { call(8, 6, 0); }), Code::SHAPE);
  EXPECT_EQ(code_of([&] { call(8, 10, 0); }), Code::SHAPE);
  EXPECT_EQ(code_of([&] { call(8, 8, 0, 3); }), Code::SHAPE);
  EXPECT_EQ(code_of([&] { call(8, 8, -1); }), Code::POSITION);
  EXPECT_EQ(code_of([&] { call(8, 8, largest); }), Code::POSITION);
  Heads negative{q.data(), DType::f32, thd(2, 1, 8)};
  negative.layout.tokens = -2;
  EXPECT_EQ(code_of([&] { rotate_qk(negative, negative, rope, 0); }), Code::SHAPE);
}

}  // namespace
}  // namespace rotary::tests
