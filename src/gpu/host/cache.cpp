#include "cache.h"

#include <array>
#include <cmath>
#include <string>
#include <utility>

#include "pointers.h"
#include "runtime/compiler.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::gpu {
namespace {

struct Dimension {
  const char* name;
  std::int64_t count;
  std::int64_t stride;
};

// Dimensions of size one first, the others by rising stride.
std::array<Dimension, 3> dimensions(const Cache& cache) noexcept {
  std::array<Dimension, 3> all{Dimension{"head_stride", cache.heads, cache.head_stride},
                               Dimension{"token_stride", cache.page_size, cache.token_stride},
                               Dimension{"page_stride", cache.pages, cache.page_stride}};
  for (Dimension& d : all) d.stride = d.count > 1 ? d.stride : 0;
  for (const unsigned k : {1U, 0U, 1U}) {
    if (all[k].stride > all[k + 1].stride) std::swap(all[k], all[k + 1]);
  }
  return all;
}

// The number of bytes from the first element to the end of the last.
std::int64_t checked_span(const char* operation, const Cache& cache, std::size_t bytes) {
  std::int64_t extent = cache.head_dim;
  for (const Dimension& d : dimensions(cache)) {
    if (d.count == 1) continue;
    if (d.stride < 0) {
      fail(Code::SHAPE, operation,
           std::string("the cache's ") + d.name + " must not be negative but got " + std::to_string(d.stride));
    }
    if (d.stride < extent) {
      fail(Code::SHAPE, operation,
           std::string("the cache's elements must be distinct but ") + d.name + " " + std::to_string(d.stride) +
               " steps over " + std::to_string(extent) + " elements");
    }
    if (!extend(extent, d.count, d.stride)) {
      fail(Code::SHAPE, operation,
           std::string("the cache must span less than 2^63 bytes but got ") + d.name + " " + std::to_string(d.stride) +
               " times " + std::to_string(d.count));
    }
  }
  if (multiply_overflows(extent, static_cast<std::int64_t>(bytes), &extent)) {
    fail(Code::SHAPE, operation, "the cache must span less than 2^63 bytes but got more");
  }
  return extent;
}

void check_end(const char* operation, const char* what, const void* data, std::int64_t bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  if (address + static_cast<std::uintptr_t>(bytes) >= address) return;
  fail(Code::SHAPE, operation,
       std::string(what) + " must end inside the address space but spans " + std::to_string(bytes) + " bytes");
}

void check_scale(const char* operation, const char* what, float scale) {
  if (std::isfinite(scale) && scale > 0) return;
  fail(Code::VALUE, operation, std::string(what) + " must be finite and above 0 but got " + shortest(scale));
}

}  // namespace

void check_cache(const char* operation, const Cache& cache, const ConstHeads& k) {
  if (cache.type > CacheType::f8_e4m3) {
    fail(Code::DTYPE, operation,
         "the cache must be same or f8_e4m3 but got value " + std::to_string(static_cast<int>(cache.type)));
  }
  if (cache.pages < 1 || cache.page_size < 1) {
    fail(Code::SHAPE, operation,
         "the cache must have pages of tokens but got " + std::to_string(cache.pages) + " pages of " +
             std::to_string(cache.page_size));
  }
  if (cache.heads != k.layout.heads || cache.head_dim != k.layout.head_dim) {
    fail(Code::SHAPE, operation,
         "the cache must have the heads and the head_dim of k, " + std::to_string(k.layout.heads) + " and " +
             std::to_string(k.layout.head_dim) + ", but got " + std::to_string(cache.heads) + " and " +
             std::to_string(cache.head_dim));
  }
  const std::size_t bytes = element_bytes(cache, k.dtype);
  const std::int64_t span = checked_span(operation, cache, bytes);
  check_pointer(operation, "the cache's k", cache.k, bytes);
  check_pointer(operation, "the cache's v", cache.v, bytes);
  check_end(operation, "the cache's k", cache.k, span);
  check_end(operation, "the cache's v", cache.v, span);
  if (cache.type != CacheType::f8_e4m3) return;
  check_aligned(operation, "scales", cache.scales, sizeof(float));
  if (cache.scales != nullptr) return;
  check_scale(operation, "k_scale", cache.k_scale);
  check_scale(operation, "v_scale", cache.v_scale);
}

void check_slots(const char* operation, const Slots& slots) {
  const bool paged = slots.indptr != nullptr || slots.indices != nullptr || slots.batch_indices != nullptr ||
                     slots.positions != nullptr || slots.sequences != 0;
  if ((slots.slot != nullptr) == paged) {
    fail(Code::SHAPE, operation,
         std::string("slots must be given by a slot mapping or by pages but got ") + (paged ? "both" : "neither"));
  }
  if (!paged) return check_aligned(operation, "the slot mapping", slots.slot, sizeof(std::int64_t));
  if (slots.sequences < 0) {
    fail(Code::SHAPE, operation, "sequences must not be negative but got " + std::to_string(slots.sequences));
  }
  check_pointer(operation, "indptr", slots.indptr, sizeof(std::int32_t));
  check_pointer(operation, "indices", slots.indices, sizeof(std::int32_t));
  check_pointer(operation, "batch_indices", slots.batch_indices, sizeof(std::int32_t));
  check_pointer(operation, "positions", slots.positions, sizeof(std::int32_t));
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

Layout layout_of(const Cache& cache) noexcept {
  Layout l;
  l.batch = cache.pages;
  l.tokens = cache.page_size;
  l.heads = cache.heads;
  l.head_dim = cache.head_dim;
  l.batch_stride = cache.page_stride;
  l.token_stride = cache.token_stride;
  l.head_stride = cache.head_stride;
  return l;
}

void check_disjoint(const char* operation, std::span<const Part> written, const Cache& cache, const Slots& slots,
                    std::int64_t tokens) {
  if (slots.slot != nullptr) {
    check_disjoint(operation, written, values("the slot mapping", slots.slot, tokens));
  } else {
    check_disjoint(operation, written, values("indptr", slots.indptr, std::int64_t{slots.sequences} + 1));
    check_disjoint(operation, written, values("batch_indices", slots.batch_indices, tokens));
    check_disjoint(operation, written, values("positions", slots.positions, tokens));
  }
  if (cache.type == CacheType::f8_e4m3 && cache.scales != nullptr) {
    check_disjoint(operation, written, values("scales", cache.scales, 2));
  }
}

}  // namespace rotary::gpu
