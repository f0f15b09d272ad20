// The memory of a call's arguments by name, and the check that what is written overlaps nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "overlap.h"
#include "refuse.h"
#include "runtime/compiler.h"
#include "values/dtypes.h"

namespace rotary::detail {

// A range of elements in memory and its name in error sentences. Cheap to make: in nearly all calls it is enough to
// compare both ends.
struct Part {
  const char* name = nullptr;
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::int64_t each = 1;           // bytes of an element
  const Layout* layout = nullptr;  // null: contiguous
};

inline Part part(const char* name, const void* data, std::int64_t each, const Layout& l) noexcept {
  const std::int64_t elements = (l.batch > 1 ? (l.batch - 1) * l.batch_stride : 0) +
                                (l.tokens > 1 ? (l.tokens - 1) * l.token_stride : 0) +
                                (l.heads > 1 ? (l.heads - 1) * l.head_stride : 0) + l.head_dim;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return {name, begin, begin + static_cast<std::uintptr_t>(elements * each), each, &l};
}
// X: Heads or ConstHeads, which must outlive the part.
template <class X>
Part part_of(const char* name, const X& x) noexcept {
  return part(name, x.data, bytes_of(x.dtype), x.layout);
}

inline Blocks blocks_of(const Part& p) noexcept {
  if (p.layout == nullptr) return {p.begin, static_cast<std::int64_t>(p.end - p.begin), {1, 1, 1}, {}};
  return blocks_of(p.begin, *p.layout, p.each);
}

// The memory that a call writes: q_out, the cache's k and v.
struct Writes {
  Writes() = default;
  Writes(const Writes&) = delete;  // parts point to the layout
  Writes& operator=(const Writes&) = delete;
  void add(const Part& p) noexcept { parts[count++] = p; }
  std::span<const Part> all() const noexcept { return {parts, count}; }
  Part parts[3];
  std::size_t count = 0;
  Layout cache;
};

// a * b, at most the largest int64.
inline std::int64_t product(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t result = 0;
  return multiply_overflows(a, b, &result) ? std::numeric_limits<std::int64_t>::max() : result;
}

// `count` contiguous values.
template <class T>
Part values(const char* name, const T* data, std::int64_t count) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  return {name, begin, begin + static_cast<std::uintptr_t>(product(count, sizeof(T))), 1, nullptr};
}

// Neither part is empty. Throws ALIAS.
inline void check_disjoint(const char* operation, const Part& written, const Part& other) {
  if (other.end <= written.begin || written.end <= other.begin) return;
  if (blocks_meet(blocks_of(written), blocks_of(other))) refuse_overlap(operation, written.name, other.name);
}
inline void check_disjoint(const char* operation, std::span<const Part> written, const Part& other) {
  for (const Part& w : written) check_disjoint(operation, w, other);
}

}  // namespace rotary::detail
