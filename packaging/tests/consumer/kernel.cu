// A kernel of the user's own by rotary/device.cuh, in one program with rotary::gpu.
#include <cuda_runtime.h>
#include <rotary/gpu.h>
#include <rotary/device.cuh>

#include <cstdint>
#include <cstdio>

__global__ void kernel(float* pair, std::int64_t position, std::uint64_t turns) {
  rotary::device::rotate(pair[0], pair[1], rotary::device::cos_sin(position, turns));
}

int main() {
  constexpr std::int64_t position = 131071;
  const std::uint64_t turns = rotary::device::turns_of(0.5);
  float wanted[] = {1, 2}, pair[] = {1, 2};
  rotary::device::rotate(wanted[0], wanted[1], rotary::device::cos_sin(position, turns));
  std::printf("built %d, devices %s, ", rotary::gpu::built() ? 1 : 0, rotary::gpu::devices() > 0 ? "some" : "none");
  float* on_device = nullptr;
  cudaError_t error = cudaMalloc(&on_device, sizeof pair);
  if (error == cudaSuccess) error = cudaMemcpy(on_device, pair, sizeof pair, cudaMemcpyHostToDevice);
  if (error == cudaSuccess) {
    kernel<<<1, 1>>>(on_device, position, turns);
    error = cudaMemcpy(pair, on_device, sizeof pair, cudaMemcpyDeviceToHost);
  }
  if (error != cudaSuccess) {
    std::printf("CUDA: %s\n", cudaGetErrorString(error));
  } else {
    std::puts(pair[0] == wanted[0] && pair[1] == wanted[1] ? "the CPU's bits" : "other bits");
  }
  cudaFree(on_device);
  return 0;
}
