// Before a cell is timed, its result is compared with the reference, bit for bit.
#pragma once

#include <functional>

#include "bench_cell.h"
#include "bench_memory.h"
#include "rotary/rotary.h"

namespace rotary::cli::bench {

// Fills the memory, runs work once and compares q and k with reference::rotate or rotate_backward of the same values:
// every token, or where there are many elements the first, middle and last tokens. Throws CHECK. Returns the number of
// elements compared.
std::int64_t verify(const Cell&, const Places&, const Table&, const std::function<void()>& work);

// Compares cos and sin of positions 1, 2, 3, ... with those of long double arithmetic: all rows, or where there are
// many every n-th and the last. They must be correctly rounded. Throws CHECK. Returns the number of pairs compared.
std::int64_t verify_table(const Cell&, const Frequencies&, const Table&);

}  // namespace rotary::cli::bench
