// The size of this machine's last cache.
#pragma once

#include <cstddef>

namespace rotary::detail {

// Bytes of this machine's last cache level; 32 MiB if unknown.
std::size_t last_cache_bytes() noexcept;

}  // namespace rotary::detail
