// The sizes of this machine's caches.
#pragma once

#include <array>
#include <cstddef>

namespace rotary::detail {

// Bytes of the data or unified cache of level 1, 2, 3, 4 that processor 0 uses; 0 where there is none, or where the
// system does not say.
using DataCaches = std::array<std::size_t, 4>;
const DataCaches& data_caches() noexcept;

// Bytes of the largest of them; 32 MiB where the system does not say.
std::size_t last_cache_bytes() noexcept;

}  // namespace rotary::detail
