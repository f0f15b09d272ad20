// Caches and slots for tests, of the host's memory or a device's: random shapes, layouts and slots.
#pragma once

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "core/tests/support/guarded.h"
#include "core/tests/support/heads.h"
#include "core/tests/support/oracle.h"
#include "rotary/cache.h"

namespace rotary::tests {

inline constexpr std::array cache_types{CacheType::same, CacheType::f8_e4m3, CacheType::f32, CacheType::f16,
                                        CacheType::bf16};

// A cache of random shape and layout, and its content: a pattern, on which the oracle writes.
template <class Memory>
struct RandomCache {
  RandomCache(Random& random, std::span<const CacheType> types, DType k_type, DType v_type, std::int64_t heads,
              int head_dim, std::int64_t batch, std::int64_t tokens, int v_head_dim = 0)
      : k_dtype(k_type), v_dtype(v_type) {
    const int page_size = std::array{1, 4, 7, 16, static_cast<int>(tokens) + 3}[random() % 5];
    shape.pages = std::max({std::int64_t{1}, batch, (batch * tokens + page_size - 1) / page_size + below(random, 3)});
    shape.page_size = page_size;
    shape.heads = heads;
    shape.head_dim = head_dim;
    set_strides(random, head_dim, shape.page_stride, shape.token_stride, shape.head_stride);
    shape.v_head_dim = v_head_dim;
    if (v_head_dim > 0) set_strides(random, v_head_dim, shape.v_page_stride, shape.v_token_stride, shape.v_head_stride);
    if (below(random, 4) == 0) shape.k_offset = 8 * below(random, 3);
    shape.type = types[random() % types.size()];
    scales = {std::array{1.0f, 0.37f, 0.0625f, 3.3f}[random() % 4], std::array{1.0f, 0.11f, 2.0f, 7.7f}[random() % 4]};
    scales_by_pointer = random() % 3 == 0;
    fill();
  }

  void fill() {
    k = patterned(elements(shape) * oracle::bytes_in(shape.type, k_dtype));
    v = patterned(elements(oracle::v_side(shape)) * oracle::bytes_in(shape.type, v_dtype));
  }
  static std::size_t elements(const CacheIn<Memory>& side) {
    if (side.heads == 0 || side.head_dim == 0) return 0;
    const std::int64_t last = oracle::offset(side, side.pages * side.page_size - 1, side.heads - 1);
    return static_cast<std::size_t>(last + side.head_dim);
  }
  // The shape in that memory. With scales_by_pointer its scales are `scales_there`, and the scales by value are NaN.
  CacheIn<Memory> at(void* k_data, void* v_data, const float* scales_there) const {
    CacheIn<Memory> cache = shape;
    cache.k = k_data;
    cache.v = v_data;
    cache.k_scale = scales_by_pointer ? std::numeric_limits<float>::quiet_NaN() : scales[0];
    cache.v_scale = scales_by_pointer ? std::numeric_limits<float>::quiet_NaN() : scales[1];
    if (scales_by_pointer) cache.scales = scales_there;
    return cache;
  }
  void append(const ConstHeads& k_heads, const ConstHeads& v_heads, const std::vector<std::int64_t>& slots) {
    oracle::append(k_heads, shape, k, scales[0], slots);
    oracle::append(v_heads, oracle::v_side(shape), v, scales[1], slots);
  }

  // The inner dimension is the heads or the tokens. One cache in three has gaps, some of which keep the alignment.
  void set_strides(Random& random, int head_dim, std::int64_t& page, std::int64_t& token, std::int64_t& head) const {
    const int gap = below(random, 3) == 0 ? std::array{1, 2, 8, 16}[random() % 4] : 0;
    const bool heads_inside = random() % 2 == 0;
    const std::int64_t inner = head_dim + gap * below(random, 3);
    const std::int64_t outer = inner * (heads_inside ? shape.heads : shape.page_size) + gap * below(random, 3);
    head = heads_inside ? inner : outer;
    token = heads_inside ? outer : inner;
    page = outer * (heads_inside ? shape.page_size : shape.heads) + gap * below(random, 3);
  }

