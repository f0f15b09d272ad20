// Access to the values of rotary::Positions.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::detail {

// The values, [axes, batch, tokens]. If there are any, exactly one of the two pointers is not null.
struct PositionValues {
  const std::int64_t* integers = nullptr;
  const double* reals = nullptr;
};

struct PositionsAccess {
  // Converts int32 values and runs to int64 in `converted`, reusing its memory.
  ROTARY_API static PositionValues values(const Positions&, std::vector<std::int64_t>& converted);
};

}  // namespace rotary::detail
