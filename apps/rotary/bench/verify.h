// Compares the result of a cell with the reference, before it is timed.
#pragma once

#include <cstdint>

#include "measure.h"

namespace rotary::cli::bench {

// Fills the first set, runs its call once and compares the results of every token, or of the first, middle and last
// ones if there are many elements:
//   with reference::rotate bit for bit; without a table (Cell::with_table) within 1.1e-7 of each angle's cos and sin;
//   the cache of an appending cell also with its separate operations, bit for bit;
//   norm_append with its separate operations, bit for bit, and q with double arithmetic within rounding errors;
//   a table with long double arithmetic: all rows, or if there are many every n-th and the last.
// Throws CHECK. Returns the number of elements, or pairs, that were compared.
std::int64_t verify(const ReadyCell&);

// The last of these, for rows of positions 1, 2, 3, ...: each value must be the correctly rounded one.
std::int64_t verify_rows(const Cell&, const Frequencies&, const Table&);

}  // namespace rotary::cli::bench
