// Whether the machine compiled for holds vectors of four floats and of two doubles in registers, keeps subnormals in
// them (32-bit ARM does not), and the compiler has g++'s and clang's vector extensions. Without registers a compiler
// would copy vectors through memory.
#pragma once

#define ROTARY_VECTOR_REGISTERS 0
#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector) && __has_builtin(__builtin_convertvector) &&            \
    (defined(__SSE2__) || defined(__aarch64__) || defined(__VSX__) || defined(__wasm_simd128__) || \
     defined(__loongarch_sx) || (defined(__s390x__) && __ARCH__ >= 12) ||                          \
     (defined(__riscv_v_min_vlen) && __riscv_v_min_vlen >= 128))
#undef ROTARY_VECTOR_REGISTERS
#define ROTARY_VECTOR_REGISTERS 1
#endif
#endif

// For clang on POWER a comparison of vectors has the type vector bool, which it converts as intended here.
#if defined(__clang__) && defined(__ALTIVEC__)
#pragma clang diagnostic ignored "-Wunknown-warning-option"
#pragma clang diagnostic ignored "-Wdeprecated-altivec-src-compat"
#endif
