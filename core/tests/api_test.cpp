// The public interface of the core: what is required, what is deduced, what is refused, and calls that equal others.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "core/tests/support/checks.h"
#include "core/tests/support/heads.h"
#include "rotary/cache.h"
#include "rotary/query_scale.h"
#include "rotary/reference.h"

namespace rotary::tests {
namespace {

std::vector<float> counted(std::size_t count) {
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = static_cast<float>(i % 97) / 8 - 5;
  return x;
}

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
  const auto code = [&](const Layout& l) { return code_of([&] { heads(memory, l); }); };
  EXPECT_NO_THROW(heads(memory, thd(3, 2, 4)));
  EXPECT_NO_THROW(heads(memory, bhtd(3, 2, 1, 4)));
  EXPECT_EQ(code(thd(3, 2, 5)), Code::SHAPE);
  EXPECT_EQ(code(thd(4, 2, 4)), Code::SHAPE);
  EXPECT_EQ(code_of([&] { heads(std::span(memory).first(23), thd(3, 2, 4)); }), Code::SHAPE);
  Layout l = thd(3, 2, 4);
  l.token_stride = 9;
  EXPECT_EQ(code(l), Code::SHAPE) << "2 * 9 + 4 + 4 = 26 elements";
  l.tokens = 2;
  EXPECT_NO_THROW(heads(memory, l)) << "9 + 4 + 4 = 17 elements";
  l.token_stride = -1;
  EXPECT_EQ(code(l), Code::SHAPE) << "a negative stride";
  l.tokens = 1;
  EXPECT_NO_THROW(heads(memory, l)) << "the stride of one token does not matter";
  for (std::int64_t Layout::*stride : {&Layout::batch_stride, &Layout::token_stride, &Layout::head_stride}) {
    Layout far = bthd(2, 2, 2, 2);
    for (const std::int64_t large :
         {std::numeric_limits<std::int64_t>::max(), std::int64_t{1} << 62, std::int64_t{23}}) {
      far.*stride = large;
      EXPECT_EQ(code(far), Code::SHAPE) << large;
    }
  }
  for (std::int64_t Layout::*size : {&Layout::batch, &Layout::tokens, &Layout::heads}) {
    Layout many = bthd(2, 2, 2, 2);
    for (const std::int64_t count : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
      many.*size = count;
      EXPECT_EQ(code(many), Code::SHAPE) << count;
    }
    many.*size = 0;
    EXPECT_NO_THROW(heads(memory, many)) << "no elements lie anywhere";
  }
  Layout negative = thd(1, 1, 4);
  negative.head_dim = -4;
  EXPECT_EQ(code(negative), Code::SHAPE);
  std::vector<TypeParam> empty;
  EXPECT_NO_THROW(heads(empty, thd(0, 2, 4)));
  EXPECT_EQ(code_of([&] { heads(empty, thd(1, 1, 1)); }), Code::SHAPE);
}

TEST(Storage, SixteenBitTypesRoundToNearestEven) {
  EXPECT_EQ(to_f16(1.0f), f16{0x3c00});
  EXPECT_EQ(to_bf16(1.0f), bf16{0x3f80});
  EXPECT_EQ(to_f16(1 + 0x1p-11f), f16{0x3c00}) << "a tie";
  EXPECT_EQ(to_bf16(1 + 0x3p-8f), bf16{0x3f82}) << "a tie";
  EXPECT_EQ(to_f16(65520.0f), f16{0x7c00});
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const f16 h{static_cast<std::uint16_t>(bits)};
    const bf16 b{static_cast<std::uint16_t>(bits)};
    const bool h_nan = (bits & 0x7fff) > 0x7c00, b_nan = (bits & 0x7fff) > 0x7f80;
    if (h_nan) {
      ASSERT_TRUE(std::isnan(to_float(h)) && std::isnan(to_float(to_f16(to_float(h)))));
    } else {
      ASSERT_EQ(to_f16(to_float(h)), h);
    }
    if (b_nan) {
      ASSERT_TRUE(std::isnan(to_float(b)) && std::isnan(to_float(to_bf16(to_float(b)))));
    } else {
      ASSERT_EQ(to_bf16(to_float(b)), b);
    }
  }
}

// ---- tables from the caller's rows ----

