// Blocks of the device's memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "kernels.h"

namespace rotary::gpu {

struct Free {
  void operator()(void* p) const noexcept { cudaFree(p); }  // waits for the device
};
using Block = std::unique_ptr<void, Free>;

inline Block allocate(std::size_t bytes, const char* what) {
  void* memory = nullptr;
  check_cuda(cudaMalloc(&memory, bytes), what);
  return Block(memory);
}

// From and to the host's memory, in the stream's order. Ordinary memory of the host's may be used again at once.
inline void copy_in(void* device, const void* host, std::size_t bytes, const char* what, Stream stream) {
  if (bytes > 0) check_cuda(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream), what);
}

}  // namespace rotary::gpu
