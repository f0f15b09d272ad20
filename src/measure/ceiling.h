// The memory speed of this machine: upper bounds that a benchmark compares kernels with.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rotary/threads.h"

namespace rotary::detail {

enum class Traffic : std::uint8_t {
  update,  // in == out: read, changed, written back in place (every float32 multiplied by 1)
  copy,    // in to out
  stream,  // in to out with non-temporal stores, which bypass the caches
};

// Moves bytes with the widest loads and stores of the chosen target: no kernel that reads and writes the same memory
// can be faster for long. in and out are aligned to 64 bytes and do not overlap (for update: are the same); bytes is a
// multiple of 4.
void move_bytes(Traffic, const void* in, void* out, std::size_t bytes, const Executor& = serial());

}  // namespace rotary::detail
