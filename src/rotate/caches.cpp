// Caches and slots of the host, and the names of a cache's types.
#include "runtime/arithmetic.h"

#include "cache_checks.h"
#include "cache_makers.h"
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

}  // namespace

const char* name(CacheType type) noexcept { return name_in(cache_types, type); }
CacheType parse_cache_type(std::string_view text) {
  return parse_in(cache_types, text, "parse_cache_type", Code::DTYPE);
}

Cache nhd(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim, CacheType type) {
  Cache cache = nhd_cache<Cache>(k, v, pages, page_size, heads, head_dim);
  cache.type = type;
  return cache;
}

Cache hnd(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim, CacheType type) {
  Cache cache = hnd_cache<Cache>(k, v, pages, page_size, heads, head_dim);
  cache.type = type;
  return cache;
}

Slots Slots::flat(const std::int64_t* slot_mapping) noexcept { return flat_slots<Slots>(slot_mapping); }

Slots Slots::paged(const std::int32_t* indptr, const std::int32_t* indices, const std::int32_t* batch_indices,
                   const std::int32_t* positions, int sequences) noexcept {
  return paged_slots<Slots>(indptr, indices, batch_indices, positions, sequences);
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
