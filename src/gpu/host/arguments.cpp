// The arguments that need no device: positions, rotations, caches, slots.
#include <string>

#include "jobs.h"
#include "rotary/gpu.h"
#include "rotate/checks.h"
#include "rotate/pointers.h"
#include "rotate/refuse.h"
#include "table/table_checks.h"
#include "values/names.h"

namespace rotary::gpu {
namespace {

template <class T>
void check_positions(const T* p, std::int64_t tokens, int axes, int batch) {
  const char* const operation = "positions";
  if (axes < 1) fail(Code::SHAPE, operation, "axes must be at least 1 but got " + std::to_string(axes));
  if (batch < 1) fail(Code::SHAPE, operation, "batch must be at least 1 but got " + std::to_string(batch));
  if (tokens < 0) fail(Code::SHAPE, operation, "tokens must not be negative but got " + std::to_string(tokens));
  checked_product(operation, checked_product(operation, axes, batch), tokens);
  if (tokens > 0) check_pointer(operation, "positions", p, sizeof(T));
}

}  // namespace

void Positions::set(const std::int64_t* p) {
  check_positions(p, tokens_, axes_, batch_);
  int64_ = p;
}
void Positions::set(const std::int32_t* p) {
  check_positions(p, tokens_, axes_, batch_);
  int32_ = p;
}
void Positions::set(const double* p) {
  check_positions(p, tokens_, axes_, batch_);
  real_ = p;
}

Rotation::Rotation(const Frequencies& f, const Positions& p) : frequencies_(&f), positions_(p) {
  check_pairs("rotation", f);
  if (arrays_of(p).f64 != nullptr) {
    fail(Code::POSITION, "rotation", "positions must be integers without a table but got doubles");
  }
  check_axes("rotation", f.axes(), p.axes());
}

// ---- caches --------------------------------------------------------------------------------------

namespace {

constexpr rotary::detail::Named<CacheType> cache_types[] = {{CacheType::same, "same"}, {CacheType::f8_e4m3, "f8_e4m3"}};

Cache cache(const char* layout, void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim) {
  const std::int64_t page = checked_product(layout, checked_product(layout, page_size, heads), head_dim);
  checked_product(layout, pages, page);
  Cache result;
  result.k = k;
  result.v = v;
  result.pages = pages;
  result.page_size = page_size;
  result.heads = heads;
  result.head_dim = head_dim;
  result.page_stride = page;
  return result;
}

}  // namespace

const char* name(CacheType type) noexcept { return rotary::detail::name_in(cache_types, type); }
CacheType parse_cache_type(std::string_view text) {
  return rotary::detail::parse_in(cache_types, text, "parse_cache_type", Code::DTYPE);
}

Cache nhd(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim) {
  Cache result = cache("nhd", k, v, pages, page_size, heads, head_dim);
  result.token_stride = heads * head_dim;
  result.head_stride = head_dim;
  return result;
}

Cache hnd(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim) {
  Cache result = cache("hnd", k, v, pages, page_size, heads, head_dim);
  result.token_stride = head_dim;
  result.head_stride = std::int64_t{page_size} * head_dim;
  return result;
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

}  // namespace rotary::gpu