  DType k_dtype, v_dtype;
  CacheIn<Memory> shape;  // without pointers and scales
  std::array<float, 2> scales;
  bool scales_by_pointer;
  Bytes k, v;
};

// A slot for each token, which no other token has, or -1; and the same slots as the library takes them: as a slot
// mapping, as pages or, if `rows`, as batch rows.
struct RandomSlots {
  template <class Memory>
  RandomSlots(Random& random, const CacheIn<Memory>& cache, std::int64_t batch, std::int64_t tokens, bool rows)
      : pages(cache.pages), page_size(cache.page_size) {
    const std::int64_t room = cache.page_size - tokens;
    if (rows && random() % 4 == 0 && room >= 0) {
      by_rows(random, batch, tokens, room);
      return;
    }
    slot.resize(static_cast<std::size_t>(pages * page_size));
    std::iota(slot.begin(), slot.end(), 0);
    if (random() % 2 == 0) std::shuffle(slot.begin(), slot.end(), random);
    slot.resize(static_cast<std::size_t>(batch * tokens));
    const bool skips = random() % 2 == 0;
    const std::array nowhere{std::int64_t{-1}, pages * page_size, std::numeric_limits<std::int64_t>::max(),
                             std::numeric_limits<std::int64_t>::min()};
    mapping = slot;
    for (std::size_t i = 0; i < slot.size(); ++i) {
      if (!skips || random() % 5 != 0) continue;
      mapping[i] = nowhere[random() % nowhere.size()];
      slot[i] = -1;
    }
    if (random() % 2 == 0) {
      by_pages(random);
      return;
    }
    if (rows && random() % 3 == 0) {
      for (const std::int64_t s : mapping)
        narrow.push_back(
            static_cast<std::int32_t>(std::clamp<std::int64_t>(s, -1, std::numeric_limits<std::int32_t>::max())));
    }
  }

  bool paged() const { return !indptr.empty(); }
  Slots host() const {
    if (!first.empty()) return one_first ? Slots::rows(first[0]) : Slots::each_row(first.data());
    Slots slots = paged()          ? Slots::paged(indptr.data(), indices.data(), sequence.data(), position.data(), 2)
                  : narrow.empty() ? Slots::flat(mapping.data())
                                   : Slots::flat(narrow.data());
    slots.skip_missing = true;
    return slots;
  }

  std::int64_t pages;
  int page_size;
  std::vector<std::int64_t> slot;
  std::vector<std::int64_t> mapping;
  std::vector<std::int32_t> narrow;  // the mapping as int32, where the host may take it so
  std::vector<std::int32_t> indptr, indices, sequence, position;
  std::vector<std::int64_t> first;
  bool one_first = false;

