// What append and rotate_append refuse, with which sentence, and which neighbours in one memory they let through.
#include <array>
#include <functional>
#include <limits>
#include <numeric>

#include "rotary/cache.h"
#include "tests/support/checks.h"

namespace rotary::tests {
namespace {

class AppendChecks : public ::testing::Test {
 protected:
  static constexpr std::int64_t tokens = 3, pages = 4;
  static constexpr int head_dim = 16, page_size = 4;
  const Layout q_layout = bthd(2, tokens, 4, head_dim), kv_layout = bthd(2, tokens, 2, head_dim);
  const Table table = table_of(tokens, 8);
  std::vector<float> memory = std::vector<float>(1 << 14);
  std::array<std::int64_t, 6> slot_mapping{0, 1, 2, 4, 5, 6};
  const Slots slots = Slots::flat(slot_mapping.data());

  // q from element 0 on, k from 1024, v from 2048, q_out from 3072, the caches from 4096 and 6144.
  Heads at(std::int64_t element, const Layout& l, DType dtype = DType::f32) {
    return {memory.data() + element, dtype, l};
  }
  Heads q() { return at(0, q_layout); }
  Heads k() { return at(1024, kv_layout); }
  Heads v() { return at(2048, kv_layout); }
  Heads q_out() { return at(3072, q_layout); }
  Cache cache() { return nhd(memory.data() + 4096, memory.data() + 6144, pages, page_size, 2, head_dim); }

