// A CUDA runtime that runs kernels on the CPU, for tests: the <cuda_runtime.h> of the emulated library. See emulator.h.
#pragma once

#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda_runtime_api.h"
#include "device_functions.h"

template <typename T>
cudaError_t cudaMalloc(T** p, std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaSuccess) *p = static_cast<T*>(memory);
  return error;
}

namespace gpu_emulator {

// Runs, or records, a thread's body for each thread of the grid.
cudaError_t launch(const cudaLaunchConfig_t&, std::function<void()> thread);

}  // namespace gpu_emulator

template <typename... Parameters, typename... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  using Values = std::tuple<std::remove_cv_t<Parameters>...>;  // copies for each thread, as in CUDA
  return gpu_emulator::launch(
      *config, [kernel, values = Values(std::forward<Arguments>(arguments)...)] { std::apply(kernel, values); });
}
