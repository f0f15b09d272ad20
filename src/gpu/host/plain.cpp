// What needs no device: positions, caches, slots and rotations as the caller describes them.
#include <string>

#include "call.h"
#include "pointers.h"
#include "rotary/gpu.h"
#include "rotate/checks.h"
#include "rotate/refuse.h"
#include "table/table_checks.h"

namespace rotary::gpu {
namespace {

template <class T>
void check_positions(const T* p, std::int64_t tokens, int axes, int batch) {
  if (axes < 1) fail("SHAPE", "positions", "axes must be at least 1 but is " + text(axes));
  if (batch < 1) fail("SHAPE", "positions", "batch must be at least 1 but is " + text(batch));
  if (tokens < 0) fail("SHAPE", "positions", "tokens must not be negative but is " + text(tokens));
  checked_product("positions", checked_product("positions", axes, batch), tokens);
  if (tokens > 0) check_pointer("positions", "positions", p, sizeof(T));
}

}  // namespace

Positions::Positions(const std::int64_t* p, std::int64_t tokens_, int axes_, int batch_)
    : i64(p), axes(axes_), batch(batch_), tokens(tokens_) {
  check_positions(p, tokens, axes, batch);
}
Positions::Positions(const std::int32_t* p, std::int64_t tokens_, int axes_, int batch_)
    : i32(p), axes(axes_), batch(batch_), tokens(tokens_) {
  check_positions(p, tokens, axes, batch);
}
Positions::Positions(const double* p, std::int64_t tokens_, int axes_, int batch_)
    : f64(p), axes(axes_), batch(batch_), tokens(tokens_) {
  check_positions(p, tokens, axes, batch);
}

Rotation::Rotation(const Frequencies& f, const Positions& p) : frequencies(&f), positions(p) {
  check_pairs("rotation", f);
  check_unchanged("rotation", p);
  if (p.f64 != nullptr) fail("POSITION", "rotation", "positions must be integers without a table but are fractional");
  check_axes("rotation", f.axes(), p.axes);
}

// ---- caches --------------------------------------------------------------------------------------

namespace {

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

Slots Slots::flat(const std::int64_t* slot_mapping) {
  Slots slots;
  slots.slot = slot_mapping;
  return slots;
}

Slots Slots::paged(const std::int32_t* indptr, const std::int32_t* indices, const std::int32_t* batch_indices,
                   const std::int32_t* positions, int sequences) {
  Slots slots;
  slots.indptr = indptr;
  slots.indices = indices;
  slots.batch_indices = batch_indices;
  slots.positions = positions;
  slots.sequences = sequences;
  return slots;
}

}  // namespace rotary::gpu