 private:
  void by_rows(Random& random, std::int64_t batch, std::int64_t tokens, std::int64_t room) {
    one_first = random() % 2 == 0;
    for (std::int64_t b = 0; b < batch; ++b) {
      const std::int64_t any = random() % 5 == 0 ? -1 : below(random, static_cast<int>(room) + 1);
      first.push_back(one_first && b > 0 ? first[0] : any);
      for (std::int64_t t = 0; t < tokens; ++t)
        slot.push_back(first.back() < 0 ? -1 : b * page_size + first.back() + t);
    }
  }
  // Deals the pages out to two sequences in a random order. Some entries name a page that does not exist.
  void by_pages(Random& random) {
    const auto count = static_cast<std::size_t>(pages);
    std::vector<std::int32_t> entry_of(count);
    std::iota(entry_of.begin(), entry_of.end(), 0);
    std::shuffle(entry_of.begin(), entry_of.end(), random);
    indices.resize(count);
    for (std::size_t p = 0; p < count; ++p) {
      std::int32_t& index = indices[static_cast<std::size_t>(entry_of[p])];
      index = static_cast<std::int32_t>(p);
      if (random() % 12 == 0) index = random() % 2 == 0 ? -1 : static_cast<std::int32_t>(pages);
    }
    const int all = static_cast<int>(count), cut = below(random, all + 1);
    indptr = {0, cut, all};
    const std::array<std::pair<int, int>, 5> nowhere{
        {{-1, 0}, {2, 0}, {0, -1}, {1, (all - cut) * page_size}, {1, std::numeric_limits<std::int32_t>::max()}}};
    for (std::int64_t& s : slot) {
      const auto& [bad_sequence, bad_position] = nowhere[random() % nowhere.size()];
      const std::int32_t entry = s < 0 ? 0 : entry_of[static_cast<std::size_t>(s / page_size)];
      const int of = entry < cut ? 0 : 1;
      const auto at = (entry - indptr[static_cast<std::size_t>(of)]) * page_size + static_cast<int>(s % page_size);
      sequence.push_back(s < 0 ? bad_sequence : of);
      position.push_back(s < 0 ? bad_position : at);
      const std::int32_t index = indices[static_cast<std::size_t>(entry)];
      if (index < 0 || index >= all) s = -1;
    }
  }
};

// Sequences whose tokens move in a cache: full pages, a length for each page, or two sequences and an empty one in
// pages of no order, some of which do not exist.
struct RandomSequences {
  RandomSequences(Random& random, std::int64_t pages, int page_size) : kind(below(random, 3)) {
    indices.resize(static_cast<std::size_t>(pages));
    std::iota(indices.begin(), indices.end(), 0);
    indptr = indices;
    for (std::int64_t page = 0; kind != 2 && page < pages; ++page)
      lengths.push_back(kind == 0 ? page_size : below(random, page_size + 1));
    if (kind != 2) return;
    std::shuffle(indices.begin(), indices.end(), random);
    for (std::int32_t& page : indices)
      if (random() % 10 == 0) page = random() % 2 == 0 ? -1 : static_cast<std::int32_t>(pages);
    const int all = static_cast<int>(pages), cut = below(random, all + 1);
    indptr = {0, cut, cut, all};
    for (std::size_t s = 0; s < 3; ++s) lengths.push_back(below(random, (indptr[s + 1] - indptr[s]) * page_size + 1));
  }
  Sequences host() const {
    if (kind < 2) return kind == 1 ? Sequences::each_row(lengths.data()) : Sequences{};
    Sequences paged = Sequences::paged(indptr.data(), indices.data(), lengths.data(), 3);
    paged.skip_missing = true;
    return paged;
  }

  int kind;
  std::vector<std::int32_t> lengths, indices, indptr;
};

// Whether one side of a cache has the wanted bytes. Any NaN equals any other among the first `loose` elements of a
// head, and everywhere if the cache changes the type of the elements.
template <class Memory>
::testing::AssertionResult same_cache(const void* got, const Bytes& wanted, const CacheIn<Memory>& cache, DType heads,
                                      int loose) {
  if (wanted.empty() || std::memcmp(got, wanted.data(), wanted.size()) == 0) return ::testing::AssertionSuccess();
  const std::optional<DType> dtype = oracle::type_in(cache.type, heads);
  const std::size_t elements = wanted.size() / oracle::bytes_in(cache.type, heads);
  std::vector<bool> turns(elements, dtype != heads);
  for (std::int64_t slot = 0; slot < cache.pages * cache.page_size; ++slot) {
    for (std::int64_t h = 0; h < cache.heads; ++h) {
      const auto at = turns.begin() + oracle::offset(cache, slot, h);
      std::fill(at, at + loose, true);
    }
  }
  if (dtype) return same(got, wanted.data(), *dtype, static_cast<std::int64_t>(elements), turns);
  const auto nan = [](std::byte b) { return (b & std::byte{0x7f}) == std::byte{0x7f}; };
  for (std::size_t i = 0; i < elements; ++i) {
    const std::byte g = static_cast<const std::byte*>(got)[i], w = wanted[i];
    if (g == w || (nan(g) && nan(w))) continue;
    return ::testing::AssertionFailure() << "element " << i << " of the cache is " << std::hex << static_cast<int>(g)
                                         << " instead of " << static_cast<int>(w);
  }
  return ::testing::AssertionSuccess();
}

}  // namespace rotary::tests
