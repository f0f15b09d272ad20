// One layer's decode step on a CUDA stream, captured in a graph and replayed for each token: the row of the table from
// a position in the device's memory, then norm, rotation and cache write in one launch.
//   g++ -std=c++20 -I /usr/local/cuda/include gpu_decode.cpp $(pkg-config --cflags --libs rotary_gpu) -o gpu_decode
#include <cuda_runtime_api.h>
#include <rotary/gpu.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

constexpr int heads = 32, kv_heads = 8, head_dim = 128, pages = 4, page_size = 16;
constexpr std::int64_t first = 100000, steps = 20;  // a long text, of which a window stays in the cache
constexpr std::size_t slots = pages * page_size, row = kv_heads * head_dim;

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

template <class T>
std::shared_ptr<T> on_device(const std::vector<T>& x) {
  void* p = nullptr;
  check(cudaMalloc(&p, x.size() * sizeof(T)));
  check(cudaMemcpy(p, x.data(), x.size() * sizeof(T), cudaMemcpyHostToDevice));
  return {static_cast<T*>(p), cudaFree};
}

template <class T>
std::vector<T> on_host(const T* p, std::size_t count) {
  std::vector<T> x(count);
  check(cudaMemcpy(x.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost));
  return x;
}

}  // namespace

int main() {
  if (rotary::gpu::devices() == 0) return std::printf("skipped: no CUDA device\n"), 77;

  std::vector<rotary::bf16> projected((heads + 2 * kv_heads) * head_dim), ones(head_dim);
  for (std::size_t i = 0; i < projected.size(); ++i) projected[i] = {static_cast<std::uint16_t>(0x3f80 + i % 97)};
  for (std::size_t i = 0; i < ones.size(); ++i) ones[i] = {static_cast<std::uint16_t>(0x3f70 + i % 16)};  // around 1
  const auto qkv = on_device(projected), weight = on_device(ones);
  const auto rotated_q = on_device(std::vector<rotary::bf16>(heads * head_dim));
  const auto k_cache = on_device(std::vector<rotary::bf16>(slots * row)),
             v_cache = on_device(std::vector<rotary::bf16>(slots * row));
  const auto position = on_device(std::vector<std::int64_t>(1)), slot = on_device(std::vector<std::int64_t>(1));
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t step = nullptr;
  check(cudaStreamCreate(&stream));

  // Made once for the model.
  const rotary::Rope rope{.head_dim = head_dim, .base = 1000000, .pairing = rotary::Pairing::half};
  const rotary::gpu::Frequencies frequencies(rotary::frequencies(rope));
  rotary::gpu::Table table;
  table.reserve(1, head_dim / 2);  // so that assign has nothing to allocate

  const rotary::Heads packed{qkv.get(), rotary::DType::bf16, rotary::thd(1, heads + 2 * kv_heads, head_dim)};
  const rotary::Heads q{rotated_q.get(), rotary::DType::bf16, rotary::thd(1, heads, head_dim)};
  const rotary::gpu::Norm norm{.weight = weight.get(), .dtype = rotary::DType::bf16};  // Qwen3's
  const rotary::gpu::Cache cache = rotary::gpu::nhd(k_cache.get(), v_cache.get(), pages, page_size, kv_heads, head_dim);

  // Captured once. A model's other layers come behind it and use the same table.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  table.assign(frequencies, rotary::gpu::Positions(position.get(), 1), {}, stream);
  rotary::gpu::norm_rotate_append(packed, kv_heads, q, norm, norm, table, cache, rotary::gpu::Slots::flat(slot.get()),
                                  stream);
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&step, graph, 0));

  // Replayed for each token.
  for (std::int64_t token = first; token < first + steps; ++token) {
    const std::int64_t where = token % (pages * page_size);
    check(cudaMemcpyAsync(position.get(), &token, sizeof token, cudaMemcpyHostToDevice, stream));
    check(cudaMemcpyAsync(slot.get(), &where, sizeof where, cudaMemcpyHostToDevice, stream));
    check(cudaGraphLaunch(step, stream));
  }
  rotary::gpu::synchronize(stream);

  // The same in parts: the norm on the device, the rotation on the CPU.
  const auto normed = on_device(std::vector<rotary::bf16>(row));
  const rotary::Layout one_token = rotary::thd(1, kv_heads, head_dim);
  rotary::gpu::rms_norm(rotary::ConstHeads(qkv.get() + heads * head_dim, rotary::DType::bf16, one_token),
                        {normed.get(), rotary::DType::bf16, one_token}, norm);
  const std::vector<rotary::bf16> keys = on_host(k_cache.get(), slots * row);
  int different = 0;
  for (std::int64_t token = first; token < first + steps; ++token) {
    std::vector<rotary::bf16> k = on_host(normed.get(), row);
    rotary::rotate(rotary::heads(k, one_token), rotary::Table(rotary::frequencies(rope), token));
    for (std::size_t i = 0; i < row; ++i) different += k[i] != keys[static_cast<std::size_t>(token) % slots * row + i];
  }
  std::printf("%lld steps from token %lld on: %d elements of keys in the cache differ from the CPU's, of %lld\n",
              static_cast<long long>(steps), static_cast<long long>(first), different,
              static_cast<long long>(keys.size() / slots) * steps);
  check(cudaGraphExecDestroy(step));
  check(cudaGraphDestroy(graph));
  check(cudaStreamDestroy(stream));
  return different == 0 ? 0 : 1;
}
