// Queries of the device, and the errors of its runtime.
#include <cuda_runtime_api.h>

#include <atomic>

#include "kernels/kernels.h"
#include "values/fail.h"

namespace rotary::gpu {

void check_cuda(int error, const char* what) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // clears the error, so that the next call does not report it again
  fail(Code::CUDA, what, cudaGetErrorString(static_cast<cudaError_t>(error)));
}

bool& overlapped_launches() noexcept {
  static bool on = false;
  return on;
}

// ptxVersion is what nvcc compiled for, also of PTX that the driver compiled for a newer device.
bool waits(const void* kernel) {
  static std::atomic<int> version_on_device[64];  // 0: not asked yet
  int device = 0;
  check_cuda(cudaGetDevice(&device), "launch");
  if (device >= 64) return false;
  std::atomic<int>& version = version_on_device[device];
  if (version == 0) {
    cudaFuncAttributes attributes = {};
    check_cuda(cudaFuncGetAttributes(&attributes, kernel), "launch");
    version = attributes.ptxVersion;
  }
  return version >= 90;  // and so the device has 9.0 or more
}

bool built() noexcept { return true; }

int devices() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  cudaGetLastError();
  return 0;
}

std::string device_name() {
  int device = 0;
  cudaDeviceProp properties;
  check_cuda(cudaGetDevice(&device), "device_name");
  check_cuda(cudaGetDeviceProperties(&properties, device), "device_name");
  return std::string(properties.name) + ", compute capability " + std::to_string(properties.major) + "." +
         std::to_string(properties.minor);
}

void synchronize(Stream stream) { check_cuda(cudaStreamSynchronize(stream), "synchronize"); }

}  // namespace rotary::gpu
