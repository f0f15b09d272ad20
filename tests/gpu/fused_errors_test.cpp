// What the fused operations on the device refuse, with which sentence, and which neighbours in one memory they let
// through.
#include <functional>
#include <limits>

#include "device_heads.h"
#include "tests/support/checks.h"

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
  void rotate_append(const Heads& to, const gpu::Cache& there) const {
    gpu::rotate_append(q(), to, k(), v(), table, there, slots);
  }
  void norm_rotate_append(std::int64_t kv_heads, const Heads& to, const gpu::Norm& q_norm = {},
                          const gpu::Norm& k_norm = {}) const {
    gpu::norm_rotate_append(qkv(), kv_heads, to, q_norm, k_norm, table, cache(), slots);
  }
};

// ---- rms_norm ----

TEST_F(GpuFusedChecks, NormsNothingThatItCannot) {
  gpu::Norm norm;
  expect_error("SHAPE", "[rms_norm] out must have the shape of x, [2, 3, 4, 16], but got [2, 3, 2, 16]",
               [&] { gpu::rms_norm(q(), at(3072, kv_layout), norm); });
  expect_error("DTYPE", "[rms_norm] x and out must have one dtype but got f32 and f16",
               [&] { gpu::rms_norm(q(), at(3072, q_layout, DType::f16), norm); });
  expect_error("SHAPE", "[rms_norm] x must point to its elements but got null", [&] {
    gpu::rms_norm(Heads{nullptr, DType::f32, q_layout}, q_out(), norm);
  });
  expect_error(
      "ALIAS",
      "[rms_norm] x and out must not overlap, or be the same with the same strides, but out begins 1 elements from x",
      [&] { gpu::rms_norm(q(), at(1, q_layout), norm); });
  Layout overlapping = q_layout;
  overlapping.head_stride = 15;
  expect_error("SHAPE", "[rms_norm] the written elements must be distinct but head_stride 15 steps over 16 elements",
               [&] { gpu::rms_norm(q(), at(3072, overlapping), norm); });
  EXPECT_NO_THROW(gpu::rms_norm(q(), q(), norm));
  EXPECT_NO_THROW(gpu::rms_norm(at(0, overlapping), q_out(), norm)) << "read only";
}

TEST_F(GpuFusedChecks, SaysWhatIsWrongWithANorm) {
  gpu::Norm norm;
  norm.dtype = static_cast<DType>(7);
  expect_error("DTYPE", "[rms_norm] the norm's weight must be f32, f16 or bf16 but got value 7",
               [&] { gpu::rms_norm(q(), q_out(), norm); });
  norm = {};
  norm.weight = memory.data() + 2;
  expect_error("DTYPE", "[norm_rotate_append] k_norm's weight must be aligned to 4 bytes but got an address 2 beyond",
               [&] { norm_rotate_append(2, q_out(), {}, norm); });
  norm.dtype = DType::bf16;
  EXPECT_NO_THROW(gpu::rms_norm(q(), q_out(), norm));
  norm = {};
  norm.eps = -1e-3f;
  expect_error("VALUE", "[rms_norm] the norm's eps must be finite and not negative but got -0.001",
               [&] { gpu::rms_norm(q(), q_out(), norm); });
  norm.eps = -1e-9f;
  expect_error("VALUE", "[rms_norm] the norm's eps must be finite and not negative but got -1e-09",
               [&] { gpu::rms_norm(q(), q_out(), norm); });
  norm.eps = std::numeric_limits<float>::infinity();
  expect_error("VALUE", "[norm_rotate_append] q_norm's eps must be finite and not negative but got inf",
               [&] { norm_rotate_append(2, q_out(), norm); });
  norm.eps = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(gpu::rms_norm(q(), q_out(), norm), Error);
}