TEST(Borrowed, ReadsWhereTheRowsLieAndCopiesOwnTheirs) {
  std::vector<float> cos = counted(12), sin = counted(12);
  const Table table = Table::borrow(cos, sin, 3, Pairing::interleaved, 2);
  EXPECT_EQ(table.cos().data(), cos.data());
  EXPECT_EQ(table.sin().data(), sin.data());
  EXPECT_EQ(table.pairing(), Pairing::interleaved);
  EXPECT_EQ(table.batch(), 2);
  EXPECT_EQ(table.tokens(), 2);
  EXPECT_EQ(table.rotary_dim(), 6);
  const Table copy = table, own_rows(cos, sin, 3, Pairing::interleaved, 2);
  Table assigned = Table::borrow(cos, sin, 12, Pairing::half);
  assigned = table;
  const std::vector<float> before = cos;
  cos[0] = 99;
  EXPECT_EQ(table.cos()[0], 99);
  for (const Table* own : {&copy, &own_rows, static_cast<const Table*>(&assigned)}) {
    EXPECT_NE(own->cos().data(), cos.data());
    EXPECT_TRUE(std::equal(before.begin(), before.end(), own->cos().begin(), own->cos().end()));
    EXPECT_TRUE(std::equal(sin.begin(), sin.end(), own->sin().begin(), own->sin().end()));
    EXPECT_EQ(own->pairs(), 3);
    EXPECT_EQ(own->batch(), 2);
    EXPECT_EQ(own->pairing(), Pairing::interleaved);
  }
  Table moved = Table::borrow(cos, sin, 3, Pairing::half, 2);
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

TEST(Options, APartIsOneOfThePartsAndHasNoExecutor) {
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
}
TEST(Options, AnglesOrAnExecutorIsEnoughForATable) {
  const ThreadPool pool(2);
  EXPECT_EQ(TableOptions(pool).executor, &pool);
  EXPECT_EQ(TableOptions(Angles::float32).executor, &serial());
}

std::vector<Rope> ropes() {
  std::vector<double> one(32, 1.0), two(32, 2.0);
  std::vector<Rope> all;
  for (const Scaling& scaling :
       std::vector<Scaling>{Unscaled{}, Yarn{4, 64}, Llama3{8, 64}, Dynamic{2, 64},
                            LongRope{.short_factor = one, .long_factor = two, .trained_length = 64, .factor = 2}}) {
    for (const Pairing pairing : pairings) {
      all.push_back(Rope{.head_dim = 80, .rotary_dim = 64, .pairing = pairing, .scaling = scaling});
    }
  }
  return all;
}

TEST(RotateQkByARope, EqualsTheChainBitForBit) {
  Random random(3);
  const ThreadPool pool(2);
  for (const Rope& rope : ropes()) {
    for (const DType dtype : dtypes) {
      for (const std::int64_t first : {0, 60, 61, 100000}) {  // 4 tokens: up to, and beyond, the trained 64
        for (const Direction direction : directions) {
          SCOPED_TRACE(::testing::Message() << name(rope.scaling) << " at " << first);
          const Layout q_layout = bthd(2, 4, 3, 80), k_layout = bhtd(2, 1, 4, 80);
          const Bytes q = hard_values(random, dtype, extent(q_layout)),
                      k = hard_values(random, dtype, extent(k_layout));
          Bytes q_chain = q, k_chain = k, q_once = q, k_once = k;
          const Table table(frequencies(rope, first + 4), positions(first, 4));
          rotate_qk({q_chain.data(), dtype, q_layout}, {k_chain.data(), dtype, k_layout}, table,
                    {.direction = direction});
          rotate_qk({q_once.data(), dtype, q_layout}, {k_once.data(), dtype, k_layout}, rope, first,
                    {.direction = direction, .executor = &pool});
          EXPECT_EQ(q_once, q_chain);
          EXPECT_EQ(k_once, k_chain);
          EXPECT_NE(q_once, q);
        }
      }
    }
  }
}

TEST(RotateQkByARope, RefusesOtherHeadsAndPositionsThatAreNone) {
  constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
  const Rope rope{.head_dim = 8, .pairing = Pairing::half};
  std::vector<float> q(64), k(64);
  const auto call = [&](int q_dim, int k_dim, std::int64_t first, std::int64_t tokens = 2) {
    rotate_qk(heads(q, thd(2, 1, q_dim)), heads(k, thd(tokens, 1, k_dim)), rope, first);
  };
  EXPECT_NO_THROW(call(8, 8, 0));
  EXPECT_NO_THROW(call(8, 8, largest - 1));
  EXPECT_EQ(code_of([&] { call(10, 8, 0); }), Code::SHAPE);
  EXPECT_EQ(code_of([&] { call(8, 6, 0); }), Code::SHAPE);
  EXPECT_EQ(code_of([&] { call(8, 8, 0, 3); }), Code::SHAPE);
  EXPECT_EQ(code_of([&] { call(8, 8, -1); }), Code::POSITION);
  EXPECT_EQ(code_of([&] { call(8, 8, largest); }), Code::POSITION);
  Heads negative{q.data(), DType::f32, thd(2, 1, 8)};
  negative.layout.tokens = -2;
  EXPECT_EQ(code_of([&] { rotate_qk(negative, negative, rope, 0); }), Code::SHAPE);
}

}  // namespace
}  // namespace rotary::tests
