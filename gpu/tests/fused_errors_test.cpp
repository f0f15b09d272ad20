// Calls that the fused operations on the device refuse, with which sentence, and which neighbours in one memory they
// let through.
#include <functional>
#include <limits>
#include <span>

#include "core/tests/support/checks.h"
#include "core/tests/support/refused_appends.h"
#include "core/tests/support/refused_calls.h"
#include "device_heads.h"

namespace rotary::tests {
namespace {

class GpuFusedChecks : public Gpu {
 protected:
  static constexpr std::int64_t tokens = 3, pages = 4;
  static constexpr int head_dim = 16, page_size = 4;
  const Device memory{1 << 16};
  const Layout q_layout = bthd(2, tokens, 4, head_dim), kv_layout = bthd(2, tokens, 2, head_dim);
  const Layout qkv_layout = bthd(2, tokens, 8, head_dim);
  const gpu::Table table = upload(table_of(tokens, 8));
  const Device slot_memory{std::vector<std::int64_t>(64, -1)};
  const gpu::Slots slots = gpu::Slots::flat(slot_memory.as<const std::int64_t>());

  // Elements of f32: q from 0 on, k from 1024, v from 2048, q_out from 3072, the caches from 4096 and 6144.
  Heads at(std::int64_t element, const Layout& l, DType dtype = DType::f32) const {
    return {memory.data() + 4 * element, dtype, l};
  }
  Heads q() const { return at(0, q_layout); }
  Heads k() const { return at(1024, kv_layout); }
  Heads v() const { return at(2048, kv_layout); }
  Heads q_out() const { return at(3072, q_layout); }
  Heads qkv() const { return at(0, qkv_layout); }
  gpu::Cache cache() const {
    return gpu::nhd(memory.data() + 4 * 4096, memory.data() + 4 * 6144, pages, page_size, 2, head_dim);
  }

