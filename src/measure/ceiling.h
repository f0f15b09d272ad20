// The memory speed of this machine: upper bounds that a benchmark compares kernels with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rotary/threads.h"

namespace rotary::detail {

enum class Traffic : std::uint8_t {
  update,  // in == out: read, changed, written back in place (every float32 multiplied by 1)
  copy,    // in to out by memcpy
  stream,  // in to out with non-temporal stores, which bypass the caches
};

// A way to move bytes. Each thread's share is `runs` adjacent equal parts that are walked at once, a cache line of each
// in turn, with memory fetched `ahead` bytes ahead in each of them (0: not by software). Of a copy neither counts.
struct Move {
  Traffic traffic = Traffic::update;
  int runs = 1;
  int ahead = 0;
};

// Moves bytes with the widest loads and stores of the chosen target. in and out are aligned to 64 bytes and do not
// overlap (for update: are the same); bytes is a multiple of 4.
void move_bytes(const Move&, const void* in, void* out, std::size_t bytes, const Executor& = serial());

// The ways of which the best is the ceiling of all work that reads and writes these bytes: in place an update in 1, 4
// and 16 runs, out of place a copy, and past the caches in 1, 2 and 4 runs; each of the runs with and without fetching
// ahead. All are tried for a moment, and those that are far from the fastest left out. Overwrites out.
std::vector<Move> ceiling_moves(const void* in, void* out, std::size_t bytes, const Executor& = serial());

}  // namespace rotary::detail
