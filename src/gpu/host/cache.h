// The checks of a paged cache and of slots, and their job.
#pragma once

#include "gpu/kernels/kernels.h"
#include "overlap.h"

namespace rotary::gpu {

// A cache to which k can go, whose elements are distinct. Throws SHAPE, DTYPE, VALUE.
void check_cache(const char* operation, const Cache&, const ConstHeads& k);
void check_slots(const char* operation, const Slots&);

CacheJob cache_job(const Cache&, const Slots&) noexcept;

// A page as a batch row, its tokens, heads.
Layout layout_of(const Cache&) noexcept;
// Bytes of an element of the cache, for heads of that dtype.
std::size_t element_bytes(const Cache&, DType) noexcept;

// What is written must not overlap slots and scales. slots.indices is left out: its length is only known on the device.
// Throws ALIAS.
void check_disjoint(const char* operation, std::span<const Part> written, const Cache&, const Slots&,
                    std::int64_t tokens);

}  // namespace rotary::gpu