  void append(const gpu::Cache& to) const { gpu::append(k(), v(), to, slots); }
  void norm_rotate_append(std::int64_t kv_heads, const Heads& to, const gpu::Norm& q_norm = {},
                          const gpu::Norm& k_norm = {}) const {
    gpu::norm_rotate_append(qkv(), kv_heads, to, q_norm, k_norm, table, cache(), slots);
  }
};

// ---- rms_norm ----

// As rotate: whatever breaks a rule about heads alone.
TEST_F(GpuFusedChecks, NormsNothingThatItCannot) {
  for (const JudgedCall& judged : JudgedCalls(memory.data()).all) {
    const RandomCall& c = judged.call;
    const TableShape& t = c.table;
    const bool of_heads = t.tokens == 3 && t.batch == 1 && t.pairs <= 8 && c.direction == Direction::forward;
    if (c.operation != RandomCall::one || !of_heads) continue;
    const auto call = [&] {
      gpu::rms_norm(c.sides[RandomCall::q], c.sides[c.in_place ? RandomCall::q : RandomCall::q_out], {});
    };
    judged.expect(outcome_of(call), "rms_norm");
  }
}

TEST_F(GpuFusedChecks, SaysWhatIsWrongWithANorm) {
  gpu::Norm type, near, negative, tiny, endless, none;
  type.dtype = static_cast<DType>(7);
  near.weight = memory.data() + 2;
  negative.eps = -1e-3f, tiny.eps = -1e-9f, endless.eps = std::numeric_limits<float>::infinity();
  none.eps = std::numeric_limits<float>::quiet_NaN();
  const auto refused = [&](const char* code, const std::string& sentence, const gpu::Norm& norm) {
    expect_error(code, "[rms_norm] the norm's " + sentence, [&] { gpu::rms_norm(q(), q_out(), norm); });
    expect_error(code, "[norm_rotate_append] q_norm's " + sentence, [&] { norm_rotate_append(2, q_out(), norm); });
    expect_error(code, "[norm_rotate_append] k_norm's " + sentence, [&] { norm_rotate_append(2, q_out(), {}, norm); });
  };
  refused("DTYPE", "weight must be f32, f16 or bf16 but got value 7", type);
  refused("DTYPE", "weight must be aligned to 4 bytes but got an address 2 beyond", near);
  refused("VALUE", "eps must be finite and not negative but got -0.001", negative);
  refused("VALUE", "eps must be finite and not negative but got -1e-09", tiny);
  refused("VALUE", "eps must be finite and not negative but got inf", endless);
  refused("VALUE", "eps must be finite and not negative but got nan", none);
  near.dtype = DType::bf16;
  EXPECT_NO_THROW(gpu::rms_norm(q(), q_out(), near));
}

TEST_F(GpuFusedChecks, RefusesToWriteOverAWeight) {
  const auto refuses = [](const std::string& sentence, const auto& call) {
    expect_error("ALIAS", sentence + " but their elements overlap, or interleave with strides that are not the same",
                 call);
  };
  gpu::Norm in_out, in_cache;
  in_out.weight = q_out().data;
  in_cache.weight = memory.data() + 4 * (6144 - 15);
  refuses("[rms_norm] what is written to out must not overlap the norm's weight",
          [&] { gpu::rms_norm(q(), q_out(), in_out); });
  refuses("[norm_rotate_append] what is written to q_out must not overlap q_norm's weight",
          [&] { norm_rotate_append(2, q_out(), in_out); });
  refuses("[norm_rotate_append] what is written to the cache's v must not overlap k_norm's weight",
          [&] { norm_rotate_append(2, q_out(), {}, in_cache); });
  in_cache.weight = memory.data() + 4 * (6144 - 16);
  EXPECT_NO_THROW(norm_rotate_append(2, q_out(), {}, in_cache));
  in_cache.across_heads = true;
  EXPECT_THROW(norm_rotate_append(2, q_out(), {}, in_cache), Error) << "2 heads of 16";
}

// ---- append and rotate_append ----

TEST_F(GpuFusedChecks, RefuseWhatBreaksARuleOfTheHostWithItsSentenceAndNothingElse) {
  const auto* nowhere = slot_memory.as<const std::int64_t>();
  for (const auto& judged : JudgedAppends<gpu::Device>(memory.data(), nowhere).all) {
    const AppendCall<gpu::Device>& c = judged.call;
    judged.expect(outcome_of([&] {
      if (!c.rotates) return gpu::append(c.k, c.v, c.cache, c.slots);
      const gpu::Table rows = gpu::Table::borrow(c.cos, c.sin, c.pairs, Pairing::half, c.rows);
      gpu::rotate_append(c.q, c.q_out, c.k, c.v, rows, c.cache, c.slots);
    }));
  }
  EXPECT_NO_THROW(gpu::synchronize());
}

TEST_F(GpuFusedChecks, SaysWhatIsWrongOnADeviceAlone) {
  gpu::Cache c = cache();
  c.type = static_cast<CacheType>(5);
  expect_error("DTYPE", "[append] the cache must be same or f8_e4m3 but got value 5", [&] { append(c); });
  c.type = CacheType::f16;
  expect_error("DTYPE", "[append] the cache must be same or f8_e4m3 but got f16", [&] { append(c); });
  c.type = CacheType::f8_e4m3;
  c.k_scale = 0;
  c.scales = reinterpret_cast<const float*>(memory.data() + 4 * 8192);
  EXPECT_NO_THROW(append(c)) << "the scales by value do not count then";
  c.scales = static_cast<const float*>(c.k);
  EXPECT_THROW(append(c), Error) << "the scales are written over";
  c = cache();
  c.type = CacheType::f8_e4m3;
  c.head_stride = 32, c.token_stride = 64, c.page_stride = 256;
  c.v = static_cast<std::byte*>(c.k) + 16;
  EXPECT_NO_THROW(append(c));
  c.v = static_cast<std::byte*>(c.k) + 15;
  EXPECT_THROW(append(c), Error);
  EXPECT_THROW(gpu::nhd(nullptr, nullptr, -1, 4, 2, 16), Error);
  EXPECT_THROW(gpu::hnd(nullptr, nullptr, std::int64_t{1} << 60, 16, 2, 16), Error);
  expect_error("DTYPE", "[append] k and v must have one dtype but got f32 and bf16",
               [&] { gpu::append(k(), at(2048, kv_layout, DType::bf16), cache(), slots); });
  const Heads wide = at(0, bthd(2, tokens, 4, 20)), narrow = at(0, q_layout, DType::bf16);
  expect_error(
      "SHAPE",
      "[rotate_append] q and k must have one batch, tokens and head_dim but got [2, 3, 4, 20] and [2, 3, 2, 16]",
      [&] { gpu::rotate_append(wide, wide, k(), v(), table, cache(), slots); });
  expect_error("DTYPE", "[rotate_append] q and k must have one dtype but got bf16 and f32",
               [&] { gpu::rotate_append(narrow, narrow, k(), v(), table, cache(), slots); });
}

TEST_F(GpuFusedChecks, TakeRowsForTheHeadsOfKAndNoXPosAsTheHostDoes) {
  const auto by = [&](const gpu::Table& rows) {
    gpu::rotate_append(q(), q_out(), k(), v(), rows, cache(), slots);
    gpu::norm_rotate_append(qkv(), 2, q_out(), {}, {}, rows, cache(), slots);
  };
  const std::vector<float> values(3 * 4 * 8);
  const auto of_heads = [&](int heads) {
    const auto count = static_cast<std::size_t>(3 * heads * 8);
    return gpu::Table(std::span(values).first(count), std::span(values).first(count), 8, Pairing::half, 1, nullptr,
                      heads);
  };
  EXPECT_NO_THROW(by(of_heads(2)));
  const gpu::Table of_q = of_heads(4), one = of_heads(1);
  const std::string heads = "k must have the 4 heads that the table has rows for but has 2";
  expect_error("SHAPE", "[rotate_append] " + heads,
               [&] { gpu::rotate_append(q(), q_out(), k(), v(), of_q, cache(), slots); });
  expect_error("SHAPE", "[norm_rotate_append] " + heads,
               [&] { gpu::norm_rotate_append(qkv(), 2, q_out(), {}, {}, of_q, cache(), slots); });
  const gpu::Table three = of_heads(3);
  expect_error("SHAPE", "[rotate_append] q must have a multiple of the 3 heads that the table has rows for but has 4",
               [&] { gpu::rotate_append(q(), q_out(), k(), v(), three, cache(), slots); });

  Frequencies f = frequencies({.head_dim = head_dim, .pairing = Pairing::half});
  f.xpos = {512, 0, false};
  const gpu::Table scaled(gpu::Frequencies(f), positions(0, tokens));
  for (const auto& call : std::vector<std::pair<std::string, std::function<void()>>>{
           {"rotate_append", [&] { gpu::rotate_append(q(), q_out(), k(), v(), scaled, cache(), slots); }},
           {"norm_rotate_append", [&] { gpu::norm_rotate_append(qkv(), 2, q_out(), {}, {}, scaled, cache(), slots); }},
           {"rotate_qk", [&] { gpu::rotate_qk(q(), k(), scaled); }}}) {
    expect_error("SCALING",
                 "[" + call.first +
                     "] a table of queries and keys must have no xPos, whose inverse keys take "
                     "(XPos::reciprocal), but has it: turn each by a table of its own",
                 call.second);
  }
  EXPECT_NO_THROW(gpu::rotate(q(), scaled));
}

// ---- norm_rotate_append ----

TEST_F(GpuFusedChecks, RefusesHeadsThatAreNotThoseOfAPackedTensor) {
  EXPECT_THROW(norm_rotate_append(2, at(64, q_layout)), Error) << "q_out is other heads of qkv";
  Layout q_part = qkv_layout;
  q_part.heads = 4;
  EXPECT_NO_THROW(norm_rotate_append(2, at(0, q_part))) << "q's part of qkv";
  expect_error("SHAPE", "[norm_rotate_append] kv_heads must not be negative but got -1",
               [&] { norm_rotate_append(-1, q_out()); });
  expect_error("SHAPE", "[norm_rotate_append] heads must be at least twice kv_heads but got 8 heads and 5 kv_heads",
               [&] { norm_rotate_append(5, q_out()); });
  EXPECT_THROW(norm_rotate_append(std::numeric_limits<std::int64_t>::max(), q_out()), Error);
  expect_error("SHAPE", "[norm_rotate_append] q_out must have the shape of q, [2, 3, 4, 16], but got [2, 3, 2, 16]",
               [&] { norm_rotate_append(2, at(3072, kv_layout)); });
  expect_error("SHAPE", "[norm_rotate_append] qkv must point to its elements but got null", [&] {
    gpu::norm_rotate_append(Heads{nullptr, DType::f32, qkv_layout}, 2, q_out(), {}, {}, table, cache(), slots);
  });
  expect_error("ALIAS",
               "[norm_rotate_append] interleaved_to_half must rotate q out of place but q_out is q's part of qkv", [&] {
                 const gpu::Table crossing = upload(table_of(tokens, 8, 1, Pairing::interleaved_to_half));
                 Layout part = qkv_layout;
                 part.heads = 4;
                 gpu::norm_rotate_append(qkv(), 2, at(0, part), {}, {}, crossing, cache(), slots);
               });
}

TEST_F(GpuFusedChecks, ReordersNoLongerHeadsInPlaceThanAKernelTakes) {
  const Layout wide = thd(1, 1, 2050);
  const gpu::Table crossing = upload(table_of(1, 1025, 1, Pairing::interleaved_to_half));
  const Device caches{4 * 2 * 2050};
  const gpu::Cache to = gpu::nhd(caches.data(), caches.data() + 4 * 2050, 1, 1, 1, 2050);
  expect_error(
      "SHAPE", "[rotate_append] interleaved_to_half in place takes a rotary_dim of at most 2048 but got 2050",
      [&] { gpu::rotate_append(at(0, wide), at(0, wide), at(4096, wide), at(6146, wide), crossing, to, slots); });
  EXPECT_NO_THROW(gpu::rotate_append(at(0, wide), at(2050, wide), at(4100, wide), at(6150, wide), crossing, to, slots));
}

TEST_F(GpuFusedChecks, DoesNothingWithoutElements) {
  const Layout none = bthd(2, 0, 4, head_dim);
  const gpu::Table empty = upload(table_of(0, 8));
  const auto nowhere = [](const Layout& l) { return Heads{nullptr, DType::bf16, l}; };
  EXPECT_NO_THROW(gpu::rms_norm(nowhere(none), nowhere(none), {}));
  EXPECT_NO_THROW(gpu::norm_rotate_append(nowhere(none), 1, nowhere(bthd(2, 0, 2, head_dim)), {}, {}, empty, {}, {}));
}

}  // namespace
}  // namespace rotary::tests
