// One kernel onto a stream. Asks the device nothing, allocates nothing, waits for nothing.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "kernels.h"

namespace rotary::gpu {

// Throws CUDA where the launch was refused; what the kernel itself does wrong shows at a later call.
template <class... Expected, class... Actual>
void launch(void (*kernel)(Expected...), dim3 grid, dim3 block, Stream stream, Actual&&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  check_cuda(cudaLaunchKernelEx(&config, kernel, std::forward<Actual>(arguments)...), "launch");
}

}  // namespace rotary::gpu
