// A kernel that only moves bytes: an upper bound for every kernel that reads and writes the same bytes.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "gpu/kernels/launch.h"
#include "gpu_measure.h"

namespace rotary::gpu {

using namespace rotary::detail;
namespace {

struct alignas(16) Vector {
  std::uint32_t words[4];
};

constexpr int block_threads = 256;
constexpr int in_flight = 4;  // loads per thread before its first store
constexpr std::int64_t block_vectors = std::int64_t{block_threads} * in_flight;

// zero is 0, which the compiler does not know: an update must read what it writes.
__global__ void move_vectors(const Vector* in, Vector* out, std::int64_t count, std::uint32_t zero) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * block_vectors + threadIdx.x;
  Vector values[in_flight];
#pragma unroll
  for (int i = 0; i < in_flight; ++i) {
    const std::int64_t at = first + i * block_threads;
    if (at < count) values[i] = in[at];
  }
#pragma unroll
  for (int i = 0; i < in_flight; ++i) {
    const std::int64_t at = first + i * block_threads;
    if (at >= count) continue;
    for (std::uint32_t& word : values[i].words) word ^= zero;
    out[at] = values[i];
  }
}

}  // namespace

void move_bytes(const void* in, void* out, std::size_t bytes, Stream stream) {
  const auto count = static_cast<std::int64_t>(bytes / sizeof(Vector));
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>(ceil_div(count, block_vectors));
  launch(move_vectors, dim3(blocks), dim3(block_threads), stream, static_cast<const Vector*>(in),
         static_cast<Vector*>(out), count, std::uint32_t{0});
}

}  // namespace rotary::gpu
