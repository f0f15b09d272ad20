// What the tests of the emulated device share.
#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "tests/gpu/shim/emulator.h"

namespace emulated {

using gpu_emulator::Order;

template <typename T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t count) : count_(count) { EXPECT_EQ(cudaMalloc(&p_, count * sizeof(T)), cudaSuccess); }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(values.size()) {
    EXPECT_EQ(cudaMemcpy(p_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), cudaSuccess);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { EXPECT_EQ(cudaFree(p_), cudaSuccess); }
  T* get() const { return p_; }
  std::vector<T> host() const {
    std::vector<T> values(count_);
    EXPECT_EQ(cudaMemcpy(values.data(), p_, count_ * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
    return values;
  }

 private:
  T* p_ = nullptr;
  std::size_t count_ = 0;
};

template <typename... Parameters, typename... Arguments>
cudaError_t launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, cudaStream_t stream, Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

// In each order, and once more forward.
template <typename Body>
void in_every_order(Body body) {
  for (const auto& [order, seed] : {std::pair{Order::forward, 1},
                                    {Order::backward, 1},
                                    {Order::shuffled, 1},
                                    {Order::shuffled, 2},
                                    {Order::forward, 1}}) {
    gpu_emulator::set_order(order, static_cast<std::uint64_t>(seed));
    body();
  }
}

}  // namespace emulated
