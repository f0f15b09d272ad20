// The rules of a paged cache and its slots, for heads that go there.
#pragma once

#include "blocks.h"
#include "kernels.h"

namespace rotary::gpu {

// k's and v's elements of a cache, each written at most once. Throws SHAPE, DTYPE, VALUE.
void check_cache(const char* verb, const Cache&, const ConstHeads& k);
void check_slots(const char* verb, const Slots&);

CacheJob cache_job(const Cache&, const Slots&) noexcept;

// Where they lie: data is the cache's k or v, dtype that of the heads.
Blocks blocks_of(const Cache&, const void* data, DType dtype) noexcept;
Blocks blocks_of(const void* data, DType dtype, const Layout&) noexcept;

}  // namespace rotary::gpu
