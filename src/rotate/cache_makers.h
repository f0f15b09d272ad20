// Contiguous caches and slots, wherever they lie: C is Cache or gpu::Cache, S is Slots or gpu::Slots.
#pragma once

#include "checks.h"

namespace rotary::detail {

template <class C>
C contiguous_cache(const char* layout, void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads,
                   int head_dim) {
  const std::int64_t page = checked_product(layout, checked_product(layout, page_size, heads), head_dim);
  checked_product(layout, pages, page);
  C cache;
  cache.k = k;
  cache.v = v;
  cache.pages = pages;
  cache.page_size = page_size;
  cache.heads = heads;
  cache.head_dim = head_dim;
  cache.page_stride = page;
  return cache;
}

template <class C>
C nhd_cache(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim) {
  C cache = contiguous_cache<C>("nhd", k, v, pages, page_size, heads, head_dim);
  cache.token_stride = heads * head_dim;
  cache.head_stride = head_dim;
  return cache;
}

template <class C>
C hnd_cache(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim) {
  C cache = contiguous_cache<C>("hnd", k, v, pages, page_size, heads, head_dim);
  cache.token_stride = head_dim;
  cache.head_stride = std::int64_t{page_size} * head_dim;
  return cache;
}

template <class S>
S flat_slots(const std::int64_t* slot_mapping) noexcept {
  S slots;
  slots.slot = slot_mapping;
  return slots;
}

template <class S>
S paged_slots(const std::int32_t* indptr, const std::int32_t* indices, const std::int32_t* batch_indices,
              const std::int32_t* positions, int sequences) noexcept {
  S slots;
  slots.indptr = indptr;
  slots.indices = indices;
  slots.batch_indices = batch_indices;
  slots.positions = positions;
  slots.sequences = sequences;
  return slots;
}

}  // namespace rotary::detail
