#include "runtime/arithmetic.h"

#include "targets.h"

#include <atomic>
#include <cstdlib>
#include <string>

#include "rotary/rotary.h"
#include "rotary/targets.h"
#include "runtime/compiler.h"
#include "runtime/cpuid.h"
#include "tuning.h"
#include "values/fail.h"

namespace rotary::cpu {

// ROTARY_TARGETS, from core/cmake/targets.cmake: a row for each set that is built, in rising order of preference.
#ifndef ROTARY_ONE_FILE  // set by scripts/amalgamate.sh, whose file has them before
#define ROTARY_ROW(target, lanes)                                                      \
  void rotate_##target(const Job&, std::int64_t begin, std::int64_t end) noexcept;     \
  void angles_##lanes(const AngleJob&, std::int64_t begin, std::int64_t end) noexcept; \
  void transfer_##target(const Transfer&) noexcept;
ROTARY_TARGETS
#undef ROTARY_ROW
#endif

namespace {

#if ROTARY_X86
// The instruction sets that the processor supports and the operating system saves.
struct Machine {
  bool avx2 = false, avx512 = false, avx512bf16 = false;

  Machine() noexcept {
    Registers r;
    const auto all = [](unsigned word, unsigned bits) { return (word & bits) == bits; };
    const unsigned osxsave_avx_f16c_fma = 1u << 27 | 1u << 28 | 1u << 29 | 1u << 12;
    if (!cpuid(1, 0, r) || !all(r.c, osxsave_avx_f16c_fma)) return;
    const unsigned saved = saved_by_system();
    if (!cpuid(7, 0, r)) return;
    avx2 = all(saved, 0x06) && all(r.b, 1u << 5);
    const unsigned f_dq_bw_vl = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31;
    avx512 = avx2 && all(saved, 0xe6) && all(r.b, f_dq_bw_vl);
    if (r.a < 1 || !cpuid(7, 1, r)) return;
    avx512bf16 = avx512 && all(r.a, 1u << 5);
  }
};
const Machine& machine() noexcept {
  static const Machine found;
  return found;
}
bool machine_runs(std::string_view target) noexcept {
  if (target == "avx2") return machine().avx2;
  if (target == "avx512") return machine().avx512;
  return target != "avx512bf16" || machine().avx512bf16;
}
#else
constexpr bool machine_runs(std::string_view) noexcept { return true; }
#endif

#define ROTARY_ROW(target, lanes) \
  {#target, []() noexcept { return machine_runs(#target); }, rotate_##target, angles_##lanes},
constexpr Kernels built[] = {ROTARY_TARGETS};
#undef ROTARY_ROW
#define ROTARY_ROW(target, lanes) transfer_##target,
constexpr TransferKernel transfers[] = {ROTARY_TARGETS};
#undef ROTARY_ROW

std::atomic<const Kernels*> in_use{nullptr};  // null: not chosen yet

const Kernels& best() noexcept {
  const Kernels* found = &built[0];
  for (const Kernels& kernels : built) {
    if (kernels.runs()) found = &kernels;
  }
  return *found;
}

const Kernels& named(const char* operation, std::string_view name) {
  std::string running;
  for (const Kernels& kernels : built) {
    if (!kernels.runs()) continue;
    if (kernels.name == name) return kernels;
    running += running.empty() ? "" : ", ";
    running += kernels.name;
  }
  fail(Code::TARGET, operation, "target must be one that this machine runs (", running, ") but got \"", name, "\"");
}

const Kernels& by_default() {
  const char* wanted = std::getenv("ROTARY_TARGET");
  return wanted != nullptr && *wanted != '\0' ? named("ROTARY_TARGET", wanted) : best();
}

// Not inlined: a process does it once.
ROTARY_NOINLINE const Kernels& choose() {
  const Kernels *in_effect = nullptr, *const found = &by_default();
  // One of several first callers wins. A use_target() in between stays in effect.
  return in_use.compare_exchange_strong(in_effect, found, std::memory_order_acq_rel) ? *found : *in_effect;
}

}  // namespace

std::span<const Kernels> built_targets() noexcept { return built; }
TransferKernel transfer_of(const Kernels& kernels) noexcept { return transfers[&kernels - built]; }

const Kernels& chosen() {
  const Kernels* const kernels = in_use.load(std::memory_order_acquire);
  return kernels != nullptr ? *kernels : choose();
}

}  // namespace rotary::cpu

namespace rotary {

using namespace detail;

std::vector<Target> targets() {
  std::vector<Target> all;
  for (const cpu::Kernels& kernels : cpu::built) all.push_back({kernels.name, kernels.runs()});
  return all;
}

std::string_view chosen_target() { return cpu::chosen().name; }

void prepare() {
  cpu::chosen();
  tuning();
}

void use_target(std::string_view name) {
  cpu::in_use.store(name.empty() ? &cpu::best() : &cpu::named("use_target", name), std::memory_order_release);
}

}  // namespace rotary
