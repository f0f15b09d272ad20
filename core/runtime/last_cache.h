// The sizes of this machine's caches.
#pragma once

#include <array>
#include <cstddef>

namespace rotary::detail {

// Bytes of the data or unified cache of level 1, 2, 3, 4 that processor 0 uses; 0 if there is none or it is
// unknown.
using DataCaches = std::array<std::size_t, 4>;
const DataCaches& data_caches() noexcept;

// Bytes of the largest of them; 32 MiB if unknown.
std::size_t last_cache_bytes() noexcept;

}  // namespace rotary::detail
