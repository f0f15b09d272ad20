// For functions that CUDA kernels share with the CPU. They call only each other; what they index at run time is a
// static constexpr local, which nvcc puts into the device's memory.
#pragma once

#include <bit>
#include <cstdint>

#ifdef __CUDACC__
#define ROTARY_DEVICE __host__ __device__
#else
#define ROTARY_DEVICE
#endif

namespace rotary {

// Bits up to the highest that is set; 0 of 0.
ROTARY_DEVICE inline int width_of(std::uint64_t x) noexcept {
#ifdef __CUDA_ARCH__
  return 64 - __clzll(static_cast<long long>(x));
#else
  return static_cast<int>(std::bit_width(x));
#endif
}

}  // namespace rotary
