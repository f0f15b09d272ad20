// The device functions of the emulator: those that this library's kernels call. Compiled with -ffp-contract=off,
// arithmetic has the device's bits.
#pragma once

#include <math.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda_runtime_api.h"

// These expand to nothing: as an attribute list, __noinline__ would break libstdc++'s __attribute__((__noinline__)).
#define __global__
#define __device__
#define __host__
#define __grid_constant__
#define __noinline__
#define __launch_bounds__(...)
#define __shared__ static  // blocks run one after the other

// The coordinates of the running thread. Only the emulator writes them.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
inline constexpr int warpSize = 32;

// ---- synchronisation of threads ------------------------------------------------------------------

namespace gpu_emulator {

// Where a thread waits: the name of the function that it called, and the place of the call.
struct CallSite {
  const char* name;
  const char* file;
  int line;
};

// Waits for the lanes of the mask; returns the value of lane `source`.
std::uint64_t exchange(const CallSite&, unsigned mask, std::uint64_t value, int source);
// Waits for the block's threads.
void sync_block(const CallSite&);
// Counts the threads that wait for earlier kernels, which have ended here.
void wait_for_kernels();
[[noreturn]] void trap(const CallSite&);
int lane();

template <typename T>
T shuffle(const CallSite& call, unsigned mask, T value, int source) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(call, mask, bits, source);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace gpu_emulator

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  gpu_emulator::sync_block({"__syncthreads", file, line});
}

inline void cudaGridDependencySynchronize() { gpu_emulator::wait_for_kernels(); }

// Lanes read each other's values within groups of `width` lanes, a power of two.
template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  const int first = gpu_emulator::lane() & ~(width - 1);
  return gpu_emulator::shuffle({"__shfl_sync", file, line}, mask, value, first | (source & (width - 1)));
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int flip, int width = warpSize, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  const int lane = gpu_emulator::lane();
  const int source = lane ^ flip;  // an earlier group may be read, a later one not
  return gpu_emulator::shuffle({"__shfl_xor_sync", file, line}, mask, value,
                               source <= (lane | (width - 1)) ? source : lane);
}

// ---- memory --------------------------------------------------------------------------------------

template <typename T>
T __ldg(const T* p, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (reinterpret_cast<std::uintptr_t>(p) % alignof(T)) gpu_emulator::trap({"misaligned address", file, line});
  return *p;
}

// ---- arithmetic ----------------------------------------------------------------------------------

inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return __builtin_sqrtf(a); }
inline float __frcp_rn(float a) { return 1.0f / a; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __fma_rn(double a, double b, double c) { return __builtin_fma(a, b, c); }
inline long long __double_as_longlong(double a) { return std::bit_cast<long long>(a); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}

// The device's min and max accept pairs of types that C++ converts implicitly.
template <typename A, typename B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(b) < static_cast<T>(a) ? static_cast<T>(b) : static_cast<T>(a);
}
template <typename A, typename B>
requires(std::is_arithmetic_v<A>&& std::is_arithmetic_v<B>) constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(b) : static_cast<T>(a);
}
