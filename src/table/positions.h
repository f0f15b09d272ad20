// What is behind rotary::Positions, for those who read it.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::detail {

// The values, [axes, batch, tokens]; one of the two is null where there are any.
struct PositionValues {
  const std::int64_t* integers = nullptr;
  const double* reals = nullptr;
};

struct PositionsAccess {
  // Makes int64 values of int32 ones and of runs, in `converted`, whose memory is kept.
  ROTARY_API static PositionValues values(const Positions&, std::vector<std::int64_t>& converted);
};

}  // namespace rotary::detail
