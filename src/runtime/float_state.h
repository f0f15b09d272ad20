// Sets the floating-point state in which the results are defined, whatever the caller's state is.
#pragma once

#include <cfenv>
#include <cstdint>

#include "compiler.h"

namespace rotary::detail {

// While it lives: round to nearest even, subnormals kept, no traps. The destructor restores the caller's state.
// Reading the state costs a few cycles; it is written only if it differs.
class FloatState {
 public:
#if defined(__x86_64__) || defined(__SSE__) || defined(_M_X64)
  FloatState() noexcept : callers_(get()), differs_((callers_ & 0xffc0u) != 0x1f80u) {
    if (differs_) set(0x1f80u);
  }
  ~FloatState() {
    if (differs_) set(callers_);
  }

 private:
#if defined(_MSC_VER) && !defined(__clang__)
  static unsigned get() noexcept { return _mm_getcsr(); }
  static void set(unsigned state) noexcept { _mm_setcsr(state); }
#else
  static unsigned get() noexcept { return __builtin_ia32_stmxcsr(); }
  static void set(unsigned state) noexcept { __builtin_ia32_ldmxcsr(state); }
#endif
  unsigned callers_;
  bool differs_;

 public:
#elif defined(__aarch64__) || defined(_M_ARM64)
  FloatState() noexcept : callers_(get()), differs_(callers_ != 0) {
    if (differs_) set(0);
  }
  ~FloatState() {
    if (differs_) set(callers_);
  }

 private:
#if defined(_MSC_VER) && !defined(__clang__)
  static std::uint64_t get() noexcept { return static_cast<std::uint64_t>(_ReadStatusReg(ARM64_FPCR)); }
  static void set(std::uint64_t state) noexcept { _WriteStatusReg(ARM64_FPCR, static_cast<__int64>(state)); }
#else
  static std::uint64_t get() noexcept {
    std::uint64_t state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state));
    return state;
  }
  static void set(std::uint64_t state) noexcept { __asm__ volatile("msr fpcr, %0" : : "r"(state) : "memory"); }
#endif
  std::uint64_t callers_;
  bool differs_;

 public:
#else
  // Only the rounding: 32-bit ARM's flushing of subnormals stays as the caller set it.
  FloatState() noexcept : callers_(std::fegetround()), differs_(callers_ != FE_TONEAREST) {
    if (differs_) std::fesetround(FE_TONEAREST);
  }
  ~FloatState() {
    if (differs_) std::fesetround(callers_);
  }

 private:
  int callers_;
  bool differs_;

 public:
#endif

  FloatState(const FloatState&) = delete;
  FloatState& operator=(const FloatState&) = delete;
};

}  // namespace rotary::detail
