// The floating-point arithmetic on which the bits of every result depend: IEEE 754, one rounding per operation, nothing
// fused or reordered. It is the first include of every source of the core, before any header with code. It sets the
// arithmetic in the source where the compiler can; where it cannot, or where flags ask for other arithmetic, the source
// does not compile.
// ROTARY_FP_CONTRACT_OFF: the build passes -fno-fast-math -ffp-contract=off to every source, as this project's CMake
// does.
#pragma once

#if defined(__FAST_MATH__) || defined(_M_FP_FAST)
#error \
    "rotary: results would not be the promised bits under -ffast-math, -Ofast or /fp:fast: " \
    "add -fno-fast-math, or /fp:precise, after it for rotary's sources"
#endif
#if defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0
#error \
    "rotary: infinities and NaN must be kept: add -fno-finite-math-only after -ffinite-math-only for rotary's sources"
#endif
#if defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || defined(__NO_SIGNED_ZEROS__)
#error \
    "rotary: nothing may be reordered: add -fno-unsafe-math-optimizations -fno-associative-math " \
    "-fno-reciprocal-math -fsigned-zeros after the flags that ask for it, for rotary's sources"
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error \
    "rotary: float and double must be computed in their own precision, not in that of x87: " \
    "compile rotary's sources with -msse2 -mfpmath=sse"
#endif

#if defined(__clang__)
// Clang has no macros for the parts of -ffast-math, and under -ffp-contract=fast or -ffp-model=fast it fuses whatever
// contract(off) says, except where exceptions could be observed. The pragmas that undo it do not exist on all targets.
#if defined(__x86_64__) || defined(__i386__) || defined(__powerpc__) || defined(__s390x__) || \
    (defined(__aarch64__) && __clang_major__ >= 15) || (defined(__riscv) && __clang_major__ >= 17)
#pragma float_control(precise, on)  // this contracts again, so contract(off) must come after it
#ifndef ROTARY_FP_CONTRACT_OFF
#pragma clang fp exceptions(maytrap)
#endif
#elif !defined(ROTARY_FP_CONTRACT_OFF)
#error \
    "rotary: on this target clang cannot be told in the source to keep products and sums apart: " \
    "compile rotary's sources with -fno-fast-math -ffp-contract=off -DROTARY_FP_CONTRACT_OFF"
#endif
#pragma clang fp contract(off)
#pragma clang fp reassociate(off)
#elif defined(_MSC_VER)
#pragma float_control(precise, on)
#pragma fp_contract(off)
#elif defined(__GNUC__) && !defined(__NVCOMPILER)
// g++ has no other way, and fuses the intrinsics of vectors too.
#pragma GCC optimize("fp-contract=off")
#elif !defined(ROTARY_FP_CONTRACT_OFF)
#error \
    "rotary: products and sums must not be fused: " \
    "give this compiler its flag for that and define ROTARY_FP_CONTRACT_OFF"
#endif
