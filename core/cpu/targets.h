// The kernels of each instruction set of this build, and those in use.
#pragma once

#include <cstdint>
#include <span>

#include "rotate/job.h"

namespace rotary::detail {
struct AngleJob;  // angle_job.h
}  // namespace rotary::detail

namespace rotary::cpu {

using namespace detail;

using RotateKernel = void (*)(const Job&, std::int64_t begin_row, std::int64_t end_row) noexcept;
using AnglesKernel = void (*)(const AngleJob&, std::int64_t begin_row, std::int64_t end_row) noexcept;

using TransferKernel = void (*)(const Transfer&) noexcept;

struct Kernels {
  const char* name;
  bool (*runs)() noexcept;
  RotateKernel rotate;
  AnglesKernel angles;
};

// The best last; some may not run on this machine.
std::span<const Kernels> built_targets() noexcept;
// Throws TARGET as chosen_target() does.
const Kernels& chosen();
// Not a member of Kernels, so that a program that does not append links without it.
TransferKernel transfer_of(const Kernels& built) noexcept;

}  // namespace rotary::cpu

namespace rotary::detail {
// The part of self_test for one target's kernels. Throws CHECK.
ROTARY_API void self_test_of(const cpu::Kernels&);
}  // namespace rotary::detail
