// Paged caches, slots, norms and packed heads for the tests of the fused operations: on the host and on the device
// alike.
#pragma once

#include <limits>
#include <memory>
#include <numeric>
#include <optional>

#include "device_heads.h"
#include "oracle.h"

namespace rotary::tests {

// A cache of random shape and layout, filled with a pattern.
struct PagedCache {
  PagedCache(Random& random, DType heads_dtype, std::int64_t heads, int head_dim, std::int64_t tokens) {
    dtype = heads_dtype;
    const int page_size = std::array{1, 4, 16}[random() % 3];
    const std::int64_t pages = (tokens + page_size - 1) / page_size + 1 + below(random, 3);
    switch (below(random, 3)) {
      case 0:
        shape = gpu::nhd(nullptr, nullptr, pages, page_size, heads, head_dim);
        break;
      case 1:
        shape = gpu::hnd(nullptr, nullptr, pages, page_size, heads, head_dim);
        break;
      default: {
        const std::int64_t step = std::array{1, 2, 8, 16}[random() % 4];
        const bool heads_inside = random() % 2 == 0;
        shape = gpu::nhd(nullptr, nullptr, pages, page_size, heads, head_dim);
        const std::int64_t inner = head_dim + step * below(random, 3);
        const std::int64_t outer = inner * (heads_inside ? heads : page_size) + step * below(random, 3);
        shape.head_stride = heads_inside ? inner : outer;
        shape.token_stride = heads_inside ? outer : inner;
        shape.page_stride = outer * (heads_inside ? page_size : heads) + step * below(random, 3);
      }
    }
    if (random() % 2 == 0) {
      shape.type = gpu::CacheType::f8_e4m3;
      shape.k_scale = std::array{1.0f, 0.37f, 0.0625f, 3.3f}[random() % 4];
      shape.v_scale = std::array{1.0f, 0.11f, 2.0f, 7.7f}[random() % 4];
      by_device_scales = random() % 2 == 0;
    }
    k = v = patterned(bytes());
    misaligned = static_cast<std::size_t>(misalignment(random)) * element();
  }

  bool f8() const { return shape.type == gpu::CacheType::f8_e4m3; }
  std::size_t element() const { return f8() ? 1 : size_of(dtype); }
  std::int64_t elements() const {
    if (shape.heads == 0 || shape.head_dim == 0) return 0;
    return (shape.pages - 1) * shape.page_stride + (shape.page_size - 1) * shape.token_stride +
           (shape.heads - 1) * shape.head_stride + shape.head_dim;
  }
  std::size_t bytes() const { return static_cast<std::size_t>(elements()) * element(); }
  std::int64_t places() const { return shape.pages * shape.page_size; }

  gpu::Cache host() {
    gpu::Cache c = shape;
    c.k = k.data();
    c.v = v.data();
    return c;
  }

  DType dtype;
  gpu::Cache shape;
  bool by_device_scales = false;
  std::size_t misaligned = 0;
  Bytes k, v;
};

// The same cache on the device. The scales of by_device_scales lie there, and those by value then say nothing.
struct DeviceCache {
  explicit DeviceCache(const PagedCache& c) : DeviceCache(c, patterned(c.bytes())) {}
  gpu::Cache cache;
  Bytes got_k() const { return k.get(); }
  Bytes got_v() const { return v.get(); }

 private:
  DeviceCache(const PagedCache& c, const Bytes& content)
      : cache(c.shape),
        k(content, c.misaligned),
        v(content, c.misaligned),
        scales(std::vector<float>{c.shape.k_scale, c.shape.v_scale}) {
    cache.k = k.data();
    cache.v = v.data();
    if (!c.by_device_scales) return;
    cache.scales = scales.as<const float>();
    cache.k_scale = cache.v_scale = std::numeric_limits<float>::quiet_NaN();
  }
  Device k, v, scales;
};

// Where tokens go: each to a place of its own, some of them nowhere.
class RandomSlots {
 public:
  RandomSlots(Random& random, const PagedCache& cache, std::int64_t tokens) {
    if (random() % 2 == 0) {
      flat(random, cache, static_cast<std::size_t>(tokens));
    } else {
      paged(random, cache, static_cast<std::size_t>(tokens));
    }
  }

  gpu::Slots host() const {
    return sequences_ == 0 ? gpu::Slots::flat(slot_.data())
                           : gpu::Slots::paged(indptr_.data(), indices_.data(), batch_indices_.data(),
                                               positions_.data(), sequences_);
  }
  gpu::Slots device() {
    on_device_.clear();
    if (sequences_ == 0) {
      on_device_.emplace_back(slot_);
      return gpu::Slots::flat(on_device_[0].as<const std::int64_t>());
    }
    for (const auto* values : {&indptr_, &indices_, &batch_indices_, &positions_}) on_device_.emplace_back(*values, 4);
    const auto part = [&](std::size_t i) { return on_device_[i].as<const std::int32_t>(); };
    return gpu::Slots::paged(part(0), part(1), part(2), part(3), sequences_);
  }

