// The calls of the emulated runtime: launches, copies, capture.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "emulated.h"

namespace {

using namespace emulated;  // NOLINT: a test

__global__ void nothing() {}

TEST(Emulator, LaunchLimits) {
  cudaGetLastError();
  EXPECT_EQ(launch(nothing, {1, 65535, 1}, 1, nullptr), cudaSuccess);
  for (const auto& [grid, block] : {std::pair<dim3, dim3>{0, 1},
                                    {1, 0},
                                    {{1, 0}, 1},
                                    {{1, 1, 0}, 1},
                                    {1, {1, 0, 1}},
                                    {1, 1025},
                                    {1, {32, 33}},
                                    {1, {1, 1, 65}},
                                    {{1, 65536}, 1},
                                    {{1, 1, 65536}, 1},
                                    {0x80000000u, 1}}) {
    EXPECT_EQ(launch(nothing, grid, block, nullptr), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  }
}

TEST(Emulator, Copies) {
  const OnDevice<int> a(std::vector{1, 2, 3, 4}), b(4);
  int host[4] = {};
  EXPECT_EQ(cudaMemcpy(b.get(), a.get(), 16, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(b.host(), (std::vector{1, 2, 3, 4}));
  EXPECT_EQ(cudaMemsetAsync(b.get() + 1, 0xff, 8), cudaSuccess);
  EXPECT_EQ(b.host(), (std::vector{1, -1, -1, 4}));
  EXPECT_EQ(cudaMemcpy(host, a.get(), 17, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, a.get(), 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, host + 2, 8, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemsetAsync(host, 0, 4), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(a.get() + 1), cudaErrorInvalidValue);
  void* p = host;
  EXPECT_EQ(cudaMalloc(&p, 0), cudaSuccess);
  EXPECT_EQ(p, nullptr);
  EXPECT_EQ(cudaMalloc(&p, std::size_t{1} << 50), cudaErrorMemoryAllocation);
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(total - free, 32u);
  cudaGetLastError();
}

class Streamed : public ::testing::Test {
 protected:
  Streamed() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess); }
  ~Streamed() override {
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
    cudaGetLastError();
  }
  cudaStream_t stream = nullptr;
};

struct Step {
  int* p;
  int by;
};
__global__ void add(const __grid_constant__ Step step) { step.p[threadIdx.x] += step.by; }

TEST_F(Streamed, CaptureAndReplay) {
  const OnDevice<int> values(std::vector{0, 10}), copy(2);
  gpu_emulator::reset_counts();
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  cudaStreamCaptureStatus status = {};
  EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  Step step = {values.get(), 1};
  EXPECT_EQ(launch(add, 1, 2, stream, step), cudaSuccess);
  step.by = 100;  // too late
  EXPECT_EQ(cudaMemcpyAsync(copy.get(), values.get(), 8, cudaMemcpyDeviceToDevice, stream), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(values.get() + 1, 0, 4, stream), cudaSuccess);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  EXPECT_EQ(gpu_emulator::counts().launches, 0);
  EXPECT_EQ(values.host(), (std::vector{0, 10}));
  std::size_t nodes = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), cudaSuccess);
  EXPECT_EQ(nodes, 3u);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  for (const auto& expected : {std::pair{std::vector{1, 0}, std::vector{1, 11}}, {{2, 0}, {2, 1}}}) {
    ASSERT_EQ(cudaGraphLaunch(exec, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(values.host(), expected.first);
    EXPECT_EQ(copy.host(), expected.second);
  }
  EXPECT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_EQ(gpu_emulator::counts().launches, 2);
  EXPECT_EQ(gpu_emulator::counts().graph_launches, 2);
}

TEST_F(Streamed, CaptureRefuses) {
  const OnDevice<int> values(std::vector{0, 10});
  int host[2] = {};
  void* p = nullptr;
  const std::vector<std::function<cudaError_t()>> calls = {
      [&] { return cudaMalloc(&p, 16); }, [&] { return cudaFree(values.get()); },
      [&] { return cudaDeviceSynchronize(); }, [&] { return cudaStreamSynchronize(stream); },
      [&] { return cudaMemcpy(host, values.get(), 8, cudaMemcpyDeviceToHost); }};
  for (const auto& call : calls) {
    gpu_emulator::reset_counts();
    ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), cudaSuccess);
    EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(launch(nothing, 1, 1, stream), cudaErrorStreamCaptureInvalidated);
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph, nullptr);
    EXPECT_EQ(gpu_emulator::counts().synchronisations + gpu_emulator::counts().allocations, 0);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);  // it is usable again
  }
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorIllegalState);
}

__global__ void double_it(int* p) { p[threadIdx.x] *= 2; }

TEST_F(Streamed, DeferredWorkWaits) {
  const OnDevice<int> values(std::vector{1, 2});
  gpu_emulator::set_deferred(true);
  gpu_emulator::reset_counts();
  std::vector<int> host = {3, 4};
  EXPECT_EQ(cudaMemcpyAsync(values.get(), host.data(), 8, cudaMemcpyHostToDevice, stream), cudaSuccess);
  host = {0, 0};  // it has been read
  EXPECT_EQ(launch(double_it, 1, 2, stream, values.get()), cudaSuccess);
  EXPECT_EQ(gpu_emulator::counts().launches, 0);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  EXPECT_EQ(gpu_emulator::counts().launches, 1);
  EXPECT_EQ(values.host(), (std::vector{6, 8}));
  EXPECT_EQ(launch(double_it, 1, 2, stream, values.get()), cudaSuccess);
  EXPECT_EQ(gpu_emulator::counts().launches, 1);
  gpu_emulator::set_deferred(false);
  EXPECT_EQ(gpu_emulator::counts().launches, 2);
  EXPECT_EQ(values.host(), (std::vector{12, 16}));
}

TEST_F(Streamed, CountsAndEvents) {
  gpu_emulator::reset_counts();
  cudaEvent_t from = nullptr, to = nullptr;
  ASSERT_EQ(cudaEventCreate(&from), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&to), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(from, stream), cudaSuccess);
  EXPECT_EQ(launch(nothing, 1000, 32, stream), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(to, stream), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(to), cudaSuccess);
  float milliseconds = 0;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, from, to), cudaSuccess);
  EXPECT_GT(milliseconds, 0);
  EXPECT_EQ(cudaEventDestroy(from), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(to), cudaSuccess);
  void* p = nullptr;
  EXPECT_EQ(cudaMalloc(&p, 3), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(p, 0, 3, stream), cudaSuccess);
  EXPECT_EQ(cudaFree(p), cudaSuccess);
  const auto counts = gpu_emulator::counts();
  EXPECT_EQ(counts.launches, 1);
  EXPECT_EQ(counts.allocations, 1);
  EXPECT_EQ(counts.frees, 1);
  EXPECT_EQ(counts.copies, 1);
  EXPECT_EQ(counts.synchronisations, 1);
}

}  // namespace
