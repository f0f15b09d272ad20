// The fused operations on the device against their parts, and these against simple loops (oracle.h): the same bits.
#include "caches.h"
#include "rotary/reference.h"

namespace rotary::tests {
namespace {

struct Sizes {
  std::int64_t batch, tokens, q_heads, kv_heads;
};
// Not more elements than the emulator passes in a moment.
Sizes random_sizes(Random& random, int head_dim) {
  constexpr std::array<std::int64_t, 8> tokens{0, 1, 2, 3, 5, 17, 17, 64}, q_heads{1, 2, 3, 5, 8, 32, 40, 0};
  constexpr std::array<std::int64_t, 5> kv_heads{0, 1, 2, 8, 8};
  for (;;) {
    const Sizes s{1 + below(random, 3), tokens[random() % 8], q_heads[random() % 8], kv_heads[random() % 5]};
    if (s.batch * s.tokens * (s.q_heads + 2 * s.kv_heads) * head_dim <= 16000) return s;
  }
}
constexpr std::array any_dim{1,  2,  3,  5,   8,   16,  20,  33,  40,  64,  64,
                             72, 80, 96, 112, 128, 128, 192, 256, 512, 576, 1000};
constexpr std::array even_dim{2, 4, 6, 8, 16, 20, 24, 40, 64, 64, 72, 80, 96, 112, 128, 128, 192, 256, 512, 576};

int random_dim(Random& random) { return any_dim[random() % any_dim.size()]; }

// ---- append ----

class GpuAppend : public GpuWith<DType> {};

TEST_P(GpuAppend, PutsEachTokenToItsSlotAndNothingElsewhere) {
  const DType dtype = GetParam();
  Random random(1);
  for (int round = 0; round < 150; ++round) {
    const int head_dim = random_dim(random);
    const Sizes s = random_sizes(random, head_dim);
    const Layout k_layout = random_layout(random, s.batch, s.tokens, s.kv_heads, head_dim, true);
    const int v_width = random() % 3 == 0 ? random_dim(random) : 0;
    const Layout v_layout = random_layout(random, s.batch, s.tokens, random() % 8 == 0 ? 0 : s.kv_heads,
                                          v_width > 0 ? v_width : head_dim, true);
    PagedCache cache(random, dtype, s.kv_heads, head_dim, s.batch * s.tokens, v_width);
    SCOPED_TRACE("round " + std::to_string(round) + ", " + words(k_layout, dtype) + (cache.f8() ? ", f8" : "") +
                 ", page_size " + std::to_string(cache.shape.page_size));
    const RandomSlots slots(random, cache.shape, 1, s.batch * s.tokens, false);
    const DeviceSlots on_slots(slots);
    const Bytes k = hard_values(random, dtype, extent(k_layout)), v = hard_values(random, dtype, extent(v_layout));
    const Device on_k = device_for(k_layout, dtype, k, misalignment(random)), on_v = device_for(v_layout, dtype, v);
    const DeviceCache device(cache);
    order_threads(random);
    cache.append({k.data(), dtype, k_layout}, {v.data(), dtype, v_layout}, slots.slot);
    gpu::append({on_k.data(), dtype, k_layout}, {on_v.data(), dtype, v_layout}, device.cache, on_slots.slots);
    device.expect_same(cache.k, cache.v, 0);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(on_k.get() == k && on_v.get() == v) << "the input has changed";
  }
}

// Every value of 16 bits, or many of 32, at scales that make halves and subnormals of e4m3.
TEST_P(GpuAppend, RoundsToTheNearestE4m3) {
  const DType dtype = GetParam();
  Random random(2);
  const Layout l = thd(64, 4, 256);
  for (const float scale : {1.0f, 0.37f, 1e-4f, 512.0f, 0x1p126f, 0x1p127f}) {
    Bytes x(bytes_of(l, dtype));
    for (std::int64_t i = 0; i < extent(l); ++i) {
      const double value = oracle::values_of_e4m3()[random() % 127] * scale;  // and what lies about the middle of two
      const std::uint32_t near =
          ~0u + oracle::narrow(static_cast<float>(value * (1 + below(random, 16) / 16.0 / 8)), dtype);
      set_bits(
          x.data(), dtype, i,
          dtype != DType::f32 ? static_cast<std::uint32_t>(i) : near + static_cast<std::uint32_t>(below(random, 3)));
    }
    PagedCache cache(random, dtype, 4, 256, 64);
    cache.shape.type = CacheType::f8_e4m3;
    cache.scales = {scale, 1 / scale};
    cache.fill();
    std::vector<std::int64_t> to(64);
    std::iota(to.begin(), to.end(), 0);
    const Device on_x = device_for(l, dtype, x), on_to(to);
    const DeviceCache device(cache);
    cache.append({x.data(), dtype, l}, {x.data(), dtype, l}, to);
    gpu::append({on_x.data(), dtype, l}, {on_x.data(), dtype, l}, device.cache,
                gpu::Slots::flat(on_to.as<const std::int64_t>()));
    device.expect_same(cache.k, cache.v, 0);
  }
}

TEST_P(GpuAppend, ReachesOffsetsBeyondTwoToTheThirtyOneElements) {
  const DType dtype = GetParam();
  Random random(7);
  const std::int64_t far = (std::int64_t{1} << 31) + 8;
  for (const bool f8 : {false, true}) {
    const std::size_t each = f8 ? 1 : size_of(dtype);
    const Layout l = thd(2, 2, 64);
    const Sparse sparse(static_cast<std::size_t>(far + 512) * each);
    if (sparse.data() == nullptr) GTEST_SKIP() << "no memory of gigabytes";
    gpu::Cache cache = gpu::nhd(sparse.data(), sparse.data() + 256 * each, 2, 1, 2, 64);
    cache.page_stride = far;
    if (f8) cache.type = gpu::CacheType::f8_e4m3;
    const Bytes x = hard_values(random, dtype, extent(l));
    const Device on_x = device_for(l, dtype, x), slots(std::vector<std::int64_t>{1, 0});
    gpu::append({on_x.data(), dtype, l}, {on_x.data(), dtype, l}, cache,
                gpu::Slots::flat(slots.as<const std::int64_t>()));
    gpu::synchronize();
    gpu::Cache near = gpu::nhd(nullptr, nullptr, 2, 1, 2, 64), page = gpu::nhd(nullptr, nullptr, 1, 1, 2, 64);
    near.type = page.type = cache.type;
    Bytes wanted(256 * each), got(128 * each);
    oracle::append({x.data(), dtype, l}, near, wanted, 1, {1, 0});
    for (std::int64_t p = 0; p < 2; ++p) {
      const Bytes of_page(wanted.begin() + p * std::ssize(got), wanted.begin() + (p + 1) * std::ssize(got));
      for (const std::int64_t part : {0, 256}) {  // k, v
        sparse.read(got.data(), (p * far + part) * static_cast<std::int64_t>(each), got.size());
        EXPECT_TRUE(same_cache(got.data(), of_page, page, dtype, 0));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fused, GpuAppend, ::testing::ValuesIn(dtypes),
                         [](const auto& p) { return std::string(name(p.param)); });

// ---- rms_norm ----

class GpuNorm : public GpuWith<DType> {};

TEST_P(GpuNorm, EqualsTheLoopBitForBit) {
  const DType dtype = GetParam();
  Random random(3);
  for (int round = 0; round < 150; ++round) {
    const int head_dim = random_dim(random);
    const Sizes s = random_sizes(random, head_dim);
    const RandomNorm norm(random, s.q_heads, head_dim);
    const Layout to = random_layout(random, s.batch, s.tokens, s.q_heads, head_dim);
    const bool in_place = round % 3 == 0;
    const Layout from = in_place ? to : random_layout(random, s.batch, s.tokens, s.q_heads, head_dim, true);
    SCOPED_TRACE("round " + std::to_string(round) + ", " + words(to, dtype) + (in_place ? ", in place" : "") +
                 (norm.norm.across_heads ? ", across heads" : ""));
    const Bytes x = hard_values(random, dtype, extent(from));
    Bytes wanted = in_place ? x : patterned(bytes_of(to, dtype));
    const Device in = device_for(from, dtype, x, misalignment(random));
    const Device out = device_for(to, dtype, wanted, misalignment(random));
    order_threads(random);
    oracle::rms_norm({x.data(), dtype, from}, {wanted.data(), dtype, to}, norm.on_host());
    const Device& written = in_place ? in : out;
    gpu::rms_norm({in.data(), dtype, from}, {written.data(), dtype, to}, norm.on_device());
    ASSERT_TRUE(same_heads(written.get(), wanted, dtype, to, head_dim));
  }
}

INSTANTIATE_TEST_SUITE_P(Fused, GpuNorm, ::testing::ValuesIn(dtypes),
                         [](const auto& p) { return std::string(name(p.param)); });

// ---- the fused operations ----

// NaNs of normed and rotated elements are as good as others; what lies between keeps its bits.
std::vector<bool> loose_q(const Layout& all, const Layout& q) {
  std::vector<bool> turns = rotated_elements(q, q.head_dim);
  turns.resize(static_cast<std::size_t>(extent(all)));
  return turns;
}

class GpuFused : public GpuWith<std::tuple<DType, Pairing>> {};

TEST_P(GpuFused, RotateAppendEqualsRotateThenAppend) {
  const auto [dtype, pairing] = GetParam();
  Random random(5);
  for (int round = 0; round < 80; ++round) {
    const int rotary_dim = even_dim[random() % even_dim.size()], head_dim = rotary_dim + tail(random);
    const Sizes s = random_sizes(random, head_dim);
    const Layout k_layout = random_layout(random, s.batch, s.tokens, s.kv_heads, head_dim, true);
    const int v_width = random() % 3 == 0 ? random_dim(random) : 0;
    const Layout v_layout =
        random_layout(random, s.batch, s.tokens, s.kv_heads, v_width > 0 ? v_width : head_dim, true);
    const Layout to = random_layout(random, s.batch, s.tokens, s.q_heads, head_dim);
    const bool in_place = round % 2 == 0;
    const Layout from = in_place ? to : random_layout(random, s.batch, s.tokens, s.q_heads, head_dim, true);
    const PagedCache cache(random, dtype, s.kv_heads, head_dim, s.batch * s.tokens, v_width);
    SCOPED_TRACE("round " + std::to_string(round) + ", q " + words(to, dtype) + ", k " + words(k_layout, dtype) +
                 ", rotary_dim " + std::to_string(rotary_dim) + (cache.f8() ? ", f8" : "") +
                 (in_place ? ", in place" : ""));
    const DeviceSlots slots(RandomSlots(random, cache.shape, 1, s.batch * s.tokens, false));
    const RandomRotation rotation(random, rotary_dim / 2, pairing, s.batch, s.tokens, s.q_heads, s.kv_heads);
    const Bytes q = hard_values(random, dtype, extent(from)), k = hard_values(random, dtype, extent(k_layout));
    const Device on_q = device_for(from, dtype, q, misalignment(random)), on_k = device_for(k_layout, dtype, k);
    const Device on_v = device_for(v_layout, dtype, hard_values(random, dtype, extent(v_layout)));
    const Bytes before = patterned(bytes_of(to, dtype));
    const Device q_wanted = device_for(to, dtype, before), q_elsewhere = device_for(to, dtype, before);
    const DeviceCache wanted(cache), got(cache);
    order_threads(random);

    const Layout near = bthd(s.batch, s.tokens, s.kv_heads, head_dim);
    const Device k_rotated = device_for(near, dtype);
    const ConstHeads q_in{on_q.data(), dtype, from}, k_in{on_k.data(), dtype, k_layout},
        v_in{on_v.data(), dtype, v_layout};
    gpu::rotate(q_in, {q_wanted.data(), dtype, to}, *rotation.by);
    gpu::rotate(k_in, {k_rotated.data(), dtype, near}, *rotation.by);
    gpu::append({k_rotated.data(), dtype, near}, v_in, wanted.cache, slots.slots);

    const Device& q_out = in_place ? on_q : q_elsewhere;
    gpu::rotate_append(q_in, {q_out.data(), dtype, to}, k_in, v_in, *rotation.by, got.cache, slots.slots);
    Bytes q_now = q_wanted.get();
    if (in_place) {  // elements between the heads of q keep their bits
      const std::vector<bool> ours = rotated_elements(to, head_dim);
      for (std::int64_t i = 0; i < extent(to); ++i) {
        if (!ours[static_cast<std::size_t>(i)]) set_bits(q_now.data(), dtype, i, bits_at(q.data(), dtype, i));
      }
    }
    ASSERT_TRUE(same_heads(q_out.get(), q_now, dtype, to, rotary_dim)) << "q";
    got.expect_same(wanted.k.get(), wanted.v.get(), rotary_dim);
    ASSERT_TRUE(on_k.get() == k) << "k itself has changed";
  }
}

TEST_P(GpuFused, NormRotateAppendEqualsNormThenRotateThenAppend) {
  const auto [dtype, pairing] = GetParam();
  Random random(6);
  for (int round = 0; round < 80; ++round) {
    const int rotary_dim = even_dim[random() % even_dim.size()], head_dim = rotary_dim + tail(random);
    const Sizes s = random_sizes(random, head_dim);
    const Layout packed = random_layout(random, s.batch, s.tokens, s.q_heads + 2 * s.kv_heads, head_dim);
    const bool in_place = round % 2 == 0 && pairing != Pairing::interleaved_to_half;
    Layout to = in_place ? packed : random_layout(random, s.batch, s.tokens, s.q_heads, head_dim);
    to.heads = s.q_heads;
    const PagedCache cache(random, dtype, s.kv_heads, head_dim, s.batch * s.tokens, random() % 3 == 0 ? head_dim : 0);
    const RandomNorm q_norm(random, s.q_heads, head_dim), k_norm(random, s.kv_heads, head_dim);
    SCOPED_TRACE("round " + std::to_string(round) + ", qkv " + words(packed, dtype) + ", kv_heads " +
                 std::to_string(s.kv_heads) + ", rotary_dim " + std::to_string(rotary_dim) +
                 (cache.f8() ? ", f8" : "") + (in_place ? ", in place" : "") +
                 (q_norm.norm.across_heads ? ", q across" : "") + (k_norm.norm.across_heads ? ", k across" : ""));
    const DeviceSlots slots(RandomSlots(random, cache.shape, 1, s.batch * s.tokens, false));
    const RandomRotation rotation(random, rotary_dim / 2, pairing, s.batch, s.tokens, s.q_heads, s.kv_heads);
    const Bytes qkv = hard_values(random, dtype, extent(packed));
    const Device on_qkv = device_for(packed, dtype, qkv, misalignment(random));
    Bytes q_wanted = in_place ? qkv : patterned(bytes_of(to, dtype));
    const Device q_elsewhere = device_for(to, dtype, patterned(bytes_of(to, dtype)), misalignment(random));
    const DeviceCache wanted(cache), got(cache);
    order_threads(random);

    const auto part = [&, type = dtype](std::int64_t first, std::int64_t heads) {
      Layout l = packed;
      l.heads = heads;
      return ConstHeads(on_qkv.data() + static_cast<std::size_t>(first * l.head_stride) * size_of(type), type, l);
    };
    const Layout q_near = bthd(s.batch, s.tokens, s.q_heads, head_dim),
                 k_near = bthd(s.batch, s.tokens, s.kv_heads, head_dim);
    const Device q_normed = device_for(q_near, dtype), k_normed = device_for(k_near, dtype);
    const Heads q_mid{q_normed.data(), dtype, q_near}, k_mid{k_normed.data(), dtype, k_near};
    gpu::rms_norm(part(0, s.q_heads), q_mid, q_norm.on_device());
    gpu::rms_norm(part(s.q_heads, s.kv_heads), k_mid, k_norm.on_device());
    gpu::rotate_qk(q_mid, k_mid, *rotation.by);
    gpu::append(k_mid, part(s.q_heads + s.kv_heads, s.kv_heads), wanted.cache, slots.slots);
    const Bytes q_parts = q_normed.get();
    copy_heads({q_parts.data(), dtype, q_near}, {q_wanted.data(), dtype, to});

    const Device& q_out = in_place ? on_qkv : q_elsewhere;
    gpu::norm_rotate_append({on_qkv.data(), dtype, packed}, s.kv_heads, {q_out.data(), dtype, to}, q_norm.on_device(),
                            k_norm.on_device(), *rotation.by, got.cache, slots.slots);
    const Layout& all = in_place ? packed : to;
    ASSERT_TRUE(same(q_out.get().data(), q_wanted.data(), dtype, extent(all), loose_q(all, to))) << "q";
    got.expect_same(wanted.k.get(), wanted.v.get(), head_dim);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(in_place || on_qkv.get() == qkv) << "qkv has changed";
  }
}

INSTANTIATE_TEST_SUITE_P(Fused, GpuFused,
                         ::testing::Combine(::testing::ValuesIn(dtypes), ::testing::ValuesIn(pairings)),
                         [](const auto& p) {
                           return std::string(name(std::get<0>(p.param))) + "_" + name(std::get<1>(p.param));
                         });

}  // namespace
}  // namespace rotary::tests
