// How items are parted among threads.
#pragma once

#include <algorithm>
#include <cstdint>

namespace rotary::detail {

// The beginning of part `part` of `parts`, whose sizes differ by at most one item. Dividing first prevents overflow.
inline std::int64_t begin_of(std::int64_t count, std::int64_t part, std::int64_t parts) noexcept {
  return count / parts * part + std::min(part, count % parts);
}

}  // namespace rotary::detail
