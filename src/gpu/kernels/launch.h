// Launches a kernel on a stream. Does not query the device, allocate or wait.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "kernels.h"

namespace rotary::gpu {

// Throws CUDA if the launch was refused. An error of the kernel itself is reported by a later call.
template <class... Expected, class... Actual>
void launch(void (*kernel)(Expected...), dim3 grid, dim3 block, Stream stream, Actual&&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  check_cuda(cudaLaunchKernelEx(&config, kernel, std::forward<Actual>(arguments)...), "launch");
}

}  // namespace rotary::gpu
