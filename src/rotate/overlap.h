// Where blocks of elements lie in memory, and whether two sets of them meet.
#pragma once

#include <cstdint>

#include "rotary/export.h"

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

// Whether some block of a overlaps some block of b, where neither set is empty. Conservative: never misses an overlap,
// but may report one when the extents overlap and the two stride patterns do not nest.
ROTARY_API bool blocks_meet(const Blocks& a, const Blocks& b) noexcept;

}  // namespace rotary::detail
