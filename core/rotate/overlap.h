// The memory of a call's arguments, with their names, and the check that written memory overlaps no other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "refuse.h"
#include "runtime/compiler.h"
#include "values/dtypes.h"

namespace rotary::detail {

// Blocks of one size, in bytes: block (i0, i1, i2) begins at begin + sum(i_k * stride[k]), i_k < count[k]. The strides
// are not negative.
struct Blocks {
  std::uintptr_t begin;
  std::int64_t block;
  std::int64_t count[3];
  std::int64_t stride[3];

  std::uintptr_t end() const noexcept {
    std::int64_t bytes = block;
    for (int k = 0; k < 3; ++k) bytes += (count[k] - 1) * stride[k];
    return begin + static_cast<std::uintptr_t>(bytes);
  }
};

// The stride of a dimension of size one becomes 0, so that it affects neither extent nor alignment.
inline void set_strides(std::int64_t (&strides)[3], const Layout& l) noexcept {
  strides[0] = l.batch > 1 ? l.batch_stride : 0;
  strides[1] = l.tokens > 1 ? l.token_stride : 0;
  strides[2] = l.heads > 1 ? l.head_stride : 0;
}

// Whether some block of a overlaps some block of b, where neither set is empty. Conservative: never misses an overlap,
// but may report one when the extents overlap and the two stride patterns do not nest.
ROTARY_API bool blocks_meet(const Blocks& a, const Blocks& b) noexcept;

// A range of elements in memory and its name in error sentences. It is cheap to make: nearly all calls only compare
// both ends.
struct NamedMemory {
  const char* name;
  std::uintptr_t begin, end;
  std::int64_t each;     // bytes of an element
  const Layout* layout;  // null: contiguous
};

inline NamedMemory memory_of(const char* name, const void* data, std::int64_t each, const Layout& l) noexcept {
  std::int64_t stride[3];
  set_strides(stride, l);
  const std::int64_t elements =
      (l.batch - 1) * stride[0] + (l.tokens - 1) * stride[1] + (l.heads - 1) * stride[2] + l.head_dim;
  return {name, address_of(data), address_of(data) + static_cast<std::uintptr_t>(elements * each), each, &l};
}
// The memory of X, Heads or ConstHeads, which must outlive the result.
template <class X>
NamedMemory memory_of(const char* name, const X& x) noexcept {
  return memory_of(name, x.data, bytes_of(x.dtype), x.layout);
}

inline Blocks blocks_of(const NamedMemory& p) noexcept {
  if (p.layout == nullptr) return {p.begin, static_cast<std::int64_t>(p.end - p.begin), {1, 1, 1}, {}};
  const Layout& l = *p.layout;
  Blocks blocks{p.begin, l.head_dim * p.each, {l.batch, l.tokens, l.heads}, {}};
  set_strides(blocks.stride, l);
  for (std::int64_t& stride : blocks.stride) stride *= p.each;
  return blocks;
}

// The memory that a call writes: q_out, the cache's k and v.
struct Writes {
  Writes() = default;
  Writes(const Writes&) = delete;  // the memories point to the layouts
  Writes& operator=(const Writes&) = delete;
  void add(const NamedMemory& memory) noexcept { memories[count++] = memory; }
  std::span<const NamedMemory> all() const noexcept { return {memories, count}; }
  NamedMemory memories[3];
  std::size_t count = 0;
  Layout k_cache, v_cache;
};

// a * b, at most the largest int64.
inline std::int64_t product(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t result = 0;
  return multiply_overflows(a, b, &result) ? std::numeric_limits<std::int64_t>::max() : result;
}

// `count` contiguous values.
template <class T>
NamedMemory values(const char* name, const T* data, std::int64_t count) noexcept {
  const std::uintptr_t begin = address_of(data);
  return {name, begin, begin + static_cast<std::uintptr_t>(product(count, sizeof(T))), 1, nullptr};
}

// Checks that two memories, neither of them empty, do not overlap. Throws ALIAS.
inline void check_disjoint(const char* operation, const NamedMemory& written, const NamedMemory& other) {
  if (other.end <= written.begin || written.end <= other.begin) return;
  if (blocks_meet(blocks_of(written), blocks_of(other))) refuse_overlap(operation, written.name, other.name);
}
inline void check_disjoint(const char* operation, std::span<const NamedMemory> written, const NamedMemory& other) {
  for (const NamedMemory& w : written) check_disjoint(operation, w, other);
}

}  // namespace rotary::detail
