// The device functions of the emulator. Compiled with -ffp-contract=off, arithmetic has the device's bits.
#pragma once

#include <math.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "vector_types.h"

// Empty if an attribute list would break libstdc++'s own __attribute__((__noinline__)).
#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __noinline__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static  // blocks run one after the other

// The coordinates of the running thread. Only the emulator writes them.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
inline constexpr int warpSize = 32;

namespace gpu_emulator {

enum class Call : std::uint8_t {
  shuffle,
  shuffle_up,
  shuffle_down,
  shuffle_xor,
  ballot,
  any,
  all,
  sync_warp,
  sync,
  sync_or,
  sync_and,
  sync_count
};
inline constexpr int own_value = -1;

// Waits for the lanes of the mask; returns the value of lane `source`, or the caller's own.
std::uint64_t exchange(Call, unsigned mask, std::uint64_t value, int source, const char* file, int line);
// Waits for the lanes of the mask; returns those with `yes`.
unsigned ballot(Call, unsigned mask, bool yes, const char* file, int line);
// Waits for the block's threads; returns the number of those with `yes`.
int sync_block(Call, bool yes, const char* file, int line);
[[noreturn]] void trap(const char* what, const char* file, int line);
int lane();

template <typename T>
concept Shuffled = std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, long> ||
    std::is_same_v<T, unsigned long> || std::is_same_v<T, long long> || std::is_same_v<T, unsigned long long> ||
    std::is_same_v<T, float> || std::is_same_v<T, double>;

template <Shuffled T>
T shuffle(Call call, unsigned mask, T value, int source, const char* file, int line) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = exchange(call, mask, bits, source, file, line);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

template <typename T>
void require_aligned(const T* p, const char* file, int line) {
  if (reinterpret_cast<std::uintptr_t>(p) % alignof(T)) trap("misaligned address", file, line);
}

}  // namespace gpu_emulator

// ---- synchronisation of threads ------------------------------------------------------------------

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  gpu_emulator::sync_block(gpu_emulator::Call::sync, false, file, line);
}
inline int __syncthreads_or(int yes, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return gpu_emulator::sync_block(gpu_emulator::Call::sync_or, yes != 0, file, line) != 0;
}
inline int __syncthreads_and(int yes, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return gpu_emulator::sync_block(gpu_emulator::Call::sync_and, yes == 0, file, line) == 0;
}
inline int __syncthreads_count(int yes, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return gpu_emulator::sync_block(gpu_emulator::Call::sync_count, yes != 0, file, line);
}
inline void __syncwarp(unsigned mask = 0xffffffff, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  gpu_emulator::ballot(gpu_emulator::Call::sync_warp, mask, false, file, line);
}
inline unsigned __ballot_sync(unsigned mask, int yes, const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) {
  return gpu_emulator::ballot(gpu_emulator::Call::ballot, mask, yes != 0, file, line);
}
inline int __any_sync(unsigned mask, int yes, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return gpu_emulator::ballot(gpu_emulator::Call::any, mask, yes != 0, file, line) != 0;
}
inline int __all_sync(unsigned mask, int yes, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return gpu_emulator::ballot(gpu_emulator::Call::all, mask, yes == 0, file, line) == 0;
}

// Within groups of `width` lanes, a power of two.
template <gpu_emulator::Shuffled T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize, const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  const int first = gpu_emulator::lane() & ~(width - 1);
  return gpu_emulator::shuffle(gpu_emulator::Call::shuffle, mask, value, first | (source & (width - 1)), file, line);
}
template <gpu_emulator::Shuffled T>
T __shfl_xor_sync(unsigned mask, T value, int flip, int width = warpSize, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  const int lane = gpu_emulator::lane();
  const int source = lane ^ flip;  // an earlier group may be read, a later one not
  return gpu_emulator::shuffle(gpu_emulator::Call::shuffle_xor, mask, value,
                               source <= (lane | (width - 1)) ? source : gpu_emulator::own_value, file, line);
}
template <gpu_emulator::Shuffled T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize, const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
  const int lane = gpu_emulator::lane();
  const int source = lane + static_cast<int>(delta);
  return gpu_emulator::shuffle(gpu_emulator::Call::shuffle_down, mask, value,
                               source <= (lane | (width - 1)) ? source : gpu_emulator::own_value, file, line);
}
template <gpu_emulator::Shuffled T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE()) {
  const int lane = gpu_emulator::lane();
  const int source = lane - static_cast<int>(delta);
  return gpu_emulator::shuffle(gpu_emulator::Call::shuffle_up, mask, value,
                               source >= (lane & ~(width - 1)) ? source : gpu_emulator::own_value, file, line);
}

[[noreturn]] inline void __trap(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  gpu_emulator::trap("__trap", file, line);
}
inline void __threadfence() {}
inline void __threadfence_block() {}

// ---- memory --------------------------------------------------------------------------------------

template <typename T>
T __ldg(const T* p, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  gpu_emulator::require_aligned(p, file, line);
  return *p;
}
template <typename T>
T __ldcg(const T* p, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return __ldg(p, file, line);
}
template <typename T>
T __ldca(const T* p, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return __ldg(p, file, line);
}
template <typename T>
T __ldcs(const T* p, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return __ldg(p, file, line);
}
template <typename T>
void __stcg(T* p, T value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  gpu_emulator::require_aligned(p, file, line);
  *p = value;
}
template <typename T>
void __stcs(T* p, T value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  __stcg(p, value, file, line);
}
template <typename T>
void __stwb(T* p, T value, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  __stcg(p, value, file, line);
}

#include "device_arithmetic.h"
