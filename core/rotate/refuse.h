// The error sentences of rotate and similar operations: one for each rule that checks.cpp tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "rotary/rotary.h"
#include "runtime/compiler.h"
#include "table/positions.h"
#include "values/dtypes.h"
#include "values/fail.h"

namespace rotary::detail {

// The names of a call and its arguments in the sentences.
struct Names {
  const char* operation;
  const char* x;
  const char* out;
  const char* of_x;  // " of q", if there are several tensors
};

// Throws for the first rule that a call from x to out breaks. INTERNAL if it breaks none, which is a defect: every rule
// of make_job() in checks.cpp has its sentence here.
[[noreturn, gnu::cold]] void refuse(const Names& names, const ConstHeads& x, const Heads& out, const TableShape& table,
                                    Direction direction);

// Throws SCALING for a call that rotates queries and keys by a table with xPos.
[[noreturn, gnu::cold]] ROTARY_API void refuse_xpos(const char* operation);

// Throws ALIAS: the memory written to `written` overlaps `other`.
[[noreturn, gnu::cold]] ROTARY_API void refuse_overlap(const char* operation, const char* written, const char* other);

// The layout's [batch, tokens, heads, head_dim] as text.
ROTARY_API std::string shape(const Layout&);

// ---- one argument ----

// Throws SHAPE if a size is negative.
void check_sizes(const char* operation, const Layout&);
// Checks an argument that is only read. Throws DTYPE, SHAPE.
ROTARY_API void check_readable(const char* operation, const char* side, const ConstHeads& x);
// Bytes from the first element of a cache to the end of its last, with pages as batch rows; an element has `each`
// bytes. Throws SHAPE, also if elements share memory.
std::int64_t checked_extent(const char* operation, const Layout& cache, std::int64_t each);

inline std::uintptr_t address_of(const void* data) noexcept { return reinterpret_cast<std::uintptr_t>(data); }

// Checks of pointers; the memory is not read. `bytes` is a power of two.
inline void check_aligned(const char* operation, const char* what, const void* p, std::size_t bytes) {
  const std::uintptr_t beyond = address_of(p) & (bytes - 1);
  if (beyond == 0) return;
  fail(Code::DTYPE, operation, what, " must be aligned to ", bytes, " bytes but got an address ", beyond, " beyond");
}
inline void check_not_null(const char* operation, const char* what, const void* p) {
  if (p == nullptr) fail(Code::SHAPE, operation, what, " must point to its elements but got null");
}
inline void check_pointer(const char* operation, const char* what, const void* p, std::size_t bytes) {
  check_not_null(operation, what, p);
  check_aligned(operation, what, p, bytes);
}
inline void check_end(const char* operation, const char* what, const void* p, std::int64_t bytes) {
  if (address_of(p) + static_cast<std::uintptr_t>(bytes) >= address_of(p)) return;
  fail(Code::SHAPE, operation, what, " must end inside the address space but spans ", bytes, " bytes");
}

// ---- sizes and extents ----

inline bool has_elements(const Layout& l) noexcept {
  return l.batch > 0 && l.tokens > 0 && l.heads > 0 && l.head_dim > 0;
}

// The offset in elements of head `item` among all [batch, tokens, heads].
inline std::int64_t head_at(const Layout& l, std::int64_t item) noexcept {
  const std::int64_t token = item / l.heads;
  return token / l.tokens * l.batch_stride + token % l.tokens * l.token_stride + item % l.heads * l.head_stride;
}

inline bool same_shape(const Layout& a, const Layout& b) noexcept {
  return a.batch == b.batch && a.tokens == b.tokens && a.heads == b.heads && a.head_dim == b.head_dim;
}

// Adds the reach of `count` indices with a stride to the extent; false if it is 2^63 or more.
inline bool extend(std::int64_t& extent, std::int64_t count, std::int64_t stride) noexcept {
  std::int64_t reach = 0;
  return !multiply_overflows(count - 1, stride, &reach) && !add_overflows(extent, reach, &extent);
}
// Adds the reach of all strides of a layout with elements; also false if a stride is negative.
inline bool extend(std::int64_t& extent, const Layout& l) noexcept {
  const auto reaches = [&](std::int64_t count, std::int64_t stride) {
    return count == 1 || (stride >= 0 && extend(extent, count, stride));
  };
  return reaches(l.heads, l.head_stride) && reaches(l.tokens, l.token_stride) && reaches(l.batch, l.batch_stride);
}

// Memory from its first byte to the end of its last.
struct Range {
  std::uintptr_t begin, end;
  bool apart(const Range& other) const noexcept { return (end <= other.begin) | (other.end <= begin); }
};
// True if this many elements can lie at the address; sets the range.
[[gnu::always_inline]] inline bool lies_at(const void* data, std::int64_t elements, std::int64_t each,
                                           Range& range) noexcept {
  std::int64_t bytes = 0;
  if (multiply_overflows(elements, each, &bytes)) return false;
  range.begin = address_of(data);
  return data != nullptr && (range.begin & static_cast<std::uintptr_t>(each - 1)) == 0 &&
         !add_overflows(range.begin, static_cast<std::uintptr_t>(bytes), &range.end);
}
// True if x has elements and can be read; sets the range.
inline bool readable(const ConstHeads& x, Range& range) noexcept {
  std::int64_t extent = x.layout.head_dim;
  return is_built(x.dtype) && has_elements(x.layout) && extend(extent, x.layout) &&
         lies_at(x.data, extent, bytes_of(x.dtype), range);
}

}  // namespace rotary::detail