// A weight, a slot and so on inside what is written.
TEST_F(GpuFusedChecks, RefusesToWriteOverWhatSaysHow) {
  const auto refuses = [](const std::string& sentence, const auto& call) {
    expect_error("ALIAS",
                 (sentence + " but their elements overlap, or interleave with strides that are not the same").c_str(),
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

  const auto* four = slot_memory.as<const std::int32_t>();
  const auto* k_cache = reinterpret_cast<const std::int32_t*>(cache().k);
  const auto to = [&](const gpu::Slots& s) { gpu::append(k(), v(), cache(), s); };
  const std::string k_written = "[append] what is written to the cache's k must not overlap ";
  refuses(k_written + "the slot mapping",
          [&] { to(gpu::Slots::flat(reinterpret_cast<const std::int64_t*>(k_cache - 2))); });
  refuses(k_written + "indptr", [&] { to(gpu::Slots::paged(k_cache - 2, four, four, four, 2)); });
  refuses(k_written + "batch_indices", [&] { to(gpu::Slots::paged(four, four, k_cache - 5, four, 1)); });
  refuses(k_written + "positions", [&] { to(gpu::Slots::paged(four, four, four, k_cache, 1)); });
  EXPECT_NO_THROW(to(gpu::Slots::paged(four, four, k_cache - 6, four, 0)));
  gpu::Cache c = cache();
  c.type = gpu::CacheType::f8_e4m3;
  c.scales = static_cast<const float*>(c.k);
  refuses(k_written + "scales", [&] { append(c); });
  refuses("[rotate_append] what is written to q_out must not overlap the slot mapping", [&] {
    gpu::rotate_append(q(), q_out(), k(), v(), table, cache(),
                       gpu::Slots::flat(static_cast<const std::int64_t*>(q_out().data)));
  });
  const gpu::Table rows = gpu::Table::borrow(memory.as<const float>() + 8192, static_cast<const float*>(cache().v), 8,
                                             Pairing::half, tokens);
  refuses("[rotate_append] what is written to the cache's v must not overlap the table's sin",
          [&] { gpu::rotate_append(q(), q_out(), k(), v(), rows, cache(), slots); });
}

// ---- caches and slots ----

TEST_F(GpuFusedChecks, SaysWhatIsWrongWithACache) {
  const auto with = [&](auto change) {
    gpu::Cache c = cache();
    change(c);
    return c;
  };
  expect_error("DTYPE", "[append] the cache must be same or f8_e4m3 but got value 5",
               [&] { append(with([](auto& c) { c.type = static_cast<gpu::CacheType>(5); })); });
  expect_error("DTYPE", "[append] the cache must be same or f8_e4m3 but got f16",
               [&] { append(with([](auto& c) { c.type = gpu::CacheType::f16; })); });
  expect_error("SHAPE", "[append] the cache must have pages of tokens but got 0 pages of 4",
               [&] { append(with([](auto& c) { c.pages = 0; })); });
  expect_error("SHAPE", "[rotate_append] the cache must have pages of tokens but got 4 pages of -4",
               [&] { rotate_append(q_out(), with([](auto& c) { c.page_size = -4; })); });
  expect_error("SHAPE", "[append] the cache must have the heads and the head_dim of k, 2 and 16, but got 3 and 16",
               [&] { append(with([](auto& c) { c.heads = 3; })); });
  expect_error("SHAPE", "[append] the cache must have the heads and the head_dim of k, 2 and 16, but got 2 and 24",
               [&] { append(with([](auto& c) { c.head_dim = 24; })); });
  expect_error("SHAPE", "[append] the cache's elements must be distinct but head_stride 15 steps over 16 elements",
               [&] { append(with([](auto& c) { c.head_stride = 15; })); });
  expect_error("SHAPE", "[append] the cache's page_stride must not be negative but got -128",
               [&] { append(with([](auto& c) { c.page_stride = -128; })); });
  expect_error("SHAPE", "[append] the cache must span less than 2^63 bytes but got more",
               [&] { append(with([](auto& c) { c.page_stride = std::int64_t{1} << 60; })); });
  expect_error("SHAPE", "[append] the cache's k must point to its elements but got null",
               [&] { append(with([](auto& c) { c.k = nullptr; })); });
  expect_error("SHAPE", "[append] the cache's v must point to its elements but got null",
               [&] { append(with([](auto& c) { c.v = nullptr; })); });
  expect_error("DTYPE", "[append] the cache's v must be aligned to 4 bytes but got an address 2 beyond",
               [&] { append(with([](auto& c) { c.v = static_cast<std::byte*>(c.v) + 2; })); });
  expect_error("SHAPE", "[append] the cache's v must end inside the address space but spans 2048 bytes",
               [&] { append(with([](auto& c) { c.v = reinterpret_cast<void*>(~std::uintptr_t{1023}); })); });
  EXPECT_THROW(gpu::nhd(nullptr, nullptr, -1, 4, 2, 16), Error);
  EXPECT_THROW(gpu::hnd(nullptr, nullptr, std::int64_t{1} << 60, 16, 2, 16), Error);
}

TEST_F(GpuFusedChecks, SaysWhatIsWrongWithScales) {
  gpu::Cache c = cache();
  c.k_scale = 0;
  EXPECT_NO_THROW(append(c)) << "of a cache that has no use for them";
  c.type = gpu::CacheType::f8_e4m3;
  expect_error("VALUE", "[append] k_scale must be finite and above 0 but got 0", [&] { append(c); });
  c.k_scale = 1;
  c.v_scale = -2.5e-9f;
  expect_error("VALUE", "[append] v_scale must be finite and above 0 but got -2.5e-09", [&] { append(c); });
  c.v_scale = std::numeric_limits<float>::infinity();
  EXPECT_THROW(append(c), Error);
  c.scales = reinterpret_cast<const float*>(memory.data() + 4 * 8192 + 1);
  expect_error("DTYPE", "[append] scales must be aligned to 4 bytes but got an address 1 beyond", [&] { append(c); });
  c.scales = reinterpret_cast<const float*>(memory.data() + 4 * 8192);
  EXPECT_NO_THROW(append(c)) << "those by value do not count then";
}

TEST_F(GpuFusedChecks, SaysWhatIsWrongWithSlots) {
  const auto* four = slot_memory.as<const std::int32_t>();
  const auto to = [&](const gpu::Slots& s) { gpu::append(k(), v(), cache(), s); };
  expect_error("SHAPE", "[append] slots must be given by a slot mapping or by pages but got neither",
               [&] { to(gpu::Slots{}); });
  expect_error("SHAPE", "[append] slots must be given by a slot mapping or by pages but got both", [&] {
    gpu::Slots both = slots;
    both.indptr = four;
    to(both);
  });
  expect_error("DTYPE", "[append] the slot mapping must be aligned to 8 bytes but got an address 4 beyond",
               [&] { to(gpu::Slots::flat(reinterpret_cast<const std::int64_t*>(slot_memory.data() + 4))); });
  expect_error("SHAPE", "[append] sequences must not be negative but got -1",
               [&] { to(gpu::Slots::paged(four, four, four, four, -1)); });
  expect_error("SHAPE", "[append] indptr must point to its elements but got null",
               [&] { to(gpu::Slots::paged(nullptr, four, four, four, 1)); });
  expect_error("SHAPE", "[append] indices must point to its elements but got null",
               [&] { to(gpu::Slots::paged(four, nullptr, four, four, 1)); });
  expect_error("SHAPE", "[append] batch_indices must point to its elements but got null",
               [&] { to(gpu::Slots::paged(four, four, nullptr, four, 1)); });
  expect_error("SHAPE", "[append] positions must point to its elements but got null",
               [&] { to(gpu::Slots::paged(four, four, four, nullptr, 1)); });
  expect_error("DTYPE", "[append] indices must be aligned to 4 bytes but got an address 2 beyond", [&] {
    to(gpu::Slots::paged(four, reinterpret_cast<const std::int32_t*>(slot_memory.data() + 2), four, four, 1));
  });
  EXPECT_NO_THROW(to(gpu::Slots::paged(four, four, four, four, 0)));
}

// ---- q, k and v ----

TEST_F(GpuFusedChecks, RefusesKAndVThatAreNoPair) {
  expect_error("SHAPE", "[append] v must have the shape of k, [2, 3, 2, 16], but got [2, 3, 4, 16]",
               [&] { gpu::append(k(), at(2048, q_layout), cache(), slots); });
  expect_error("DTYPE", "[append] k and v must have one dtype but got f32 and bf16",
               [&] { gpu::append(k(), at(2048, kv_layout, DType::bf16), cache(), slots); });
  expect_error("SHAPE", "[append] k must point to its elements but got null", [&] {
    gpu::append(Heads{nullptr, DType::f32, kv_layout}, v(), cache(), slots);
  });
  expect_error("DTYPE", "[append] v must be aligned to the 4 bytes of f32 but got an address 2 beyond", [&] {
    gpu::append(k(), Heads{memory.data() + 8194, DType::f32, kv_layout}, cache(), slots);
  });
  Layout backwards = kv_layout;
  backwards.token_stride = -32;
  expect_error("SHAPE", "[append] v token_stride must not be negative but got -32",
               [&] { gpu::append(k(), at(2048, backwards), cache(), slots); });
}

TEST_F(GpuFusedChecks, RefusesQThatDoesNotGoWithK) {
  expect_error(
      "SHAPE",
      "[rotate_append] q and k must have one batch, tokens and head_dim but got [2, 3, 4, 20] and [2, 3, 2, 16]", [&] {
        const Layout wide = bthd(2, tokens, 4, 20);
        gpu::rotate_append(at(0, wide), at(3072, wide), k(), v(), table, cache(), slots);
      });
  expect_error("DTYPE", "[rotate_append] q and k must have one dtype but got bf16 and f32", [&] {
    gpu::rotate_append(at(0, q_layout, DType::bf16), at(3072, q_layout, DType::bf16), k(), v(), table, cache(), slots);
  });
  expect_error("SHAPE", "[rotate_append] table has 2 rows but q has 3 tokens",
               [&] { gpu::rotate_append(q(), q_out(), k(), v(), lvalue(upload(table_of(2, 8))), cache(), slots); });
  expect_error("SHAPE", "[rotate_append] rotary_dim must be at most head_dim 16 but the table's is 18",
               [&] { gpu::rotate_append(q(), q_out(), k(), v(), lvalue(upload(table_of(3, 9))), cache(), slots); });
  expect_error("SHAPE", "[rotate_append] q_out must have the shape of q, [2, 3, 4, 16], but got [2, 3, 2, 16]",
               [&] { rotate_append(at(3072, kv_layout), cache()); });
}

TEST_F(GpuFusedChecks, RefusesHeadsThatAreNotThoseOfAPackedTensor) {
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

// ---- memory that they share ----

TEST_F(GpuFusedChecks, RefusesMemoryThatMeets) {
  gpu::Cache meeting = cache();
  meeting.v = static_cast<std::byte*>(meeting.k) + 64;
  expect_error("ALIAS",
               "[append] what is written to the cache's k must not overlap the cache's v but their elements overlap, "
               "or interleave with strides that are not the same",
               [&] { append(meeting); });
  meeting = cache();
  meeting.k = memory.data() + 4 * 1000;
  EXPECT_THROW(append(meeting), Error) << "k itself";
  meeting.k = memory.data() + 4 * 2000;
  EXPECT_THROW(append(meeting), Error) << "v itself";
  meeting.k = memory.data();
  EXPECT_THROW(rotate_append(q_out(), meeting), Error) << "q";
  meeting.k = memory.data() + 4 * 3100;
  EXPECT_THROW(rotate_append(q_out(), meeting), Error) << "q_out";
  expect_error("ALIAS",
               "[rotate_append] what is written to q_out must not overlap v but their elements overlap, or interleave "
               "with strides that are not the same",
               [&] { rotate_append(at(2048 + 32, q_layout), cache()); });
  EXPECT_THROW(rotate_append(at(1024, q_layout), cache()), Error) << "k";
  EXPECT_THROW(rotate_append(at(1, q_layout), cache()), Error) << "q, but not at its place";
  EXPECT_THROW(norm_rotate_append(2, at(64, q_layout)), Error) << "other heads of qkv";
}

// A long page_stride counts bytes for f8 and four times as many for f32: both must fit in 63 bits.
TEST_F(GpuFusedChecks, TakesACacheOfF8AsFarAsItsBytesGo) {
  gpu::Cache c = cache();
  c.type = gpu::CacheType::f8_e4m3;
  c.pages = 2;
  c.page_stride = std::int64_t{1} << 61;
  EXPECT_NO_THROW(append(c));
  c.v = static_cast<std::byte*>(c.k) + 64;
  EXPECT_THROW(append(c), Error) << "they meet";
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

TEST_F(GpuFusedChecks, LetsNeighboursInOneMemoryThrough) {
  EXPECT_NO_THROW(rotate_append(q(), cache())) << "q in place";
  EXPECT_NO_THROW(gpu::append(k(), k(), cache(), slots)) << "both may be read from one memory";
  gpu::Cache c = cache();
  c.k = memory.data() + 4 * 4096;
  c.v = memory.data() + 4 * (4096 + 128);
  c.page_stride = 2 * 128;
  EXPECT_NO_THROW(append(c)) << "[pages, 2, page_size, heads, head_dim]";
  c = cache();
  c.v = memory.data() + 4 * (4096 + 16);
  c.head_stride = 32, c.token_stride = 64, c.page_stride = 256;
  EXPECT_NO_THROW(append(c)) << "[pages, page_size, heads, 2 * head_dim]";
  c.type = gpu::CacheType::f8_e4m3;
  c.v = memory.data() + 4 * 4096 + 16;
  EXPECT_NO_THROW(append(c));
  c.v = memory.data() + 4 * 4096 + 15;
  EXPECT_THROW(append(c), Error);
  Layout part = qkv_layout;
  part.heads = 4;
  EXPECT_NO_THROW(norm_rotate_append(2, at(0, part))) << "q's part of qkv";
  EXPECT_NO_THROW(gpu::synchronize());
}

TEST_F(GpuFusedChecks, DoesNothingWithoutElements) {
  const Layout none = bthd(2, 0, 4, head_dim), no_heads = bthd(2, tokens, 0, head_dim);
  const gpu::Table empty = upload(table_of(0, 8));
  const auto nowhere = [](const Layout& l) { return Heads{nullptr, DType::bf16, l}; };
  EXPECT_NO_THROW(gpu::rms_norm(nowhere(none), nowhere(none), {}));
  EXPECT_NO_THROW(gpu::append(nowhere(none), nowhere(none), {}, {}));
  EXPECT_NO_THROW(gpu::append(nowhere(no_heads), nowhere(no_heads), {}, {}));
  EXPECT_NO_THROW(gpu::rotate_append(nowhere(none), nowhere(none), nowhere(none), nowhere(none), empty, {}, {}));
  EXPECT_NO_THROW(gpu::rotate_append(at(0, no_heads), at(0, no_heads), k(), v(), table, cache(), slots)) << "no q";
  EXPECT_NO_THROW(gpu::norm_rotate_append(nowhere(none), 1, nowhere(bthd(2, 0, 2, head_dim)), {}, {}, empty, {}, {}));
  EXPECT_NO_THROW(gpu::rotate_append(q(), q_out(), at(0, no_heads), at(0, no_heads), table, {}, {}))
      << "no k, no cache";
}

}  // namespace
}  // namespace rotary::tests
