// Memory of the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "kernels/kernels.h"
#include "rotate/refuse.h"

namespace rotary::gpu {

struct Free {
  void operator()(void* p) const noexcept {              // waits for the device
    if (cudaFree(p) != cudaSuccess) cudaGetLastError();  // clears the error, which the next launch would report
  }
};
using Allocation = std::unique_ptr<void, Free>;

inline Allocation allocate(std::size_t bytes, const char* what) {
  void* memory = nullptr;
  check_cuda(cudaMalloc(&memory, bytes), what);
  return Allocation(memory);
}

// Copies from the host's memory in the stream's order; pageable host memory may be reused at once. Not allowed while a
// graph captures the stream: the graph would read the host's memory when it is replayed.
inline void copy_in(void* device, const void* host, std::size_t bytes, const char* what, Stream stream) {
  if (bytes == 0) return;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check_cuda(cudaStreamIsCapturing(stream, &status), what);
  if (status != cudaStreamCaptureStatusNone) {
    fail(Code::CUDA, what,
         "a stream that a CUDA graph captures must read positions and tables from the device's memory "
         "but these lie in the host's");
  }
  check_cuda(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream), what);
}

}  // namespace rotary::gpu
