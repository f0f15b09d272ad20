// The rules of a KV cache and its slots in any memory, and the checks of a call that appends to a cache of the host.
#pragma once

#include <climits>
#include <cstddef>
#include <cstdint>

#include "checks.h"
#include "overlap.h"
#include "rotary/cache.h"

namespace rotary::detail {

// ---- any cache, wherever it lies ----

// The layouts of the keys and of the values in a cache, with pages as batch rows.
template <class C>
Layout k_layout(const C& cache) noexcept {
  return {cache.pages,       cache.page_size,    cache.heads,      cache.head_dim,
          cache.page_stride, cache.token_stride, cache.head_stride};
}
template <class C>
Layout v_layout(const C& cache) noexcept {
  if (cache.v_head_dim == 0) return k_layout(cache);
  return {cache.pages,         cache.page_size,      cache.heads,        cache.v_head_dim,
          cache.v_page_stride, cache.v_token_stride, cache.v_head_stride};
}
// The address of the keys, whose elements have this many bytes; null if the cache's k is null.
template <class C>
void* k_data(const C& cache, std::int64_t bytes) noexcept {
  return cache.k == nullptr ? nullptr : static_cast<std::byte*>(cache.k) + cache.k_offset * bytes;
}

// Checks the keys or the values of a cache, where the heads x go and an element has `bytes` bytes: x fits, the elements
// are distinct, the pointer is valid. Throws SHAPE, DTYPE.
ROTARY_API void check_cache_side(const char* operation, const char* name, const Layout& side, const void* data,
                                 std::int64_t bytes, const char* x_name, const Layout& x);
// Checks the numbers of a cache that its layouts do not hold. Throws SHAPE.
template <class C>
void check_cache_offset(const char* operation, const C& cache) {
  if (cache.k_offset < 0 || cache.v_head_dim < 0)
    fail(Code::SHAPE, operation, "k_offset and v_head_dim must not be negative but got ", cache.k_offset, " and ",
         cache.v_head_dim);
}
template <class C>
void check_cache_sides(const char* operation, const ConstHeads& k, std::int64_t k_bytes, const ConstHeads& v,
                       std::int64_t v_bytes, const C& cache) {
  check_cache_offset(operation, cache);
  check_cache_side(operation, "the cache's k", k_layout(cache), k_data(cache, k_bytes), k_bytes, "k", k.layout);
  if (!has_elements(v.layout)) return;
  check_cache_side(operation, "the cache's v", v_layout(cache), cache.v, v_bytes, "v", v.layout);
}
// Throws VALUE.
ROTARY_API void check_scale(const char* operation, const char* what, float scale);
// Checks that k and v can be read and that v has no elements, or k's shape with the cache's v_head_dim unless that is
// 0. Throws SHAPE, DTYPE.
ROTARY_API void check_kv(const char* operation, const ConstHeads& k, const ConstHeads& v, int v_head_dim);
// Checks that k has one head for each row of the table, if the table has several per token. Throws SHAPE.
ROTARY_API void check_k_rows(const char* operation, const Layout& k, int rows);

template <class S>
bool is_paged(const S& slots) noexcept {
  return slots.indptr != nullptr || slots.indices != nullptr || slots.batch_indices != nullptr ||
         slots.positions != nullptr || slots.sequences != 0;
}
// A slot mapping, of int64 or of int32. Null if the slots have none.
struct SlotMapping {
  const void* data;
  std::int64_t slot_bytes;
};
template <class S>
SlotMapping mapping_of(const S& slots) noexcept {
  if constexpr (std::is_same_v<S, Slots>) {
    if (slots.slot_int32 != nullptr && slots.slot == nullptr) return {slots.slot_int32, sizeof(std::int32_t)};
  }
  return {slots.slot, sizeof(std::int64_t)};
}
// Checks slots given by a slot mapping or by pages. Throws SHAPE, DTYPE.
template <class S>
void check_slots(const char* operation, const S& slots) {
  const bool paged = is_paged(slots), mapped_twice = slots.slot != nullptr && slots.slot_int32 != nullptr;
  const SlotMapping mapping = mapping_of(slots);
  if ((mapping.data != nullptr) == paged || mapped_twice)
    fail(Code::SHAPE, operation, "slots must be given by a slot mapping or by pages but got ",
         mapped_twice ? "two mappings"
         : paged      ? "both"
                      : "neither");
  const auto slot_bytes = static_cast<std::size_t>(mapping.slot_bytes);
  if (!paged) return check_aligned(operation, "the slot mapping", mapping.data, slot_bytes);
  if (slots.sequences < 0) fail(Code::SHAPE, operation, "sequences must not be negative but got ", slots.sequences);
  check_pointer(operation, "indptr", slots.indptr, sizeof(std::int32_t));
  check_pointer(operation, "indices", slots.indices, sizeof(std::int32_t));
  check_pointer(operation, "batch_indices", slots.batch_indices, sizeof(std::int32_t));
  check_pointer(operation, "positions", slots.positions, sizeof(std::int32_t));
}

// Adds the cache's k and v, whose elements have k_bytes and v_bytes, to the memory that the call writes. They must not
// overlap the arguments k and v, nor other written memory; nothing written may overlap the slots and scales. Throws
// ALIAS.
template <class C, class S>
void check_cache_writes(const char* operation, const ConstHeads& k, const ConstHeads& v, const C& cache,
                        std::int64_t k_bytes, std::int64_t v_bytes, const S& slots, Writes& written) {
  written.k_cache = k_layout(cache);
  written.v_cache = v_layout(cache);
  const bool with_v = has_elements(v.layout);
  const auto add = [&](const NamedMemory& side) {
    check_disjoint(operation, written.all(), side);
    written.add(side);
  };
  add(memory_of("the cache's k", k_data(cache, k_bytes), k_bytes, written.k_cache));
  if (with_v) add(memory_of("the cache's v", cache.v, v_bytes, written.v_cache));
  check_disjoint(operation, written.all(), memory_of("k", k));
  if (with_v) check_disjoint(operation, written.all(), memory_of("v", v));
  const auto apart = [&](const char* name, const auto* data, std::int64_t count) {
    check_disjoint(operation, written.all(), values(name, data, count));
  };
  const std::int64_t tokens = product(k.layout.batch, k.layout.tokens);
  if (slots.slot != nullptr) {
    apart("the slot mapping", slots.slot, tokens);
  } else if (slots.slot_int32 != nullptr) {
    apart("the slot mapping", slots.slot_int32, tokens);
  } else if (!slots.by_row) {  // only indptr has the length of indices, so indices is not checked
    apart("indptr", slots.indptr, std::int64_t{slots.sequences} + 1);
    apart("batch_indices", slots.batch_indices, tokens);
    apart("positions", slots.positions, tokens);
  } else if (slots.firsts != nullptr) {
    apart("the first places", slots.firsts, k.layout.batch);
  }
  if (cache.type == CacheType::f8_e4m3 && cache.scales != nullptr) apart("scales", cache.scales, 2);
}

// A contiguous cache with pages [page_size, heads, head_dim] or, if heads are outside, [heads, page_size, head_dim].
template <class C>
C contiguous_cache(const char* operation, bool heads_outside, void* k, void* v, std::int64_t pages, int page_size,
                   std::int64_t heads, int head_dim, CacheType type, int v_head_dim) {
  const auto stride_of_page = [&](int width) {
    const std::int64_t page = checked_product(operation, checked_product(operation, page_size, heads), width);
    checked_product(operation, pages, page);
    return page;
  };
  const auto stride_of_token = [&](int width) { return heads_outside ? std::int64_t{width} : heads * width; };
  const auto stride_of_head = [&](int width) { return heads_outside ? std::int64_t{page_size} * width : width; };
  return {.k = k,
          .v = v,
          .type = type,
          .pages = pages,
          .page_size = page_size,
          .heads = heads,
          .head_dim = head_dim,
          .page_stride = stride_of_page(head_dim),
          .token_stride = stride_of_token(head_dim),
          .head_stride = stride_of_head(head_dim),
          .v_head_dim = v_head_dim,
          .v_page_stride = stride_of_page(v_head_dim),
          .v_token_stride = stride_of_token(v_head_dim),
          .v_head_stride = stride_of_head(v_head_dim)};
}

template <class C>
C latent_cache(void* rows, std::int64_t pages, int page_size, int latent_dim, int rope_dim, CacheType type) {
  if (latent_dim < 1 || rope_dim < 1 || latent_dim > INT_MAX - rope_dim)
    fail(Code::SHAPE, "latent_rows", "latent_dim and rope_dim must be at least 1 but got ", latent_dim, " and ",
         rope_dim);
  C cache = contiguous_cache<C>("latent_rows", false, rows, rows, pages, page_size, 1, latent_dim + rope_dim, type, 0);
  cache.head_dim = rope_dim;
  cache.k_offset = cache.v_head_dim = latent_dim;
  cache.v_page_stride = cache.page_stride;
  cache.v_token_stride = cache.v_head_stride = cache.token_stride;
  return cache;
}

// ---- caches in the host's memory ----

inline std::int64_t bytes_of(const CachedType& type) noexcept { return type.f8 ? 1 : bytes_of(type.dtype); }
inline CachedType cached_type(CacheType type, DType heads) noexcept {
  if (type == CacheType::same) return {false, heads};
  if (type == CacheType::f8_e4m3) return {true, DType::f32};
  return {false, type == CacheType::f32 ? DType::f32 : type == CacheType::f16 ? DType::f16 : DType::bf16};
}

// Throws DTYPE for an unknown type.
void check_cache_type(const char* operation, CacheType);
// The checks of append and of rotate_append; the second sets q_job, for the block of q from options.first on.
void check_append(const char* operation, const ConstHeads& k, const ConstHeads& v, const Cache&, const Slots&);
void check_rotate_append(const char* operation, const ConstHeads& q, const Heads& q_out, const ConstHeads& k,
                         const ConstHeads& v, const Table&, const Cache&, const Slots&, const RotateOptions&,
                         Job& q_job);

constexpr int most_staged = 4096;  // largest head_dim of heads that are rotated before they are converted

}  // namespace rotary::detail
