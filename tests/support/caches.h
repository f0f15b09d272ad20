// Caches of the host for tests: random shapes, random places, and append as plain loops, element by element.
#pragma once

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "rotary/cache.h"
#include "tests/gpu/oracle.h"
#include "tests/support/guarded.h"
#include "tests/support/heads.h"

namespace rotary::tests {

inline constexpr std::array cache_types{CacheType::same, CacheType::f8_e4m3, CacheType::f32, CacheType::f16,
                                        CacheType::bf16};

// Bytes of an element, and its type where it is not e4m3.
inline std::optional<DType> type_in(CacheType type, DType heads) {
  if (type == CacheType::f8_e4m3) return {};
  if (type == CacheType::same) return heads;
  return type == CacheType::f32 ? DType::f32 : type == CacheType::f16 ? DType::f16 : DType::bf16;
}
inline std::size_t bytes_in(CacheType type, DType heads) {
  const std::optional<DType> dtype = type_in(type, heads);
  return dtype ? size_of(*dtype) : 1;
}

// A cache of random shape and layout, filled with a pattern, each side between guard pages.
class RandomCache {
 public:
  RandomCache(Random& random, DType k_dtype, DType v_dtype, std::int64_t heads, int head_dim, std::int64_t batch,
              std::int64_t tokens) {
    const int page_size = std::array{1, 4, 7, 16, static_cast<int>(tokens) + 3}[random() % 5];
    const std::int64_t pages = std::max(batch, (batch * tokens + page_size - 1) / page_size + below(random, 3));
    cache = random() % 2 == 0 ? nhd(nullptr, nullptr, std::max<std::int64_t>(1, pages), page_size, heads, head_dim)
                              : hnd(nullptr, nullptr, std::max<std::int64_t>(1, pages), page_size, heads, head_dim);
    if (random() % 3 == 0) {  // gaps
      const std::int64_t inner = head_dim + below(random, 3);
      const bool heads_inside = random() % 2 == 0;
      const std::int64_t outer = inner * (heads_inside ? heads : page_size) + below(random, 3);
      cache.head_stride = heads_inside ? inner : outer;
      cache.token_stride = heads_inside ? outer : inner;
      cache.page_stride = outer * (heads_inside ? page_size : heads) + below(random, 40);
    }
    cache.type = cache_types[random() % cache_types.size()];
    scales_ = {std::array{1.0f, 0.37f, 0.0625f, 3.3f}[random() % 4], std::array{1.0f, 0.11f, 2.0f, 7.7f}[random() % 4]};
    cache.k_scale = scales_[0];
    cache.v_scale = scales_[1];
    if (random() % 3 == 0) {
      cache.scales = scales_.data();
      cache.k_scale = cache.v_scale = std::numeric_limits<float>::quiet_NaN();
    }
    k = content(bytes_in(cache.type, k_dtype));
    v = content(bytes_in(cache.type, v_dtype));
    k_memory_ = std::make_unique<Guarded>(k.size());
    v_memory_ = std::make_unique<Guarded>(v.size());
    cache.k = k_memory_->at_end(k.size());
    cache.v = v_memory_->at_end(v.size());
  }
  RandomCache(const RandomCache&) = delete;
  RandomCache& operator=(const RandomCache&) = delete;

  void reset() const {
    std::copy(k.begin(), k.end(), static_cast<std::byte*>(cache.k));
    std::copy(v.begin(), v.end(), static_cast<std::byte*>(cache.v));
  }
  std::int64_t elements() const {
    if (cache.heads == 0 || cache.head_dim == 0) return 0;
    return (cache.pages - 1) * cache.page_stride + (cache.page_size - 1) * cache.token_stride +
           (cache.heads - 1) * cache.head_stride + cache.head_dim;
  }
  std::int64_t places() const { return cache.pages * cache.page_size; }

  Cache cache;
  Bytes k, v;  // the pattern, on which the oracle writes

 private:
  Bytes content(std::size_t each) const {
    Bytes bytes(static_cast<std::size_t>(elements()) * each);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 % 251);
    return bytes;
  }
  std::array<float, 2> scales_;
  std::unique_ptr<Guarded> k_memory_, v_memory_;
};

// Where each token goes, each to a place of its own and some nowhere; and the same as Slots, one way or another.
class RandomPlaces {
 public:
  RandomPlaces(Random& random, const RandomCache& to, std::int64_t batch, std::int64_t tokens) {
    const Cache& cache = to.cache;
    const std::int64_t room = cache.page_size - tokens;
    if (random() % 4 == 0 && room >= 0 && cache.pages >= batch) {
      rows(random, cache, batch, tokens, room);
      return;
    }
    page.resize(static_cast<std::size_t>(to.places()));
    std::iota(page.begin(), page.end(), 0);
    if (random() % 2 == 0) std::shuffle(page.begin(), page.end(), random);
    page.resize(static_cast<std::size_t>(batch * tokens));
    const bool some_nowhere = random() % 2 == 0;
    const std::array nowhere{std::int64_t{-1}, to.places(), std::numeric_limits<std::int64_t>::max(),
                             std::numeric_limits<std::int64_t>::min()};
    slot_ = page;
    for (std::size_t i = 0; i < page.size(); ++i) {
      if (!some_nowhere || random() % 5 != 0) continue;
      slot_[i] = nowhere[random() % nowhere.size()];
      page[i] = -1;
    }
    random() % 2 == 0 ? as_pages(random, cache) : void(slots = Slots::flat(slot_.data()));
  }
  RandomPlaces(const RandomPlaces&) = delete;
  RandomPlaces& operator=(const RandomPlaces&) = delete;

