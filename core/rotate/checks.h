// Validates a call of rotate once and turns it into Jobs. The error sentences are in refuse.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/tuning.h"
#include "job.h"
#include "refuse.h"

namespace rotary::detail {

// Checks the named operation from x to out by the table, in place if x and out have the same data and layout, and makes
// its job. Without elements the job has no rows. With a table with rows per head, the job needs as many heads; for a
// multiple of them only the rules are checked. Throws SHAPE, DTYPE, ALIAS, PAIRING, VALUE.
Job check_rotate(const char* operation, const InOut& x, const Table&, Direction);
Job check_rotate(const char* operation, const Heads& x, const Table&, Direction);  // in place
void check_rotate(const Names&, const ConstHeads& x, const Heads& out, const Table&, Direction, Job&);
// The same checks for a table whose rows lie elsewhere; makes no job.
ROTARY_API void check_heads(const Names&, const ConstHeads& x, const Heads& out, const TableShape&,
                            Direction = Direction::forward);

// The jobs of one call. No job writes memory that the other reads or writes.
struct Jobs {
  Job q;                    // with k's heads, if both are one tensor
  Job k;                    // may have no rows
  std::int64_t table_rows;  // tokens times batch rows of the table
};

// Like check_rotate for q and for k; their written elements must not overlap (ALIAS). The first overload is in place,
// and its table has no rows per head. Error sentences name the tensor.
Jobs check_rotate_qk(const char* operation, const Heads& q, const Heads& k, const Table&, Direction);
Jobs check_rotate_qk(const char* operation, const InOut& q, const InOut& k, const Table&, Direction);
ROTARY_API void check_heads(const char* operation, const InOut& q, const InOut& k, const TableShape&, Direction);

// The product of two sizes of a contiguous layout. Throws SHAPE if one is negative or the product exceeds 64 bits.
ROTARY_API std::int64_t checked_product(const char* operation, std::int64_t a, std::int64_t b);

// ---- heads whose block does not begin at element 0 ----

// The elements of each head from `first` on, as heads.
template <class View>
View behind(const char* operation, const View& x, int first) {
  if (first >= 0 && first <= x.layout.head_dim) return slice(x, first, x.layout.head_dim - first);
  fail(Code::SHAPE, operation, "first must be an element of the head, of head_dim ", x.layout.head_dim, ", but got ",
       first);
}
inline InOut behind(const char* operation, const InOut& x, int first) {
  return {behind(operation, x.in, first), behind(operation, x.out, first)};
}

// Like check_heads, for the block from options.first on, and for the whole heads, whose elements before it are copied.
void check_heads_from(const Names&, const InOut& x, const Table&, const RotateOptions&);
void check_heads_from(const char* operation, const InOut& q, const InOut& k, const Table&, const RotateOptions&);

// Heads [first, first + count).
template <class View>
View heads_of(View x, std::int64_t first, std::int64_t count) noexcept {
  x.layout.heads = count;
  if (x.data == nullptr || count == 0) return x;
  const auto* const data = static_cast<const std::byte*>(x.data);
  x.data = const_cast<std::byte*>(data + first * x.layout.head_stride * bytes_of(x.dtype));
  return x;
}

// ---- how a call runs: non-temporal stores, and the work of one thread ----

// The bytes of one token's heads.
inline std::int64_t token_bytes(const ConstHeads& x) noexcept {
  return has_elements(x.layout) ? x.layout.heads * x.layout.head_dim * bytes_of(x.dtype) : 0;
}
// Throws VALUE.
void check_stores(const char* operation, Stores);
// For an operation on whole heads. Throws SHAPE.
void check_first_is_0(const char* operation, int first);
// True if a call that reads and writes this many bytes should use non-temporal stores.
bool streams(std::int64_t bytes_read, const RotateOptions&);
// ceil(whole / part), at least 1, in 32 bits: a 64-bit division is slow.
inline std::int64_t parts_of(std::int64_t whole, std::int64_t part) noexcept {
  if (part >= whole) return 1;
  const auto bytes = static_cast<std::uint32_t>(part);
  return (static_cast<std::uint32_t>(whole) + bytes - 1) / bytes;
}
// The number of items of this size that are worth a thread.
inline std::int64_t grain(std::int64_t item_bytes) noexcept { return parts_of(tuning().grain_bytes, item_bytes); }

}  // namespace rotary::detail
