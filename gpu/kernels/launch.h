// The launch of a kernel, and the numbers that every launch computes in the same way.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <utility>

#include "kernels.h"
#include "runtime/device_code.h"

namespace rotary::gpu {

template <class A, class B>
ROTARY_DEVICE constexpr auto ceil_div(A a, B b) {
  return (a + b - 1) / b;
}

// The number of threads from which on each has several heads: about 500 for each of 132 multiprocessors, which hold 768
// to 1024. Measured on an H100: a second head costs a thread less than a second round of blocks costs the launch.
inline constexpr std::int64_t enough_threads = std::int64_t{1} << 16;

// The bitwise or of the address and of the strides, in bytes, of dimensions larger than one: the widest access must
// divide it. element: bytes of an element.
inline std::uint64_t alignment_of(const void* address, const std::int64_t (&stride)[3], const std::int64_t (&count)[3],
                                  int element) {
  std::uint64_t bits = reinterpret_cast<std::uintptr_t>(address);
  for (int d = 0; d < 3; ++d) {
    if (count[d] > 1) bits |= static_cast<std::uint64_t>(stride[d]) * static_cast<std::uint64_t>(element);
  }
  return bits;
}

// Waits until the stream's earlier kernels have ended and what they wrote is visible. Every thread of every kernel
// calls it before its first access of memory: a kernel where none waits could end before an earlier one does.
__device__ inline void wait_for_earlier_kernels() {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

// Launches a kernel on a stream. Does not allocate or wait, nor query the device beyond waits. Throws CUDA if the
// launch was refused. An error of the kernel itself is reported by a later call.
template <class... Expected, class... Actual>
void launch(void (*kernel)(Expected...), dim3 grid, dim3 block, Stream stream, Actual&&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = overlapped_launches() && waits(reinterpret_cast<const void*>(kernel)) ? 1 : 0;
  check_cuda(cudaLaunchKernelEx(&config, kernel, std::forward<Actual>(arguments)...), "launch");
}

}  // namespace rotary::gpu
