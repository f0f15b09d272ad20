// Where blocks of elements lie in memory, and whether two sets of them meet.
#pragma once

#include <cstdint>

#include "rotary/export.h"
#include "rotary/heads.h"

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

inline std::uintptr_t address_of(const void* data) noexcept { return reinterpret_cast<std::uintptr_t>(data); }

// The stride of a dimension of size one becomes 0, so that it affects neither extent nor alignment.
inline void set_strides(std::int64_t (&strides)[3], const Layout& l) noexcept {
  strides[0] = l.batch > 1 ? l.batch_stride : 0;
  strides[1] = l.tokens > 1 ? l.token_stride : 0;
  strides[2] = l.heads > 1 ? l.head_stride : 0;
}

// The heads of a layout that begins at an address, elements of `each` bytes. Their extent is below 2^63.
inline Blocks blocks_of(std::uintptr_t begin, const Layout& l, std::int64_t each) noexcept {
  Blocks blocks{begin, l.head_dim * each, {l.batch, l.tokens, l.heads}, {}};
  set_strides(blocks.stride, l);
  for (std::int64_t& stride : blocks.stride) stride *= each;
  return blocks;
}

// Whether some block of a overlaps some block of b, where neither set is empty. Conservative: never misses an overlap,
// but may report one when the extents overlap and the two stride patterns do not nest.
ROTARY_API bool blocks_meet(const Blocks& a, const Blocks& b) noexcept;

}  // namespace rotary::detail
