#include "cache.h"

#include <string>

#include "values/fail.h"

namespace rotary::gpu {

void check_cache(const char* operation, const Cache& cache, const ConstHeads& k) {
  if (cache.type > CacheType::f8_e4m3) {
    fail(Code::DTYPE, operation,
         "the cache must be same or f8_e4m3 but got value " + std::to_string(static_cast<int>(cache.type)));
  }
  const auto bytes = static_cast<std::int64_t>(element_bytes(cache, k.dtype));
  rotary::detail::check_cache_memory(operation, layout_of(cache), cache.k, bytes, cache.v, bytes, k.layout);
  if (cache.type != CacheType::f8_e4m3) return;
  check_aligned(operation, "scales", cache.scales, sizeof(float));
  if (cache.scales != nullptr) return;
  check_scale(operation, "k_scale", cache.k_scale);
  check_scale(operation, "v_scale", cache.v_scale);
}

CacheJob cache_job(const Cache& cache, const Slots& slots) noexcept {
  CacheJob job;
  job.k = cache.k;
  job.v = cache.v;
  job.f8 = cache.type == CacheType::f8_e4m3;
  job.pages = cache.pages;
  job.page_size = cache.page_size;
  set_strides(job.stride, layout_of(cache));
  job.k_scale = cache.k_scale;
  job.v_scale = cache.v_scale;
  job.scales = cache.scales;
  job.slots = slots;
  return job;
}

std::size_t element_bytes(const Cache& cache, DType dtype) noexcept {
  return cache.type == CacheType::f8_e4m3 ? 1 : static_cast<std::size_t>(rotary::detail::bytes_of(dtype));
}

void check_disjoint(const char* operation, std::span<const Part> written, const Cache& cache, const Slots& slots,
                    std::int64_t tokens) {
  check_slots_disjoint(operation, written, slots, tokens);
  if (cache.type == CacheType::f8_e4m3 && cache.scales != nullptr) {
    check_disjoint(operation, written, values("scales", cache.scales, 2));
  }
}

}  // namespace rotary::gpu
