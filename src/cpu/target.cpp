// Compiled once per target, with that target's flags: ROTARY_TARGET_NAME is its name, ROTARY_LANES its lanes header. A
// target that only adds conversions of bf16 names the one it stands on in ROTARY_BASE_TARGET: that one rotates f32 and
// f16, moves, and makes all transfers but those of f32 to bf16.
// Nothing here may instantiate standard library code: the linker could keep this copy of it for every machine.
#include "runtime/arithmetic.h"

#include ROTARY_LANES
#include "cpu/rotate/rows.inc"
#include "cpu/rotate/token.inc"
#include "cpu/rotate/transfer.inc"

#define ROTARY_PASTE2(a, b) a##b
#define ROTARY_PASTE(a, b) ROTARY_PASTE2(a, b)

namespace rotary::cpu {

using namespace detail;

void ROTARY_PASTE(rotate_, ROTARY_TARGET_NAME)(const Job& job, std::int64_t begin_row, std::int64_t end_row) noexcept;
void ROTARY_PASTE(rotate_token_, ROTARY_TARGET_NAME)(const Job& q, const TokenHeads& k) noexcept;

#ifdef ROTARY_BASE_TARGET

void ROTARY_PASTE(rotate_, ROTARY_BASE_TARGET)(const Job& job, std::int64_t begin_row, std::int64_t end_row) noexcept;

void ROTARY_PASTE(rotate_, ROTARY_TARGET_NAME)(const Job& job, std::int64_t begin_row, std::int64_t end_row) noexcept {
  if (job.dtype != DType::bf16) return ROTARY_PASTE(rotate_, ROTARY_BASE_TARGET)(job, begin_row, end_row);
  rotate_rows<ROTARY_TARGET_NAME::Lanes, bf16>(job, begin_row, end_row);
}

void ROTARY_PASTE(rotate_token_, ROTARY_BASE_TARGET)(const Job& q, const TokenHeads& k) noexcept;

void ROTARY_PASTE(rotate_token_, ROTARY_TARGET_NAME)(const Job& q, const TokenHeads& k) noexcept {
  if (q.dtype != DType::bf16) return ROTARY_PASTE(rotate_token_, ROTARY_BASE_TARGET)(q, k);
  rotate_token<ROTARY_TARGET_NAME::Lanes, bf16>(q, k);
}

void ROTARY_PASTE(transfer_, ROTARY_BASE_TARGET)(const Transfer&) noexcept;
void ROTARY_PASTE(transfer_, ROTARY_TARGET_NAME)(const Transfer&) noexcept;

void ROTARY_PASTE(transfer_, ROTARY_TARGET_NAME)(const Transfer& t) noexcept {
  if (t.from != DType::f32 || t.to.f8 || t.to.dtype != DType::bf16)
    return ROTARY_PASTE(transfer_, ROTARY_BASE_TARGET)(t);
  transfer_as<ROTARY_TARGET_NAME::Lanes, float, bf16>(t);
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

void ROTARY_PASTE(rotate_token_, ROTARY_TARGET_NAME)(const Job& q, const TokenHeads& k) noexcept {
  using Lanes = ROTARY_TARGET_NAME::Lanes;
  switch (q.dtype) {
    case DType::f32:
      return rotate_token<Lanes, float>(q, k);
    case DType::f16:
      return rotate_token<Lanes, f16>(q, k);
    case DType::bf16:
      return rotate_token<Lanes, bf16>(q, k);
  }
}

void ROTARY_PASTE(move_, ROTARY_TARGET_NAME)(Traffic, const void* in, void* out, std::size_t bytes) noexcept;

void ROTARY_PASTE(move_, ROTARY_TARGET_NAME)(Traffic traffic, const void* in, void* out, std::size_t bytes) noexcept {
  move<ROTARY_TARGET_NAME::Lanes>(traffic, in, out, bytes);
}

void ROTARY_PASTE(transfer_, ROTARY_TARGET_NAME)(const Transfer&) noexcept;

void ROTARY_PASTE(transfer_, ROTARY_TARGET_NAME)(const Transfer& t) noexcept { transfer<ROTARY_TARGET_NAME::Lanes>(t); }

#endif

}  // namespace rotary::cpu
