// The device that the kernels' tests run on is tested itself.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include "emulated.h"
#include "tests/gpu/shim/sanitizer.h"

namespace {

using namespace emulated;  // NOLINT: a test

// ---- threads and blocks --------------------------------------------------------------------------

__global__ void count_visits(unsigned* visits, unsigned* places) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  const unsigned i = block * blockDim.x * blockDim.y * blockDim.z + thread;
  ++visits[i];
  places[i] = threadIdx.x + 100 * threadIdx.y + 10000 * threadIdx.z;
}

TEST(Emulator, EveryThreadRunsOnce) {
  in_every_order([] {
    const OnDevice<unsigned> visits(std::vector<unsigned>(4 * 3 * 2 * 7 * 5 * 3)), places(4 * 3 * 2 * 7 * 5 * 3);
    ASSERT_EQ(launch(count_visits, {4, 3, 2}, {7, 5, 3}, nullptr, visits.get(), places.get()), cudaSuccess);
    for (const unsigned n : visits.host()) EXPECT_EQ(n, 1u);
    EXPECT_EQ(places.host()[105 + 2 * 35 + 4 * 7 + 6], 20406u);
  });
}

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

template <int threads>
__global__ void __launch_bounds__(threads) sum(const float* __restrict__ in, float* __restrict__ out, int passes) {
  __shared__ float warps[threads / 32];
  for (int pass = 0; pass < passes; ++pass) {
    float value = __ldg(in + blockIdx.x * threads + threadIdx.x);
    for (int step = 16; step; step /= 2) value = __fadd_rn(value, __shfl_xor_sync(0xffffffff, value, step));
    if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = value;
    __syncthreads();
    float total = 0;
    for (const float warp : warps) total = __fadd_rn(total, warp);
    out[(blockIdx.x * threads + threadIdx.x) * static_cast<unsigned>(passes) + static_cast<unsigned>(pass)] = total;
    __syncthreads();
  }
}

template <int threads>
void expect_sums() {
  const int blocks = 5, passes = 3;
  std::vector<float> in(static_cast<std::size_t>(blocks * threads));
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i % 1000 + i / threads);  // exact sums
  in_every_order([&] {
    const OnDevice<float> values(in), out(in.size() * passes);
    ASSERT_EQ(launch(sum<threads>, blocks, threads, nullptr, values.get(), out.get(), passes), cudaSuccess);
    const auto sums = out.host();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto first = in.begin() + static_cast<std::ptrdiff_t>(i / passes / threads * threads);
      ASSERT_EQ(sums[i], std::accumulate(first, first + threads, 0.0f)) << i;
    }
  });
}

TEST(Emulator, SumOverABlock) {
  expect_sums<32>();
  expect_sums<96>();
  expect_sums<256>();
  expect_sums<1024>();
}

TEST(Emulator, RunsFromAnyThread) {
  expect_sums<64>();
  std::thread([] { expect_sums<64>(); }).join();
  std::thread first([] { EXPECT_EQ(launch(sum<32>, 1, 32, nullptr, nullptr, nullptr, 0), cudaSuccess); });
  std::thread second([] { EXPECT_EQ(launch(sum<32>, 1, 32, nullptr, nullptr, nullptr, 0), cudaSuccess); });
  first.join();
  second.join();
}

// ---- shuffles --------------------------------------------------------------------------

template <typename T>
__global__ void shuffle(T* out, int argument, int width) {
  const T mine = static_cast<T>(T{1} / 4 + static_cast<T>(threadIdx.x + (sizeof(T) == 8 ? 0x100000000ull : 0)));
  T* at = out + 2 * threadIdx.x;
  at[0] = __shfl_sync(0xffffffff, mine, argument, width) - mine;
  const unsigned half = threadIdx.x % 32 < 16 ? 0xffffu : 0xffff0000u;
  at[1] = __shfl_xor_sync(half, mine, argument % 16, width) - mine;
}

template <typename T>
void expect_shuffles() {
  for (const int width : {32, 16, 8, 2}) {
    for (const int argument : {0, 1, 5, 16, 31}) {
      const OnDevice<T> out(2 * 64);
      ASSERT_EQ(launch(shuffle<T>, 1, 64, nullptr, out.get(), argument, width), cudaSuccess);
      const std::vector<T> moved = out.host();
      for (int thread = 0; thread < 64; ++thread) {
        const int lane = thread % 32, first = lane / width * width, last = first + width - 1;
        const int flipped = lane ^ (argument % 16);
        const auto* at = &moved[2 * static_cast<std::size_t>(thread)];
        EXPECT_EQ(at[0], static_cast<T>(first + argument % width - lane));
        EXPECT_EQ(at[1], static_cast<T>(flipped <= last ? flipped - lane : 0)) << lane << ' ' << argument;
      }
    }
  }
}

TEST(Emulator, Shuffles) {
  in_every_order([] {
    expect_shuffles<unsigned>();
    expect_shuffles<float>();
    expect_shuffles<double>();
  });
}

// ---- what hangs or traps on a device -------------------------------------------------------------

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

[[maybe_unused]] __global__ void write_behind(char* p) { p[5] = 1; }

TEST(EmulatorDeathTest, TheDevicesMemoryIsItsOwn) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const OnDevice<char> bytes(5);
  EXPECT_DEATH(bytes.get()[0] = 1, "");
#ifdef GPU_EMULATOR_ASAN
  EXPECT_DEATH(launch(write_behind, 1, 1, nullptr, bytes.get()), "use-after-poison");
#endif
}

// ---- arithmetic ----------------------------------------------------------------------------------

TEST(Emulator, Arithmetic) {
  static_assert(sizeof(float4) == 16 && alignof(float4) == 16 && alignof(float2) == 8 && sizeof(uint3) == 12);
  EXPECT_EQ(__umul64hi(~0ull, ~0ull), ~0ull - 1);
  EXPECT_EQ(__fmaf_rn(1 + 0x1p-12f, 1 - 0x1p-12f, -1), -0x1p-24f);
  EXPECT_EQ(__fsub_rn(__fmul_rn(1 + 0x1p-12f, 1 - 0x1p-12f), 1), -0x1p-24f);
  EXPECT_EQ(__fsub_rn(__fmul_rn(1 + 0x1p-13f, 1 - 0x1p-13f), 1), 0.0f);
  EXPECT_EQ(min(3, 2ll), 2);
  EXPECT_EQ(max(3, 2ll), 3);
}

}  // namespace
