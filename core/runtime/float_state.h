// Sets the floating-point state in which the results are defined, whatever the caller's state is.
#pragma once

#include <cfenv>
#include <cstdint>

#include "compiler.h"

namespace rotary::detail {

// The state as a word: what `decides` masks must be `ours`.
#if defined(__x86_64__) || defined(__SSE__) || defined(_M_X64)
struct FloatWord {
  static constexpr unsigned decides = 0xffc0u, ours = 0x1f80u;
#if defined(_MSC_VER) && !defined(__clang__)
  static unsigned get() noexcept { return _mm_getcsr(); }
  static void set(unsigned state) noexcept { _mm_setcsr(state); }
#else
  static unsigned get() noexcept { return __builtin_ia32_stmxcsr(); }
  static void set(unsigned state) noexcept { __builtin_ia32_ldmxcsr(state); }
#endif
};
#elif defined(__aarch64__) || defined(_M_ARM64)
struct FloatWord {
  static constexpr std::uint64_t decides = ~std::uint64_t{0}, ours = 0;
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
};
#else
// Only the rounding mode: on 32-bit ARM subnormals are flushed or kept as the caller has set it.
struct FloatWord {
  static constexpr int decides = ~0, ours = FE_TONEAREST;
  static int get() noexcept { return std::fegetround(); }
  static void set(int state) noexcept { std::fesetround(state); }
};
#endif

// During its lifetime: round to nearest even, subnormals kept, no traps. The destructor restores the caller's state.
// Reading the state costs a few cycles; it is written only if it differs.
class FloatState {
 public:
  FloatState() noexcept : callers_(FloatWord::get()), differs_((callers_ & FloatWord::decides) != FloatWord::ours) {
    if (differs_) FloatWord::set(FloatWord::ours);
  }
  ~FloatState() {
    if (differs_) FloatWord::set(callers_);
  }
  FloatState(const FloatState&) = delete;
  FloatState& operator=(const FloatState&) = delete;

 private:
  decltype(FloatWord::get()) callers_;
  bool differs_;
};

}  // namespace rotary::detail
