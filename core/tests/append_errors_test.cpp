// append and rotate_append: what they refuse, with which sentence, and which neighbours in one memory they let through.
#include <array>
#include <limits>

#include "core/tests/support/checks.h"
#include "core/tests/support/refused_appends.h"
#include "rotary/cache.h"

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

  // q from element 0 on, k from 1024, v from 2048, the caches from 4096 and 6144.
  Heads at(std::int64_t element, const Layout& l) { return {memory.data() + element, DType::f32, l}; }
  Heads q() { return at(0, q_layout); }
  Heads k() { return at(1024, kv_layout); }
  Heads v() { return at(2048, kv_layout); }
  Cache cache() { return nhd(memory.data() + 4096, memory.data() + 6144, pages, page_size, 2, head_dim); }

  void to(const Cache& there, const Slots& by) { append(k(), v(), there, by); }
  std::byte* bytes() { return reinterpret_cast<std::byte*>(memory.data()); }
};

TEST_F(AppendChecks, RefuseWhatBreaksARuleWithItsSentenceAndNothingElse) {
  const std::vector<std::int64_t> nowhere(64, -1);
  for (const JudgedAppend<Host>& judged : JudgedAppends<Host>(bytes(), nowhere.data()).all) {
    const AppendCall<Host>& c = judged.call;
    judged.expect(outcome_of([&] {
      if (!c.rotates) return append(c.k, c.v, c.cache, c.slots);
      const auto count = static_cast<std::size_t>(c.rows * c.pairs);
      const Table rows = Table::borrow({c.cos, count}, {c.sin, count}, c.pairs, Pairing::half);
      rotate_append(c.q, c.q_out, c.k, c.v, rows, c.cache, c.slots);
    }));
  }
}

TEST_F(AppendChecks, SaysWhatIsWrongOnTheHostAlone) {
  expect_error("SHAPE",
               "[rotate_append] q and k must have one batch and tokens but got [1, 3, 4, 16] and [2, 3, 2, 16]",
               [&] { rotate_append(at(0, bthd(1, 3, 4, 16)), k(), v(), table, cache(), slots); });
  expect_error("SHAPE", "[rotate_append] rotary_dim must be at most k's head_dim 16 but the table's is 18",
               [&] { rotate_append(at(0, bthd(2, tokens, 4, 18)), k(), v(), table_of(3, 9), cache(), slots); });
  expect_error("VALUE", "[rotate_append] direction must be forward or backward but got value 7",
               [&] { rotate_append(q(), k(), v(), table, cache(), slots, {.direction = static_cast<Direction>(7)}); });
  std::array<std::int64_t, 6> beyond = slot_mapping;
  beyond[4] = 16, beyond[1] = -1;
  Slots missing = Slots::flat(beyond.data());
  const auto refused = [&](const std::string& sentence) {
    expect_error("SHAPE", "[append] " + sentence, [&] { to(cache(), missing); });
    expect_error("SHAPE", "[rotate_append] " + sentence,
                 [&] { rotate_append(q(), k(), v(), table, cache(), missing); });
    Slots skipping = missing;
    skipping.skip_missing = true;
    EXPECT_NO_THROW(to(cache(), skipping)) << sentence;
  };
  refused("slots must be below the cache's 16 but token 4 has slot 16");
  const std::array<std::int32_t, 6> narrow{0, 1, 2, 4, 5, 99};
  missing = Slots::flat(narrow.data());
  refused("slots must be below the cache's 16 but token 5 has slot 99");
  std::array<std::int32_t, 3> indptr{0, 1, 2};
  std::array<std::int32_t, 2> indices{3, 0};
  std::array<std::int32_t, 6> sequence{0, 0, 0, -1, 1, 1}, place{0, 1, 2, 9, 0, 4};
  missing = Slots::paged(indptr.data(), indices.data(), sequence.data(), place.data(), 2);
  refused("positions must lie in their sequence's pages but token 5 of sequence 1 has 4");
  place[5] = 3, sequence[4] = 2;
  refused("batch_indices must be below the 2 sequences but token 4 has 2");
  sequence[4] = 1, indices[1] = 4;
  refused("indices must be pages of the cache, from 0 to 3, but token 4 has page 4");
  indices[1] = 0;
  EXPECT_NO_THROW(to(cache(), missing));
  indptr[0] = -1;
  refused("positions must lie in their sequence's pages but token 0 of sequence 0 has 0");
  indptr[0] = 0;
  missing.slot_int32 = narrow.data();
  expect_error("SHAPE", "[append] slots must be given by a slot mapping or by pages but got both",
               [&] { to(cache(), missing); });
  missing = Slots::flat(narrow.data());
  missing.slot = slot_mapping.data();
  expect_error("SHAPE", "[append] slots must be given by a slot mapping or by pages but got two mappings",
               [&] { to(cache(), missing); });
  Cache c = cache();
  c.type = static_cast<CacheType>(9);
  expect_error("DTYPE", "[append] the cache must be same, f8_e4m3, f32, f16 or bf16 but got value 9",
               [&] { to(c, slots); });
  c = cache();
  c.k = static_cast<std::byte*>(c.k) + 2;
  c.type = CacheType::bf16;
  EXPECT_NO_THROW(to(c, slots)) << "2 bytes are enough for bf16";
  const Layout huge = bthd(1, 1, 1, 4098);
  c = nhd(memory.data() + 8192, memory.data() + 12300, 1, 1, 1, 4098, CacheType::f16);
  expect_error(
      "SHAPE", "[rotate_append] head_dim must be at most 4096 where the cache's type is not k's but got 4098",
      [&] { rotate_append(at(0, thd(1, 1, 16)), at(0, huge), at(0, huge), table_of(1, 8), c, Slots::rows(0)); });
  EXPECT_NO_THROW(append(at(0, huge), at(0, huge), c, Slots::rows(0))) << "nothing rotates";
  c = cache();
  c.type = CacheType::f8_e4m3;
  const std::array scales{1.0f, -2.0f};
  c.scales = scales.data();
  expect_error("VALUE", "[append] v_scale must be finite and above 0 but got -2", [&] { to(c, slots); });
  c.scales = static_cast<const float*>(c.v);
  memory[6144] = memory[6145] = 1;
  expect_error("ALIAS",
               "[append] what is written to the cache's v must not overlap scales but their elements overlap, or "
               "interleave with strides that are not the same",
               [&] { to(c, slots); });
  memory[6144] = memory[6145] = 0;
  Slots s = slots;
  s.by_row = true;
  expect_error("SHAPE", "[append] slots must be given by rows, or by a slot mapping or by pages, but got several",
               [&] { to(cache(), s); });
  expect_error("ALIAS",
               "[append] what is written to the cache's v must not overlap the first places but their elements "
               "overlap, or interleave with strides that are not the same",
               [&] { to(cache(), Slots::each_row(reinterpret_cast<const std::int64_t*>(cache().v))); });
  Layout part = bthd(2, tokens, 8, head_dim);  // k, v and q in one tensor
  part.heads = 4;
  const Heads packed_q = at(0, part);
  part.heads = 2;
  EXPECT_NO_THROW(rotate_append(packed_q, at(64, part), at(96, part), table, cache(), slots));
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
