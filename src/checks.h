// The door of the verbs: validates a call once and turns it into a Job. Every error sentence of the verbs lives here.
#pragma once

#include "job.h"

namespace rotary {

// x to out by the table, on behalf of the named verb; x and out with the same data and layout: in place. A call
// without elements gives a job without rows. Throws SHAPE, DTYPE, ALIAS, PAIRING.
Job check_rotate(const char* verb, const ConstHeads& x, const Heads& out, const Table&, bool backward);

// Elements [first, first + head_dim) of heads of x.head_dim elements. Throws SHAPE.
void check_slice(const Layout& x, int first, int head_dim);

// The product of sizes of a contiguous layout. Throws SHAPE when one is negative or the product exceeds 64 bits.
std::int64_t checked_product(const char* verb, std::int64_t a, std::int64_t b);

}  // namespace rotary
