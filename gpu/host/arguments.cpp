// Arguments that need no device: positions, rotations, caches, slots.
#include <string>

#include "jobs.h"
#include "rotary/gpu.h"
#include "rotate/cache_checks.h"
#include "rotate/checks.h"
#include "rotate/refuse.h"
#include "table/table_checks.h"

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
  if (f.head_rows() != 1 || is_sum(f.host()))
    fail(Code::SHAPE, "rotation", "rows per head, sums of axes, phases and xpos need a table but got frequencies");
  check_axes("rotation", f.host(), p.axes());
}

// ---- caches --------------------------------------------------------------------------------------

Cache nhd(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim, CacheType type,
          int v_head_dim) {
  return rotary::detail::contiguous_cache<Cache>("nhd", false, k, v, pages, page_size, heads, head_dim, type,
                                                 v_head_dim);
}

Cache hnd(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim, CacheType type,
          int v_head_dim) {
  return rotary::detail::contiguous_cache<Cache>("hnd", true, k, v, pages, page_size, heads, head_dim, type,
                                                 v_head_dim);
}

Cache latent_rows(void* rows, std::int64_t pages, int page_size, int latent_dim, int rope_dim, CacheType type) {
  return rotary::detail::latent_cache<Cache>(rows, pages, page_size, latent_dim, rope_dim, type);
}

}  // namespace rotary::gpu
