// The error sentences of rotate and the operations like it: each rule that checks.cpp tests, in words.
#pragma once

#include <cstdint>
#include <string>

#include "rotary/rotary.h"
#include "runtime/compiler.h"
#include "values/fail.h"

namespace rotary::detail {

// What the checks need to know of a table, wherever its rows lie.
struct TableShape {
  Pairing pairing = Pairing::unset;
  int pairs = 0;
  int batch = 1;
  std::int64_t tokens = 0;
  int rotary_dim() const noexcept { return 2 * pairs; }
};
inline TableShape shape_of(const Table& t) noexcept { return {t.pairing(), t.pairs(), t.batch(), t.tokens()}; }
inline TableShape shape_of(const TableShape& t) noexcept { return t; }

// How the sentences name a call and its arguments.
struct Names {
  const char* operation;
  const char* x;
  const char* out;
  const char* of_x;  // " of q", where there is more than one
};

// Throws for the first rule that a call from x to out breaks; INTERNAL where it breaks none, which is a defect: every
// rule of make_job() in checks.cpp has its sentence here.
[[noreturn, gnu::cold]] void refuse(const Names& names, const ConstHeads& x, const Heads& out, const TableShape& table,
                                    Direction direction);

// Throws ALIAS: what is written to the one overlaps the other.
[[noreturn, gnu::cold]] ROTARY_API void refuse_overlap(const char* operation, const char* written, const char* other);

// "[batch, tokens, heads, head_dim]" in numbers.
ROTARY_API std::string shape(const Layout&);

// Validates an argument that is only read. Throws DTYPE, SHAPE.
ROTARY_API void check_readable(const char* operation, const char* side, const ConstHeads& x);

inline bool has_elements(const Layout& l) noexcept {
  return l.batch > 0 && l.tokens > 0 && l.heads > 0 && l.head_dim > 0;
}

inline bool same_shape(const Layout& a, const Layout& b) noexcept {
  return a.batch == b.batch && a.tokens == b.tokens && a.heads == b.heads && a.head_dim == b.head_dim;
}

// Adds what count steps reach; false where that is 2^63 or more.
inline bool extend(std::int64_t& extent, std::int64_t count, std::int64_t stride) noexcept {
  std::int64_t reach = 0;
  return !multiply_overflows(count - 1, stride, &reach) && !add_overflows(extent, reach, &extent);
}

}  // namespace rotary::detail
