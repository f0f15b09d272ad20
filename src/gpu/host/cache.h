// The checks of a paged cache and its slots, and the job made of them.
#pragma once

#include "gpu/kernels/kernels.h"
#include "overlap.h"
#include "rotate/cache_checks.h"

namespace rotary::gpu {

// Checks that k fits the cache and that the cache's elements do not overlap. Throws SHAPE, DTYPE, VALUE.
void check_cache(const char* operation, const Cache&, const ConstHeads& k);

CacheJob cache_job(const Cache&, const Slots&) noexcept;

// Bytes of a cache element for heads of this dtype.
std::size_t element_bytes(const Cache&, DType) noexcept;

// The memory written must not overlap slots and scales. slots.indices is not checked: its length is only known on the
// device. Throws ALIAS.
void check_disjoint(const char* operation, std::span<const Part> written, const Cache&, const Slots&,
                    std::int64_t tokens);

}  // namespace rotary::gpu