 private:
  void flat(Random& random, const PagedCache& cache, std::size_t tokens) {
    slot_.resize(static_cast<std::size_t>(cache.places()));
    std::iota(slot_.begin(), slot_.end(), 0);
    std::shuffle(slot_.begin(), slot_.end(), random);
    slot_.resize(tokens);
    const std::array nowhere{std::int64_t{-1},
                             std::int64_t{-1},
                             cache.places(),
                             std::int64_t{-2},
                             std::numeric_limits<std::int64_t>::max(),
                             std::numeric_limits<std::int64_t>::min()};
    for (std::int64_t& s : slot_) {
      if (random() % 5 == 0) s = nowhere[random() % nowhere.size()];
    }
  }

  // Pages are dealt to sequences, tokens to the positions of the sequences.
  void paged(Random& random, const PagedCache& cache, std::size_t tokens) {
    sequences_ = 1 + below(random, 3);
    indices_.resize(static_cast<std::size_t>(cache.shape.pages));
    std::iota(indices_.begin(), indices_.end(), 0);
    std::shuffle(indices_.begin(), indices_.end(), random);
    std::vector<int> cuts{0, static_cast<int>(indices_.size())};
    for (int s = 1; s < sequences_; ++s) cuts.push_back(below(random, static_cast<int>(indices_.size()) + 1));
    std::sort(cuts.begin(), cuts.end());
    indptr_.assign(cuts.begin(), cuts.end());
    std::vector<std::pair<int, int>> places;
    for (int s = 0; s < sequences_; ++s) {
      const int pages = cuts[static_cast<std::size_t>(s) + 1] - cuts[static_cast<std::size_t>(s)];
      for (int p = 0; p < pages * cache.shape.page_size; ++p) places.emplace_back(s, p);
    }
    std::shuffle(places.begin(), places.end(), random);
    constexpr std::int32_t most = std::numeric_limits<std::int32_t>::max();
    for (std::size_t i = 0; i < tokens; ++i) {
      auto [sequence, position] = places[i];
      switch (below(random, 24)) {
        case 0:
          sequence = -1;
          break;
        case 1:
          sequence = random() % 2 == 0 ? sequences_ : most;
          break;
        case 2:  // behind the sequence's last page
          position = (cuts[static_cast<std::size_t>(sequence) + 1] - cuts[static_cast<std::size_t>(sequence)]) *
                     cache.shape.page_size;
          break;
        case 3:
          position = random() % 2 == 0 ? most : -1;
          break;
        default:
          break;
      }
      batch_indices_.push_back(sequence);
      positions_.push_back(position);
    }
    for (std::int32_t& page : indices_) {
      if (random() % 12 == 0) page = random() % 2 == 0 ? -1 : static_cast<std::int32_t>(cache.shape.pages);
    }
  }

  int sequences_ = 0;  // 0: flat
  std::vector<std::int64_t> slot_;
  std::vector<std::int32_t> indptr_, indices_, batch_indices_, positions_;
  std::vector<Device> on_device_;
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
  Bytes weights;  // empty: none

 private:
  gpu::Norm with(const void* data) const {
    gpu::Norm n = norm;
    n.weight = weights.empty() ? nullptr : data;
    return n;
  }
  std::unique_ptr<Device> device;
};

// ---- what turns ----

// A table, or what tables are made of: turns by either.
struct RandomRotation {
  RandomRotation(Random& random, int pairs, Pairing pairing, std::int64_t batch, std::int64_t tokens)
      : rows_of_table(random() % 2 == 0 ? 1 : static_cast<int>(batch)),
        table(upload(random_table(random, tokens, pairs, pairing, rows_of_table))),
        frequencies(with(of(pairs), pairing)),
        positions(random_positions(random, rows_of_table * tokens)) {
    if (random() % 2 == 0) {
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

// ---- comparison ----

// Bytes of a cache: equal, but that a NaN is as good as another among the first `loose` elements of a head (f8: all).
inline ::testing::AssertionResult same_cache(const Bytes& got, const Bytes& wanted, const PagedCache& c, int loose) {
  if (got == wanted) return ::testing::AssertionSuccess();
  std::vector<bool> turns(static_cast<std::size_t>(c.elements()));
  const gpu::Cache& s = c.shape;
  for (std::int64_t place = 0; place < c.places(); ++place) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (int d = 0; d < loose; ++d) {
        turns[static_cast<std::size_t>(place / s.page_size * s.page_stride + place % s.page_size * s.token_stride +
                                       h * s.head_stride + d)] = true;
      }
    }
  }
  if (!c.f8()) return same(got.data(), wanted.data(), c.dtype, c.elements(), turns);
  const auto nan = [](std::byte b) { return (static_cast<unsigned>(b) & 0x7f) == 0x7f; };
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == wanted[i] || (nan(got[i]) && nan(wanted[i]))) continue;
    return ::testing::AssertionFailure() << "element " << i << " of the cache is " << std::hex
                                         << static_cast<int>(got[i]) << " instead of " << static_cast<int>(wanted[i]);
  }
  return ::testing::AssertionSuccess();
}

inline ::testing::AssertionResult same_heads(const Bytes& got, const Bytes& wanted, DType dtype, const Layout& l,
                                             int loose) {
  return same(got.data(), wanted.data(), dtype, extent(l), rotated_elements(l, loose));
}

}  // namespace rotary::tests
