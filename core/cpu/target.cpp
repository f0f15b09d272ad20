// Compiled once per target, with that target's flags: ROTARY_TARGET_NAME is its name, ROTARY_LANES the namespace of its
// lanes and ROTARY_LANES_FILE their header. A target that only adds conversions of bf16 names its base in
// ROTARY_BASE_TARGET, which rotates f32 and f16 and makes all transfers except f32 to bf16. Nothing here may
// instantiate standard library code: the linker could keep this copy of it for every machine.
#include "runtime/arithmetic.h"

#include ROTARY_LANES_FILE
#include "cpu/rotate/rows.inc"
#include "cpu/rotate/transfer.inc"

#define ROTARY_PASTE2(a, b) a##b
#define ROTARY_PASTE(a, b) ROTARY_PASTE2(a, b)

namespace rotary::cpu {

using namespace detail;

#ifdef ROTARY_BASE_TARGET

void ROTARY_PASTE(rotate_, ROTARY_BASE_TARGET)(const Job& job, std::int64_t begin_row, std::int64_t end_row) noexcept;

void ROTARY_PASTE(rotate_, ROTARY_TARGET_NAME)(const Job& job, std::int64_t begin_row, std::int64_t end_row) noexcept {
  if (job.dtype != DType::bf16) return ROTARY_PASTE(rotate_, ROTARY_BASE_TARGET)(job, begin_row, end_row);
  rotate_rows<ROTARY_LANES::Lanes, bf16>(job, begin_row, end_row);
}

void ROTARY_PASTE(transfer_, ROTARY_BASE_TARGET)(const Transfer&) noexcept;

void ROTARY_PASTE(transfer_, ROTARY_TARGET_NAME)(const Transfer& t) noexcept {
  if (t.from != DType::f32 || t.to.f8 || t.to.dtype != DType::bf16)
    return ROTARY_PASTE(transfer_, ROTARY_BASE_TARGET)(t);
  transfer_as<ROTARY_LANES::Lanes, float, bf16>(t);
}

#else

void ROTARY_PASTE(rotate_, ROTARY_TARGET_NAME)(const Job& job, std::int64_t begin_row, std::int64_t end_row) noexcept {
  by_type(job.dtype, [&]<class T>(T) {
    if constexpr (is_built(storage_dtype<T>)) rotate_rows<ROTARY_LANES::Lanes, T>(job, begin_row, end_row);
  });
}

void ROTARY_PASTE(transfer_, ROTARY_TARGET_NAME)(const Transfer& t) noexcept { transfer<ROTARY_LANES::Lanes>(t); }

#endif

}  // namespace rotary::cpu
