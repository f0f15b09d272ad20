// Paged caches, slots, norms and rotations for the tests of the fused operations: on the host and on the device alike.
#pragma once

#include <memory>
#include <optional>

#include "core/tests/support/caches.h"
#include "device_heads.h"
#include "oracle.h"

namespace rotary::tests {

// A paged cache of a type that the device has; k and v are of one dtype.
struct PagedCache : RandomCache<gpu::Device> {
  PagedCache(Random& random, DType dtype, std::int64_t heads, int head_dim, std::int64_t tokens, int v_head_dim = 0)
      : RandomCache(random, std::span(cache_types).first(2), dtype, dtype, heads, head_dim, 1, tokens, v_head_dim),
        misaligned(static_cast<std::size_t>(misalignment(random)) * oracle::bytes_in(shape.type, dtype)) {}
  bool f8() const { return shape.type == CacheType::f8_e4m3; }
  std::size_t misaligned;  // bytes
};

// A cache on the device, filled with the pattern.
struct DeviceCache {
  explicit DeviceCache(const PagedCache& c)
      : k(patterned(c.k.size()), c.misaligned),
        v(patterned(c.v.size()), c.misaligned),
        scales(std::vector<float>{c.scales[0], c.scales[1]}),
        cache(c.at(k.data(), v.data(), scales.as<const float>())),
        dtype(c.k_dtype) {}
  // Expects these bytes; among the first `loose` elements of k's heads any NaN equals any other.
  void expect_same(const Bytes& k_wanted, const Bytes& v_wanted, int loose) const {
    ASSERT_TRUE(same_cache(k.get().data(), k_wanted, cache, dtype, loose)) << "k";
    ASSERT_TRUE(same_cache(v.get().data(), v_wanted, oracle::v_side(cache), dtype, 0)) << "v";
  }
  Device k, v, scales;
  gpu::Cache cache;
  DType dtype;
};

struct DeviceSlots {
  explicit DeviceSlots(const RandomSlots& s) {
    if (!s.paged()) {
      arrays.emplace_back(s.mapping);
      slots = gpu::Slots::flat(arrays[0].as<const std::int64_t>());
      return;
    }
    for (const auto* values : {&s.indptr, &s.indices, &s.sequence, &s.position}) arrays.emplace_back(*values, 4);
    const auto part = [&](std::size_t i) { return arrays[i].as<const std::int32_t>(); };
    slots = gpu::Slots::paged(part(0), part(1), part(2), part(3), 2);
  }
  gpu::Slots slots;
  std::vector<Device> arrays;
};

// A norm and its weights.
struct RandomNorm {
  RandomNorm(Random& random, std::int64_t heads, int head_dim) {
    norm.across_heads = random() % 3 == 0;
    norm.dtype = dtypes[random() % 3];
    norm.eps = std::array{1e-6f, 1e-5f, 0.0f}[random() % 3];
    norm.one_plus = random() % 3 == 0;
    norm.round_before = random() % 2 == 0;
    const std::int64_t count = norm.across_heads ? heads * head_dim : head_dim;
    if (random() % 6 != 0) weights = hard_values(random, norm.dtype, count);
    device = std::make_unique<Device>(weights.data(), weights.size(),
                                      static_cast<std::size_t>(misalignment(random)) * size_of(norm.dtype));
  }
  gpu::Norm on_host() const { return with(weights.data()); }
  gpu::Norm on_device() const { return with(device->data()); }

  gpu::Norm norm;
  Bytes weights;  // empty if there are none

 private:
  gpu::Norm with(const void* data) const {
    gpu::Norm n = norm;
    n.weight = weights.empty() ? nullptr : data;
    return n;
  }
  std::unique_ptr<Device> device;
};

// ---- tables and frequencies ----

// How many heads a table for q and k may have rows for.
inline std::int64_t rows_of(std::int64_t q_heads, std::int64_t kv_heads) {
  return kv_heads > 0 && q_heads % kv_heads == 0 ? kv_heads : 1;
}

// A table, some with a row for each head of k, or what tables are made of: turns by either.
struct RandomRotation {
  RandomRotation(Random& random, int pairs, Pairing pairing, std::int64_t batch, std::int64_t tokens,
                 std::int64_t q_heads, std::int64_t kv_heads)
      : rows_of_table(random() % 2 == 0 ? 1 : static_cast<int>(batch)),
        table(upload(random_table_by_head(random, tokens, pairs, pairing, rows_of_table,
                                          random() % 2 == 0 ? 1 : rows_of(q_heads, kv_heads)))),
        frequencies(with(of(pairs), pairing)),
        positions(random_positions(random, rows_of_table * tokens)) {
    if (table.head_rows() > 1 || random() % 2 == 0) {
      by.emplace(table);
    } else {
      by.emplace(frequencies, gpu::Positions(positions.as<const std::int32_t>(), tokens, 1, rows_of_table));
    }
  }
  static Frequencies of(int pairs) {
    Frequencies f;
    for (int i = 0; i < pairs; ++i) f.inv_freq.push_back(std::pow(10000.0, -double(i) / pairs));
    f.attention_factor = 1.25;
    return f;
  }
  static Device random_positions(Random& random, std::int64_t count) {
    std::vector<std::int32_t> p(static_cast<std::size_t>(count));
    for (std::int32_t& x : p) x = static_cast<std::int32_t>(random() >> 32) >> (random() % 32);
    return Device(p, 4);
  }
  int rows_of_table;
  gpu::Table table;
  gpu::Frequencies frequencies;
  Device positions;
  std::optional<gpu::Rotation> by;
};

inline ::testing::AssertionResult same_heads(const Bytes& got, const Bytes& wanted, DType dtype, const Layout& l,
                                             int loose) {
  return same(got.data(), wanted.data(), dtype, extent(l), rotated_elements(l, loose));
}

}  // namespace rotary::tests
