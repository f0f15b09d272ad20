// ROTARY_DEVICE marks functions that CUDA kernels share with the CPU. They call only each other; arrays that they index
// at run time are static constexpr locals, which nvcc puts into the device's memory.
#pragma once

#include <bit>
#include <cstdint>

#ifdef __CUDACC__
#define ROTARY_DEVICE __host__ __device__
#else
#define ROTARY_DEVICE
#endif

namespace rotary {

// The number of bits up to the highest that is set; 0 for 0.
ROTARY_DEVICE inline int width_of(std::uint64_t x) noexcept {
#ifdef __CUDA_ARCH__
  return 64 - __clzll(static_cast<long long>(x));
#else
  return static_cast<int>(std::bit_width(x));
#endif
}

}  // namespace rotary