  std::vector<std::int64_t> page;  // page * page_size + place, by token; -1: nowhere
  Slots slots;

 private:
  void rows(Random& random, const Cache& cache, std::int64_t batch, std::int64_t tokens, std::int64_t room) {
    const bool one = random() % 2 == 0;
    const std::int64_t same = below(random, static_cast<int>(room) + 1);
    for (std::int64_t b = 0; b < batch; ++b) {
      slot_.push_back(one ? same : random() % 5 == 0 ? -1 : below(random, static_cast<int>(room) + 1));
      for (std::int64_t t = 0; t < tokens; ++t) {
        page.push_back(slot_.back() < 0 ? -1 : b * cache.page_size + slot_.back() + t);
      }
    }
    slots = one ? Slots::rows(same) : Slots::each_row(slot_.data());
  }
  // Each page is a sequence's, in another order.
  void as_pages(Random& random, const Cache& cache) {
    const auto pages = static_cast<std::size_t>(cache.pages);
    std::vector<std::int32_t> entry_of(pages);
    std::iota(entry_of.begin(), entry_of.end(), 0);
    std::shuffle(entry_of.begin(), entry_of.end(), random);
    indices_.resize(pages);
    for (std::size_t p = 0; p < pages; ++p)
      indices_[static_cast<std::size_t>(entry_of[p])] = static_cast<std::int32_t>(p);
    const int cut = below(random, static_cast<int>(pages) + 1), all = static_cast<int>(pages);
    indptr_ = {0, cut, all};
    for (std::size_t i = 0; i < page.size(); ++i) {
      if (page[i] < 0) {
        const std::array<std::pair<int, int>, 5> bad{{{-1, 0},
                                                      {2, 0},
                                                      {0, -1},
                                                      {1, (all - cut) * cache.page_size},
                                                      {1, std::numeric_limits<std::int32_t>::max()}}};
        const auto& [sequence, position] = bad[random() % bad.size()];
        sequences_.push_back(sequence);
        positions_.push_back(position);
        continue;
      }
      const int entry = entry_of[static_cast<std::size_t>(page[i] / cache.page_size)], sequence = entry < cut ? 0 : 1;
      sequences_.push_back(sequence);
      positions_.push_back((entry - indptr_[static_cast<std::size_t>(sequence)]) * cache.page_size +
                           static_cast<int>(page[i] % cache.page_size));
    }
    slots = Slots::paged(indptr_.data(), indices_.data(), sequences_.data(), positions_.data(), 2);
  }

  std::vector<std::int64_t> slot_;
  std::vector<std::int32_t> indptr_, indices_, sequences_, positions_;
};

// Writes x to its places in `data`, a side of the cache, as the cache's type.
inline void append_by_hand(const ConstHeads& x, const Cache& cache, Bytes& data, float scale,
                           const std::vector<std::int64_t>& places) {
  const std::optional<DType> to = type_in(cache.type, x.dtype);
  const Layout& l = x.layout;
  for (std::int64_t i = 0; i < l.batch * l.tokens; ++i) {
    const std::int64_t place = places[static_cast<std::size_t>(i)];
    if (place < 0) continue;
    for (std::int64_t h = 0; h < l.heads; ++h) {
      const std::int64_t from = oracle::offset(l, i / l.tokens, i % l.tokens, h);
      const std::int64_t at = place / cache.page_size * cache.page_stride +
                              place % cache.page_size * cache.token_stride + h * cache.head_stride;
      for (int d = 0; d < l.head_dim; ++d) {
        if (!to) {
          data[static_cast<std::size_t>(at + d)] = std::byte{oracle::to_e4m3(oracle::at(x, from + d) / scale)};
        } else if (*to == x.dtype) {
          set_bits(data.data(), *to, at + d, bits_at(x.data, x.dtype, from + d));
        } else {
          set_bits(data.data(), *to, at + d, oracle::narrow(oracle::at(x, from + d), *to));
        }
      }
    }
  }
}

// Every byte of a side of the cache: equal, but that a NaN that was converted, or may have turned, is as good as
// another.
inline ::testing::AssertionResult same_cache(const void* got, const Bytes& wanted, const Cache& cache, DType heads,
                                             bool turned) {
  if (wanted.empty() || std::memcmp(got, wanted.data(), wanted.size()) == 0) return ::testing::AssertionSuccess();
  if (!turned && type_in(cache.type, heads) == heads) return ::testing::AssertionFailure() << "copies differ in bits";
  const std::optional<DType> dtype = type_in(cache.type, heads);
  const auto* bytes = static_cast<const std::uint8_t*>(got);
  const auto is_nan_of = [](std::uint32_t byte) { return (byte & 0x7f) == 0x7f; };
  for (std::size_t i = 0; i < wanted.size() / bytes_in(cache.type, heads); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::uint32_t g = dtype ? bits_at(got, *dtype, at) : bytes[i];
    const std::uint32_t w = dtype ? bits_at(wanted.data(), *dtype, at) : static_cast<std::uint32_t>(wanted[i]);
    if (g == w || (dtype ? is_nan(g, *dtype) && is_nan(w, *dtype) : is_nan_of(g) && is_nan_of(w))) continue;
    return ::testing::AssertionFailure() << "element " << i << " of the cache is " << std::hex << g << " instead of "
                                         << w;
  }
  return ::testing::AssertionSuccess();
}

}  // namespace rotary::tests
