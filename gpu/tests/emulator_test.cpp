// The device that the kernels' tests run on shows a wrong kernel and a wrong call. That it runs right ones
// rightly, they show.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "gpu/tests/shim/emulator.h"
#include "gpu/tests/shim/sanitizer.h"

namespace {

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
template <typename... Parameters, typename... Arguments>
cudaError_t launch_overlapped(void (*kernel)(Parameters...), Arguments... arguments) {
  cudaLaunchAttribute overlap = {cudaLaunchAttributeProgrammaticStreamSerialization, {1}};
  cudaLaunchConfig_t config = {};
  config.gridDim = 2;
  config.blockDim = 32;
  config.attrs = &overlap;
  config.numAttrs = 1;
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

// ---- order and barriers --------------------------------------------------------------------------

__global__ void note_order(int* order, int* next) { order[(*next)++] = static_cast<int>(threadIdx.x); }

TEST(Emulator, OrdersDiffer) {
  std::vector<std::vector<int>> orders;
  in_every_order([&] {
    const OnDevice<int> order(64), next(std::vector{0});
    ASSERT_EQ(launch(note_order, 1, 64, nullptr, order.get(), next.get()), cudaSuccess);
    orders.push_back(order.host());
  });
  EXPECT_EQ(orders[0][0], 0);
  EXPECT_EQ(orders[1][0], 63);
  EXPECT_NE(orders[2], orders[0]);
  EXPECT_NE(orders[2], orders[3]);
  EXPECT_EQ(orders[4], orders[0]);
}

__global__ void turn_round(int* values, bool wait) {
  __shared__ int all[256];
  all[threadIdx.x] = values[threadIdx.x];
  if (wait) __syncthreads();
  values[threadIdx.x] = all[blockDim.x - 1 - threadIdx.x];
}

TEST(Emulator, AMissingBarrierShows) {
  std::vector<int> values(256);
  std::iota(values.begin(), values.end(), 1000);
  const std::vector<int> reversed(values.rbegin(), values.rend());
  int wrong = 0;
  in_every_order([&] {
    const OnDevice<int> with(values), without(values);
    const OnDevice<int> other(std::vector<int>(256, 7));  // leaves other values in the block's memory
    ASSERT_EQ(launch(turn_round, 1, 256, nullptr, with.get(), true), cudaSuccess);
    EXPECT_EQ(with.host(), reversed);
    ASSERT_EQ(launch(turn_round, 1, 256, nullptr, other.get(), true), cudaSuccess);
    ASSERT_EQ(launch(turn_round, 1, 256, nullptr, without.get(), false), cudaSuccess);
    wrong += without.host() != reversed;
  });
  EXPECT_EQ(wrong, 5);
}

// ---- calls of the runtime ------------------------------------------------------------------------

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
  EXPECT_EQ(cudaMemcpy(host, a.get(), 17, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, a.get(), 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMemcpy(host, host + 2, 8, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(a.get() + 1), cudaErrorInvalidValue);
  void* p = host;
  EXPECT_EQ(cudaMalloc(&p, 0), cudaSuccess);
  EXPECT_EQ(p, nullptr);
  EXPECT_EQ(cudaMalloc(&p, std::size_t{1} << 50), cudaErrorMemoryAllocation);
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

// ---- kernels that would hang or trap on a device -------------------------------------------------

__global__ void wait_for_the_ended() {
  if (threadIdx.x >= 48) return;
  __syncthreads();
}
__global__ void wait_in_two_places() {
  if (threadIdx.x < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
__global__ void shuffle_without_all(int* out) {
  if (threadIdx.x != 5) *out = __shfl_xor_sync(0xffffffff, 1, 1);
}
__global__ void shuffle_unnamed(int* out) { *out = __shfl_sync(0xffff, 1, 0); }
__global__ void load_askew(const char* p, uint4* out) { *out = __ldg(reinterpret_cast<const uint4*>(p + 8)); }

TEST(EmulatorDeathTest, SaysWhoWaits) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const OnDevice<int> out(8);
  EXPECT_DEATH(launch(wait_for_the_ended, 2, 64, nullptr),
               "never comes, in block \\(0, 0, 0\\).*\n.*threads 0 to 47: at __syncthreads, .*\n.*48 to 63: ended");
  EXPECT_DEATH(launch(wait_in_two_places, 1, 64, nullptr), "different barriers.*\n.*threads 0 to 31: at __syncthreads");
  EXPECT_DEATH(launch(shuffle_without_all, 1, 32, nullptr, out.get()),
               "never comes.*\n.*0 to 4: at __shfl_xor_sync with mask 0xffffffff.*\n.*5 to 5: ended");
  EXPECT_DEATH(launch(shuffle_without_all, 1, 20, nullptr, out.get()), "never comes");
  EXPECT_DEATH(launch(shuffle_unnamed, 1, 32, nullptr, out.get()), "missing in its own mask");
  EXPECT_DEATH(
      launch(load_askew, 1, 1, nullptr, reinterpret_cast<const char*>(out.get()), reinterpret_cast<uint4*>(out.get())),
      "misaligned address, .*thread \\(0, 0, 0\\)");
}

__global__ void wait_then_write(int* p) {
  cudaGridDependencySynchronize();
  p[threadIdx.x] = 1;
}
__global__ void write_then_wait(int* p) {
  p[threadIdx.x] = 1;
  cudaGridDependencySynchronize();
}
__global__ void wait_in_some(int* p) {
  if (threadIdx.x == 7) return;
  wait_then_write(p);
}

TEST(EmulatorDeathTest, AnOverlappedKernelWaitsInEveryThreadBeforeItTouchesMemory) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const OnDevice<int> out(32);
  EXPECT_EQ(launch_overlapped(wait_then_write, out.get()), cudaSuccess);
  EXPECT_EQ(out.host(), std::vector<int>(32, 1));
  EXPECT_EQ(launch(wait_in_some, 2, 32, nullptr, out.get()), cudaSuccess);
  EXPECT_DEATH(launch_overlapped(wait_in_some, out.get()), "overlaps earlier ones, and 62 waits of 64 threads");
  EXPECT_EQ(launch(write_then_wait, 2, 32, nullptr, out.get()), cudaSuccess);
  EXPECT_DEATH(launch_overlapped(write_then_wait, out.get()), "");
}

[[maybe_unused]] __global__ void write_behind(char* p) { p[5] = 1; }

TEST(EmulatorDeathTest, TheDevicesMemoryIsItsOwn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const OnDevice<char> bytes(5);
  EXPECT_DEATH(bytes.get()[0] = 1, "");
#ifdef GPU_EMULATOR_ASAN
  EXPECT_DEATH(launch(write_behind, 1, 1, nullptr, bytes.get()), "use-after-poison");
#endif
}

}  // namespace
