// Calls so large that a thread takes several heads, and a block several rows: against the CPU's operations and
// simple loops.
#include "caches.h"

namespace rotary::tests {
namespace {

class GpuMany : public Gpu {};

struct Many {
  DType dtype;
  std::int64_t tokens, q_heads, kv_heads;
  int head_dim, rotary_dim;
  int misaligned;  // elements
};

Bytes ordinary_values(Random& random, DType dtype, std::int64_t count) {
  Bytes data(static_cast<std::size_t>(count) * size_of(dtype));
  const Format f = format(dtype);
  const std::uint32_t one = ((f.infinity >> f.fraction) - 1) / 2;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto any = static_cast<std::uint32_t>(random() >> 20);
    const std::uint32_t fraction = any & ((1u << f.fraction) - 1);
    set_bits(data.data(), dtype, i, ((any >> 31) != 0 ? f.sign : 0) | (one - any % 4) << f.fraction | fraction);
  }
  return data;
}

// [tokens, q_heads + 2 kv_heads, head_dim]: q's, k's or v's part of it.
ConstHeads part(const std::byte* data, const Many& m, std::int64_t first, std::int64_t heads) {
  Layout l = thd(m.tokens, m.q_heads + 2 * m.kv_heads, m.head_dim);
  l.heads = heads;
  return {data + static_cast<std::size_t>(first * m.head_dim) * size_of(m.dtype), m.dtype, l};
}
Heads part(std::byte* data, const Many& m, std::int64_t first, std::int64_t heads) {
  const ConstHeads x = part(static_cast<const std::byte*>(data), m, first, heads);
  return {const_cast<void*>(x.data), x.dtype, x.layout};
}

TEST_F(GpuMany, HeadsOfAThreadRotateAllOfThem) {
  Random random(1);
  const Many all[] = {{DType::bf16, 44000, 5, 3, 8, 8, 0},   // four heads to a thread, by 16 bytes
                      {DType::f32, 1100, 33, 6, 64, 32, 0},  // some of the elements are not rotated
                      {DType::f16, 27000, 5, 3, 4, 4, 1}};   // two, by elements
  for (const Many& m : all) {
    for (const Pairing pairing : pairings) {
      const Table table = random_table(random, m.tokens, m.rotary_dim / 2, pairing);
      const gpu::Table rows = upload(table);
      const Layout packed = thd(m.tokens, m.q_heads + 2 * m.kv_heads, m.head_dim);
      SCOPED_TRACE(words(packed, m.dtype) + ", " + name(pairing));
      Bytes x = ordinary_values(random, m.dtype, extent(packed));
      const Device in = device_for(packed, m.dtype, x, m.misaligned);
      rotate_qk(part(x.data(), m, 0, m.q_heads), part(x.data(), m, m.q_heads, m.kv_heads), table);
      gpu::rotate_qk(part(in.data(), m, 0, m.q_heads), part(in.data(), m, m.q_heads, m.kv_heads), rows);
      ASSERT_TRUE(same(in.get().data(), x.data(), m.dtype, extent(packed), rotated_elements(packed, m.rotary_dim)));

      const Bytes near = ordinary_values(random, m.dtype, extent(packed));
      const Device from = device_for(packed, m.dtype, near, m.misaligned);
      rotate(part(near.data(), m, 0, m.q_heads), part(x.data(), m, 0, m.q_heads), table,
             {.direction = Direction::backward});
      gpu::rotate(part(std::as_const(from).data(), m, 0, m.q_heads), part(in.data(), m, 0, m.q_heads), rows,
                  Direction::backward);
      ASSERT_TRUE(same(in.get().data(), x.data(), m.dtype, extent(packed), rotated_elements(packed, m.rotary_dim)));
    }
  }
}

TEST_F(GpuMany, RowsOfABlockAreNormedRotatedAndStoredAllOfThem) {
  Random random(2);
  const Many all[] = {{DType::f32, 33000, 5, 1, 8, 8, 0},     // in registers, four heads together
                      {DType::bf16, 44000, 3, 1, 16, 16, 0},  // which are no whole packet
                      {DType::f16, 44000, 3, 1, 16, 16, 0},  {DType::f32, 30000, 5, 1, 8, 4, 0},  // two
                      {DType::f32, 520, 20, 1, 128, 64, 1},   // by rows and elements, more heads than a block's warps
                      {DType::f32, 515, 9, 1, 512, 512, 0},   // by rows and vectors
                      {DType::f16, 12000, 6, 3, 16, 16, 0},   // rows of the table per head: in registers
                      {DType::f32, 300, 12, 3, 128, 64, 1}};  // by rows
  for (const Many& m : all) {
    const Pairing pairing = pairings[static_cast<std::size_t>(&m - all) % 3];
    PagedCache cache(random, m.dtype, m.kv_heads, m.head_dim, m.tokens);
    cache.shape = gpu::nhd(nullptr, nullptr, m.tokens / 16 + 2, 16, m.kv_heads, m.head_dim);
    cache.fill();
    cache.misaligned = 0;
    const RandomSlots slots(random, cache.shape, 1, m.tokens, false);
    const DeviceSlots on_slots(slots);
    gpu::Norm norm;
    const Bytes weights = ordinary_values(random, DType::f32, m.head_dim);
    const Device on_weights(weights);
    const Layout packed = thd(m.tokens, m.q_heads + 2 * m.kv_heads, m.head_dim);
    SCOPED_TRACE(words(packed, m.dtype) + ", " + name(pairing));
    const Layout q_layout = thd(m.tokens, m.q_heads, m.head_dim), k_layout = thd(m.tokens, m.kv_heads, m.head_dim);
    const Bytes qkv = ordinary_values(random, m.dtype, extent(packed));
    const Device on_qkv = device_for(packed, m.dtype, qkv, m.misaligned), q_out = device_for(q_layout, m.dtype);
    const DeviceCache device(cache);
    const std::int64_t heads = rows_of(m.q_heads, m.kv_heads);
    const Table table = random_table_by_head(random, m.tokens, m.rotary_dim / 2, pairing, 1, heads);
    const gpu::Table rows = upload(table);

    norm.weight = weights.data();
    Bytes q(bytes_of(q_layout, m.dtype)), k(bytes_of(k_layout, m.dtype));
    const Heads q_wanted{q.data(), m.dtype, q_layout}, k_wanted{k.data(), m.dtype, k_layout};
    oracle::rms_norm(part(qkv.data(), m, 0, m.q_heads), q_wanted, norm);
    oracle::rms_norm(part(qkv.data(), m, m.q_heads, m.kv_heads), k_wanted, norm);
    rotate_qk(q_wanted, k_wanted, table);
    cache.append(k_wanted, part(qkv.data(), m, m.q_heads + m.kv_heads, m.kv_heads), slots.slot);

    norm.weight = on_weights.data();
    gpu::norm_rotate_append({on_qkv.data(), m.dtype, packed}, m.kv_heads, {q_out.data(), m.dtype, q_layout}, norm, norm,
                            rows, device.cache, on_slots.slots);
    ASSERT_TRUE(same_heads(q_out.get(), q, m.dtype, q_layout, m.head_dim)) << "q";
    device.expect_same(cache.k, cache.v, m.head_dim);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace rotary::tests
