// Caches and slots of the host, and the names of a cache's types.
#include "runtime/arithmetic.h"

#include "cache_checks.h"
#include "checks.h"
#include "rotary/cache.h"
#include "values/names.h"

namespace rotary {

using namespace detail;
namespace {

constexpr Named<CacheType> cache_types[] = {{CacheType::same, "same"},
                                            {CacheType::f8_e4m3, "f8_e4m3"},
                                            {CacheType::f32, "f32"},
                                            {CacheType::f16, "f16"},
                                            {CacheType::bf16, "bf16"}};

Cache contiguous(const char* layout, void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads,
                 int head_dim, CacheType type) {
  const std::int64_t page = checked_product(layout, checked_product(layout, page_size, heads), head_dim);
  checked_product(layout, pages, page);
  Cache cache;
  cache.k = k;
  cache.v = v;
  cache.type = type;
  cache.pages = pages;
  cache.page_size = page_size;
  cache.heads = heads;
  cache.head_dim = head_dim;
  cache.page_stride = page;
  return cache;
}

}  // namespace

const char* name(CacheType type) noexcept { return name_in(cache_types, type); }
CacheType parse_cache_type(std::string_view text) {
  return parse_in(cache_types, text, "parse_cache_type", Code::DTYPE);
}

Cache nhd(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim, CacheType type) {
  Cache cache = contiguous("nhd", k, v, pages, page_size, heads, head_dim, type);
  cache.token_stride = heads * head_dim;
  cache.head_stride = head_dim;
  return cache;
}

Cache hnd(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim, CacheType type) {
  Cache cache = contiguous("hnd", k, v, pages, page_size, heads, head_dim, type);
  cache.token_stride = head_dim;
  cache.head_stride = std::int64_t{page_size} * head_dim;
  return cache;
}

Slots Slots::flat(const std::int64_t* slot_mapping) noexcept {
  Slots slots;
  slots.slot = slot_mapping;
  return slots;
}

Slots Slots::paged(const std::int32_t* indptr, const std::int32_t* indices, const std::int32_t* batch_indices,
                   const std::int32_t* positions, int sequences) noexcept {
  Slots slots;
  slots.indptr = indptr;
  slots.indices = indices;
  slots.batch_indices = batch_indices;
  slots.positions = positions;
  slots.sequences = sequences;
  return slots;
}

Slots Slots::rows(std::int64_t first) noexcept {
  Slots slots;
  slots.by_row = true;
  slots.first = first;
  return slots;
}

Slots Slots::each_row(const std::int64_t* first) noexcept {
  Slots slots;
  slots.by_row = true;
  slots.firsts = first;
  slots.first = no_first;
  return slots;
}

}  // namespace rotary
