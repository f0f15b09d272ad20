// Compiled once per target, with that target's flags: ROTARY_TARGET_NAME is its name, ROTARY_LANES its lanes header. A
// target that only adds conversions of bf16 names the one it stands on in ROTARY_BASE_TARGET: that one rotates f32 and
// f16, and moves.
// Nothing here may instantiate standard library code: the linker could keep this copy of it for every machine.
#include "runtime/arithmetic.h"

#include ROTARY_LANES
#include "cpu/rotate/rows.inc"

#define ROTARY_PASTE2(a, b) a##b
#define ROTARY_PASTE(a, b) ROTARY_PASTE2(a, b)

namespace rotary::cpu {

using namespace detail;

void ROTARY_PASTE(rotate_, ROTARY_TARGET_NAME)(const Job& job, std::int64_t begin_row, std::int64_t end_row) noexcept;

#ifdef ROTARY_BASE_TARGET

void ROTARY_PASTE(rotate_, ROTARY_BASE_TARGET)(const Job& job, std::int64_t begin_row, std::int64_t end_row) noexcept;

void ROTARY_PASTE(rotate_, ROTARY_TARGET_NAME)(const Job& job, std::int64_t begin_row, std::int64_t end_row) noexcept {
  if (job.dtype != DType::bf16) return ROTARY_PASTE(rotate_, ROTARY_BASE_TARGET)(job, begin_row, end_row);
  rotate_rows<ROTARY_TARGET_NAME::Lanes, bf16>(job, begin_row, end_row);
}

#else

void ROTARY_PASTE(rotate_, ROTARY_TARGET_NAME)(const Job& job, std::int64_t begin_row, std::int64_t end_row) noexcept {
  using Lanes = ROTARY_TARGET_NAME::Lanes;
  switch (job.dtype) {
    case DType::f32:
      return rotate_rows<Lanes, float>(job, begin_row, end_row);
    case DType::f16:
      return rotate_rows<Lanes, f16>(job, begin_row, end_row);
    case DType::bf16:
      return rotate_rows<Lanes, bf16>(job, begin_row, end_row);
  }
}

void ROTARY_PASTE(move_, ROTARY_TARGET_NAME)(Traffic, const void* in, void* out, std::size_t bytes) noexcept;

void ROTARY_PASTE(move_, ROTARY_TARGET_NAME)(Traffic traffic, const void* in, void* out, std::size_t bytes) noexcept {
  move<ROTARY_TARGET_NAME::Lanes>(traffic, in, out, bytes);
}

#endif

}  // namespace rotary::cpu
