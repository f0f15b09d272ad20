// Sets the floating-point state in which the results are defined, whatever the caller's state is.
#pragma once

#include <cfenv>
#include <cstdint>

namespace rotary::detail {

// While it lives: round to nearest even, subnormals kept, no traps. The destructor restores the caller's state.
// Reading the state costs a few cycles; it is written only if it differs.
class FloatState {
 public:
#if defined(__x86_64__) || defined(__SSE__)
  FloatState() noexcept : callers_(__builtin_ia32_stmxcsr()), differs_((callers_ & 0xffc0u) != 0x1f80u) {
    if (differs_) __builtin_ia32_ldmxcsr(0x1f80u);
  }
  ~FloatState() {
    if (differs_) __builtin_ia32_ldmxcsr(callers_);
  }

 private:
  unsigned callers_;
#elif defined(__aarch64__)
  FloatState() noexcept {
    __asm__ volatile("mrs %0, fpcr" : "=r"(callers_));
    differs_ = callers_ != 0;
    if (differs_) set(0);
  }
  ~FloatState() {
    if (differs_) set(callers_);
  }

 private:
  static void set(std::uint64_t state) noexcept { __asm__ volatile("msr fpcr, %0" : : "r"(state) : "memory"); }
  std::uint64_t callers_ = 0;
#else
  // Only the rounding: 32-bit ARM's flushing of subnormals stays as the caller set it.
  FloatState() noexcept : callers_(std::fegetround()), differs_(callers_ != FE_TONEAREST) {
    if (differs_) std::fesetround(FE_TONEAREST);
  }
  ~FloatState() {
    if (differs_) std::fesetround(callers_);
  }

 private:
  int callers_ = 0;
#endif
  bool differs_ = false;

 public:
  FloatState(const FloatState&) = delete;
  FloatState& operator=(const FloatState&) = delete;
};

}  // namespace rotary::detail
