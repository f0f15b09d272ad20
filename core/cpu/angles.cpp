// Compiled once per ROTARY_ANGLE_LANES, with their flags: cos and sin for every target that uses these lanes, whose
// name is ROTARY_TARGET_NAME. Everything but the kernel has internal linkage, because this object holds instructions
// that other machines lack.
#include "runtime/arithmetic.h"

#include <limits>
#include <type_traits>

#include "table/angle_job.h"
#include "table/narrow.h"
#include "targets.h"
#if defined(_MSC_VER) && !defined(__clang__)  // its vectors have no operators
#include "cpu/lanes/angles_scalar.h"
#else
#include ROTARY_ANGLE_LANES
#endif

#include "cpu/angles/angles.inc"
//
#include "cpu/angles/run.inc"

#define ROTARY_PASTE_AGAIN(a, b) a##b
#define ROTARY_PASTE(a, b) ROTARY_PASTE_AGAIN(a, b)

namespace rotary::cpu {

using namespace detail;

void ROTARY_PASTE(angles_, ROTARY_TARGET_NAME)(const AngleJob& job, std::int64_t begin_row,
                                               std::int64_t end_row) noexcept {
  const bool as_they_are = job.rounding == Rounding::f32 && !job.clockwise;
  const std::int64_t group = as_they_are ? end_row - begin_row : 32768 / job.pairs + 16;  // fits in the L2 cache
  for (std::int64_t row = begin_row; row < end_row; row += group) {
    const std::int64_t end = end_row - row < group ? end_row : row + group;
    if (job.angles == Angles::exact) {
      exact_rows(job, row, end);
    } else {
      float32_rows(job, row, end);
    }
    if (!as_they_are) finish(job, row, end);
  }
}

}  // namespace rotary::cpu
