// The rules of a paged cache and its slots, for heads that go there.
#pragma once

#include "apart.h"
#include "gpu/kernels/kernels.h"

namespace rotary::gpu {

// k's and v's elements of a cache, each written at most once. Throws SHAPE, DTYPE, VALUE.
void check_cache(const char* verb, const Cache&, const ConstHeads& k);
void check_slots(const char* verb, const Slots&);

CacheJob cache_job(const Cache&, const Slots&) noexcept;

// Pages, tokens of a page, heads.
Layout layout_of(const Cache&) noexcept;
// Of the cache, where the heads are of that type.
std::size_t element_bytes(const Cache&, DType) noexcept;

// What is written from what says where to, and from the scales. But for slots.indices, whose length only the device
// knows. Throws ALIAS.
void check_apart(const char* verb, std::span<const Part> written, const Cache&, const Slots&, std::int64_t tokens);

}  // namespace rotary::gpu
