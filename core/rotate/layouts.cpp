// Layouts of contiguous tensors, parts of heads, caches; the conversions of their elements.
#include "runtime/arithmetic.h"

#include <cstddef>

#include "cache_checks.h"
#include "rotary/cache.h"
#include "runtime/float_state.h"
#include "values/names.h"
#include "values/storage.h"

namespace rotary {

using namespace detail;

Layout bthd(std::int64_t batch, std::int64_t tokens, std::int64_t heads, int head_dim) {
  const std::int64_t token = checked_product("bthd", heads, head_dim);
  const std::int64_t row = checked_product("bthd", tokens, token);
  checked_product("bthd", batch, row);
  return {batch, tokens, heads, head_dim, row, token, head_dim};
}

Layout bhtd(std::int64_t batch, std::int64_t heads, std::int64_t tokens, int head_dim) {
  const std::int64_t head = checked_product("bhtd", tokens, head_dim);
  const std::int64_t row = checked_product("bhtd", heads, head);
  checked_product("bhtd", batch, row);
  return {batch, tokens, heads, head_dim, row, head_dim, head};
}

Layout tbhd(std::int64_t tokens, std::int64_t batch, std::int64_t heads, int head_dim) {
  const std::int64_t row = checked_product("tbhd", heads, head_dim);
  const std::int64_t token = checked_product("tbhd", batch, row);
  checked_product("tbhd", tokens, token);
  return {batch, tokens, heads, head_dim, row, token, head_dim};
}

Layout thd(std::int64_t tokens, std::int64_t heads, int head_dim) { return bthd(1, tokens, heads, head_dim); }

ConstHeads slice(const ConstHeads& x, int first, int head_dim) {
  const int all = x.layout.head_dim;
  if (first < 0 || head_dim < 0 || first > std::int64_t{all} - head_dim)
    fail(Code::SHAPE, "slice", "elements must lie inside head_dim ", all, " but got ", first, " to ",
         std::int64_t{first} + head_dim);
  ConstHeads part = x;
  if (x.data != nullptr)
    part.data = static_cast<const std::byte*>(x.data) + static_cast<std::size_t>(first) * size_of(x.dtype);
  part.layout.head_dim = head_dim;
  return part;
}

Heads slice(const Heads& x, int first, int head_dim) {
  const ConstHeads part = slice(ConstHeads(x), first, head_dim);
  return {const_cast<void*>(part.data), part.dtype, part.layout};
}

// ---- elements ----

// volatile: a compiler may move arithmetic of values, unlike an access of memory, past a change of the state.
f16 to_f16(float x) noexcept {
  const FloatState ours;
  const volatile float given = x;
  const volatile std::uint16_t bits = encode_f16(given).bits;
  return {bits};
}
bf16 to_bf16(float x) noexcept { return encode_bf16(x); }
float to_float(f16 x) noexcept {
  const FloatState ours;
  const volatile std::uint16_t bits = x.bits;
  const volatile float widened = decode(f16{bits});
  return widened;
}
float to_float(bf16 x) noexcept { return decode(x); }

// ---- caches ----

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

Cache nhd(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim, CacheType type,
          int v_head_dim) {
  return contiguous_cache<Cache>("nhd", false, k, v, pages, page_size, heads, head_dim, type, v_head_dim);
}

Cache hnd(void* k, void* v, std::int64_t pages, int page_size, std::int64_t heads, int head_dim, CacheType type,
          int v_head_dim) {
  return contiguous_cache<Cache>("hnd", true, k, v, pages, page_size, heads, head_dim, type, v_head_dim);
}

Cache latent_rows(void* rows, std::int64_t pages, int page_size, int latent_dim, int rope_dim, CacheType type) {
  return latent_cache<Cache>(rows, pages, page_size, latent_dim, rope_dim, type);
}

}  // namespace rotary
