// The cos and sin of one target: ROTARY_TARGET_NAME with the lanes of ROTARY_ANGLE_LANES. Everything but the kernel's
// name is local to this object, which holds instructions that other machines lack.
#include "../angle_job.h"
#include "targets.h"
#include ROTARY_ANGLE_LANES

#include "angles.inc"

#define ROTARY_PASTE_AGAIN(a, b) a##b
#define ROTARY_PASTE(a, b) ROTARY_PASTE_AGAIN(a, b)

namespace rotary::cpu {

void ROTARY_PASTE(angles_, ROTARY_TARGET_NAME)(const AngleJob& job, std::int64_t begin_row,
                                               std::int64_t end_row) noexcept;

void ROTARY_PASTE(angles_, ROTARY_TARGET_NAME)(const AngleJob& job, std::int64_t begin_row,
                                               std::int64_t end_row) noexcept {
  if (job.angles == Angles::exact) {
    exact_rows(job, begin_row, end_row);
  } else {
    float32_rows(job, begin_row, end_row);
  }
}

}  // namespace rotary::cpu
