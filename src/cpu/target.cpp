// Compiled once per target, with that target's flags: ROTARY_TARGET_NAME is its name, ROTARY_LANES its lanes header.
// Nothing here may instantiate standard library code: the linker could keep this copy of it for every machine.
#include ROTARY_LANES
#include "cpu/rotate/rows.inc"

#define ROTARY_PASTE2(a, b) a##b
#define ROTARY_PASTE(a, b) ROTARY_PASTE2(a, b)

namespace rotary::cpu {

using namespace detail;

void ROTARY_PASTE(rotate_, ROTARY_TARGET_NAME)(const Job& job, std::int64_t begin_row, std::int64_t end_row) noexcept;
void ROTARY_PASTE(move_, ROTARY_TARGET_NAME)(Traffic, const void* in, void* out, std::size_t bytes) noexcept;

void ROTARY_PASTE(rotate_, ROTARY_TARGET_NAME)(const Job& job, std::int64_t begin_row, std::int64_t end_row) noexcept {
  rotate_rows<ROTARY_TARGET_NAME::Lanes>(job, begin_row, end_row);
}

void ROTARY_PASTE(move_, ROTARY_TARGET_NAME)(Traffic traffic, const void* in, void* out, std::size_t bytes) noexcept {
  move<ROTARY_TARGET_NAME::Lanes>(traffic, in, out, bytes);
}

}  // namespace rotary::cpu
