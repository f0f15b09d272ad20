// The answers of an x86 processor about itself.
#pragma once

#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64) || defined(_M_IX86)
#define ROTARY_X86 1
#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#else
#include <cpuid.h>
#endif

namespace rotary::detail {

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};
#if defined(_MSC_VER) && !defined(__clang__)
// False: the processor has no such leaf.
inline bool cpuid(unsigned leaf, unsigned part, Registers& r) noexcept {
  int found[4];
  __cpuid(found, 0);
  if (static_cast<unsigned>(found[0]) < leaf) return false;
  __cpuidex(found, static_cast<int>(leaf), static_cast<int>(part));
  r = {static_cast<unsigned>(found[0]), static_cast<unsigned>(found[1]), static_cast<unsigned>(found[2]),
       static_cast<unsigned>(found[3])};
  return true;
}
// The low half of XCR0: the registers that the operating system saves.
inline unsigned saved_by_system() noexcept { return static_cast<unsigned>(_xgetbv(0)); }
#else
inline bool cpuid(unsigned leaf, unsigned part, Registers& r) noexcept {
  return __get_cpuid_count(leaf, part, &r.a, &r.b, &r.c, &r.d) != 0;
}
inline unsigned saved_by_system() noexcept {
  unsigned saved = 0, high = 0;
  __asm__("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  return saved;
}
#endif

}  // namespace rotary::detail
#endif