  void to(const Cache& there, const Slots& by) { append(k(), v(), there, by); }
  void to(const Cache& there) { to(there, slots); }
  void rotate_to(const Cache& there) { rotate_append(q(), q_out(), k(), v(), table, there, slots); }
  static void overlaps(const std::string& sentence, const std::function<void()>& call) {
    expect_error("ALIAS",
                 (sentence + " but their elements overlap, or interleave with strides that are not the same").c_str(),
                 call);
  }
};

TEST_F(AppendChecks, ValidCallsPass) {
  EXPECT_NO_THROW(to(cache()));
  EXPECT_NO_THROW(rotate_to(cache()));
  EXPECT_NO_THROW(rotate_append(q(), k(), v(), table, cache(), slots));
}

TEST_F(AppendChecks, SaysWhatIsWrongWithHeads) {
  expect_error("SHAPE", "[append] v must have the shape of k, [2, 3, 2, 16], but got [2, 3, 1, 16]",
               [&] { append(k(), at(2048, bthd(2, 3, 1, 16)), cache(), slots); });
  expect_error("SHAPE", "[append] k must point to its elements but got null", [&] {
    append(Heads{nullptr, DType::f32, kv_layout}, v(), cache(), slots);
  });
  expect_error("DTYPE", "[append] v must be aligned to the 4 bytes of f32 but got an address 2 beyond", [&] {
    append(k(), Heads{reinterpret_cast<char*>(memory.data() + 2048) + 2, DType::f32, kv_layout}, cache(), slots);
  });
  expect_error("DTYPE", "[append] dtype must be f32, f16 or bf16 but got value 9",
               [&] { append(at(1024, kv_layout, static_cast<DType>(9)), v(), cache(), slots); });
  Layout negative = kv_layout;
  negative.token_stride = -1;
  expect_error("SHAPE", "[append] k token_stride must not be negative but got -1",
               [&] { append(at(1024, negative), v(), cache(), slots); });
  expect_error("SHAPE",
               "[rotate_append] q and k must have one batch and tokens but got [1, 3, 4, 16] and [2, 3, 2, 16]",
               [&] { rotate_append(at(0, bthd(1, 3, 4, 16)), k(), v(), table, cache(), slots); });
  expect_error("SHAPE", "[rotate_append] q_out must have the shape of q, [2, 3, 4, 16], but got [2, 3, 2, 16]",
               [&] { rotate_append(q(), at(3072, kv_layout), k(), v(), table, cache(), slots); });
  expect_error("SHAPE", "[rotate_append] table has 2 rows but q has 3 tokens",
               [&] { rotate_append(q(), k(), v(), table_of(2, 8), cache(), slots); });
  const Layout wide = bthd(2, tokens, 4, 18);
  expect_error("SHAPE", "[rotate_append] rotary_dim must be at most k's head_dim 16 but the table's is 18",
               [&] { rotate_append(at(0, wide), k(), v(), table_of(3, 9), cache(), slots); });
  expect_error("VALUE", "[rotate_append] direction must be forward or backward but got value 7",
               [&] { rotate_append(q(), k(), v(), table, cache(), slots, static_cast<Direction>(7)); });
}

TEST_F(AppendChecks, SaysWhatIsWrongWithACache) {
  Cache c = cache();
  c.type = static_cast<CacheType>(9);
  expect_error("DTYPE", "[append] the cache must be same, f8_e4m3, f32, f16 or bf16 but got value 9", [&] { to(c); });
  c = cache();
  c.pages = 0;
  expect_error("SHAPE", "[append] the cache must have pages of tokens but got 0 pages of 4", [&] { to(c); });
  c = cache();
  c.heads = 3;
  expect_error("SHAPE",
               "[rotate_append] the cache must have the heads and the head_dim of k, 2 and 16, but got 3 and 16",
               [&] { rotate_to(c); });
  c = cache();
  c.head_stride = 15;
  expect_error("SHAPE", "[append] the cache's elements must be distinct but head_stride 15 steps over 16 elements",
               [&] { to(c); });
  c = cache();
  c.token_stride = -32;
  expect_error("SHAPE", "[append] the cache's token_stride must not be negative but got -32", [&] { to(c); });
  c = cache();
  c.page_stride = std::numeric_limits<std::int64_t>::max() / 2;
  expect_error("SHAPE",
               "[append] the cache must span less than 2^63 bytes but got page_stride 4611686018427387903 times 4",
               [&] { to(c); });
  c = cache();
  c.v = nullptr;
  expect_error("SHAPE", "[append] the cache's v must point to its elements but got null", [&] { to(c); });
  c = cache();
  c.k = reinterpret_cast<char*>(c.k) + 2;
  expect_error("DTYPE", "[append] the cache's k must be aligned to 4 bytes but got an address 2 beyond",
               [&] { to(c); });
  c.type = CacheType::bf16;
  EXPECT_NO_THROW(to(c)) << "2 bytes are enough for bf16";
  const Layout huge = bthd(1, 1, 1, 4098);
  const Table rows = table_of(1, 8);
  c = nhd(memory.data() + 8192, memory.data() + 12300, 1, 1, 1, 4098, CacheType::f16);
  expect_error("SHAPE", "[rotate_append] head_dim must be at most 4096 where the cache's type is not k's but got 4098",
               [&] { rotate_append(at(0, thd(1, 1, 16)), at(0, huge), at(0, huge), rows, c, Slots::rows(0)); });
  EXPECT_NO_THROW(append(at(0, huge), at(0, huge), c, Slots::rows(0))) << "nothing rotates";
}

TEST_F(AppendChecks, SaysWhatIsWrongWithScales) {
  Cache c = cache();
  c.type = CacheType::f8_e4m3;
  c.k_scale = 0;
  expect_error("VALUE", "[append] k_scale must be finite and above 0 but got 0", [&] { to(c); });
  c.k_scale = 1;
  c.v_scale = std::numeric_limits<float>::infinity();
  expect_error("VALUE", "[append] v_scale must be finite and above 0 but got inf", [&] { to(c); });
  const std::array scales{1.0f, -2.0f};
  c.scales = scales.data();
  expect_error("VALUE", "[append] v_scale must be finite and above 0 but got -2", [&] { to(c); });
  c.type = CacheType::same;
  EXPECT_NO_THROW(to(c)) << "nothing is scaled";
}

TEST_F(AppendChecks, SaysWhatIsWrongWithSlots) {
  expect_error("SHAPE", "[append] slots must be given by a slot mapping or by pages but got neither",
               [&] { to(cache(), Slots{}); });
  Slots s = slots;
  s.sequences = 1;
  expect_error("SHAPE", "[append] slots must be given by a slot mapping or by pages but got both",
               [&] { to(cache(), s); });
  s = slots;
  s.by_row = true;
  expect_error("SHAPE", "[append] slots must be given by rows, or by a slot mapping or by pages, but got several",
               [&] { to(cache(), s); });
  std::array<std::int32_t, 8> numbers{};
  expect_error("SHAPE", "[append] indices must point to its elements but got null",
               [&] { to(cache(), Slots::paged(numbers.data(), nullptr, numbers.data(), numbers.data(), 1)); });
  expect_error("SHAPE", "[append] sequences must not be negative but got -1",
               [&] { to(cache(), Slots::paged(numbers.data(), numbers.data(), numbers.data(), numbers.data(), -1)); });
  expect_error("DTYPE", "[append] the slot mapping must be aligned to 8 bytes but got an address 4 beyond", [&] {
    to(cache(), Slots::flat(reinterpret_cast<std::int64_t*>(reinterpret_cast<char*>(slot_mapping.data()) + 4)));
  });
}

TEST_F(AppendChecks, AFullRowIsAnErrorAndPaddingIsNot) {
  EXPECT_NO_THROW(to(cache(), Slots::rows(1)));
  expect_error("SHAPE", "[append] the tokens of batch row 1 must end inside its page of 4 tokens but got 3 from 2 on",
               [&] { to(cache(), Slots::rows(2)); });
  const std::array<std::int64_t, 2> firsts{-1, 1}, full{std::numeric_limits<std::int64_t>::max(), 0};
  EXPECT_NO_THROW(to(cache(), Slots::each_row(firsts.data())));
  expect_error(
      "SHAPE",
      "[append] the tokens of batch row 0 must end inside its page of 4 tokens but got 3 from 9223372036854775807 on",
      [&] { to(cache(), Slots::each_row(full.data())); });
  expect_error("SHAPE", "[append] the first places must point to its elements but got null",
               [&] { to(cache(), Slots::each_row(nullptr)); });
  EXPECT_NO_THROW(to(cache(), Slots::rows(-1))) << "all padding";
  Cache c = cache();
  c.pages = 1;
  expect_error("SHAPE", "[append] the cache must have a page for each batch row but got 1 pages and 2 batch rows",
               [&] { to(c, Slots::rows(0)); });
}

TEST_F(AppendChecks, RefusesToWriteOverItsArguments) {
  Cache c = cache();
  c.v = c.k;
  overlaps("[append] what is written to the cache's k must not overlap the cache's v", [&] { to(c); });
  c = cache();
  c.k = k().data;
  overlaps("[append] what is written to the cache's k must not overlap k", [&] { to(c); });
  c = cache();
  c.v = v().data;
  overlaps("[append] what is written to the cache's v must not overlap v", [&] { to(c); });
  c = cache();
  c.k = q_out().data;
  overlaps("[rotate_append] what is written to q_out must not overlap the cache's k", [&] { rotate_to(c); });
  c.k = q().data;
  overlaps("[rotate_append] what is written to the cache's k must not overlap q", [&] { rotate_to(c); });
  overlaps("[rotate_append] what is written to q_out must not overlap k",
           [&] { rotate_append(q(), at(1024 - 8, q_layout), k(), v(), table, cache(), slots); });
  const auto* inside = reinterpret_cast<const std::int64_t*>(cache().v);
  overlaps("[append] what is written to the cache's v must not overlap the slot mapping",
           [&] { to(cache(), Slots::flat(inside)); });
  overlaps("[append] what is written to the cache's v must not overlap the first places",
           [&] { to(cache(), Slots::each_row(inside)); });
  const std::span<const float> rows(memory.data() + 4100, 24);
  const Table borrowed = Table::borrow(rows, rows, 8, Pairing::half);
  overlaps("[rotate_append] what is written to the cache's k must not overlap the table's cos",
           [&] { rotate_append(q(), k(), v(), borrowed, cache(), slots); });
  const std::vector<float> apart(3 * 8);
  overlaps("[rotate_append] what is written to the cache's k must not overlap the table's sin",
           [&] { rotate_append(q(), k(), v(), Table::borrow(apart, rows, 8, Pairing::half), cache(), slots); });
  c = cache();
  c.type = CacheType::f8_e4m3;
  c.scales = static_cast<const float*>(c.v);
  memory[6144] = memory[6145] = 1;
  overlaps("[append] what is written to the cache's v must not overlap scales", [&] { to(c); });
}

// Keys and values of a page side by side, and k, v and q in one tensor.
TEST_F(AppendChecks, NeighboursInOneMemoryPass) {
  Cache c = cache();
  c.page_stride *= 2;
  c.v = static_cast<float*>(c.k) + page_size * 2 * head_dim;
  EXPECT_NO_THROW(to(c));
  EXPECT_NO_THROW(rotate_to(c));
  Layout part = bthd(2, tokens, 8, head_dim);
  part.heads = 4;
  // A borrowed table on both sides of what is written, either way round.
  const std::span<const float> before(memory.data() + 4000, 3 * 8), behind(memory.data() + 10000, 3 * 8);
  for (const Table& around :
       {Table::borrow(before, behind, 8, Pairing::half), Table::borrow(behind, before, 8, Pairing::half)}) {
    EXPECT_NO_THROW(rotate_append(q(), k(), v(), around, cache(), slots));
  }
  const Heads packed_q = at(0, part);
  part.heads = 2;
  EXPECT_NO_THROW(rotate_append(packed_q, at(64, part), at(96, part), table, cache(), slots));
}

TEST_F(AppendChecks, ACallWithoutElementsDoesNothing) {
  const Layout none = bthd(2, tokens, 0, head_dim);
  EXPECT_NO_THROW(append(Heads{nullptr, DType::f32, none}, Heads{nullptr, DType::f32, none}, Cache{}, Slots{}));
  EXPECT_NO_THROW(
      rotate_append(q(), Heads{nullptr, DType::f32, none}, Heads{nullptr, DType::f32, none}, table, Cache{}, Slots{}));
  const Layout no_tokens = bthd(2, 0, 2, head_dim);
  EXPECT_NO_THROW(rotate_append(at(0, no_tokens), at(0, no_tokens), at(0, no_tokens), table_of(0, 8), cache(), slots));
}

TEST(CacheTypes, HaveNames) {
  for (const CacheType type : {CacheType::same, CacheType::f8_e4m3, CacheType::f32, CacheType::f16, CacheType::bf16}) {
    EXPECT_EQ(parse_cache_type(name(type)), type);
  }
  EXPECT_STREQ(name(static_cast<CacheType>(9)), "unknown");
  expect_error("DTYPE", "[parse_cache_type] the name must be same, f8_e4m3, f32, f16 or bf16 but got \"fp8\"",
               [] { parse_cache_type("fp8"); });
  expect_error("SHAPE", "[nhd] sizes must not be negative but got -1", [] { nhd(nullptr, nullptr, -1, 16, 2, 64); });
}

}  // namespace
}  // namespace rotary::tests
