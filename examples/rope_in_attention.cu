// Rope inside your own kernel: attention of one new token over a cache of keys that were never rotated. q is
// rotated in registers, each key on its way from memory, so there is no rotary pass; and since the cache holds no
// angles, its tokens may be renumbered at no cost, as sink streaming and context shift want.
//   nvcc -std=c++20 -I PREFIX/include rope_in_attention.cu -L PREFIX/lib -lrotary -o rope_in_attention
#include <cuda_runtime.h>
#include <rotary/rotary.h>
#include <rotary/device.cuh>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

namespace {

constexpr int head_dim = 128, pairs = head_dim / 2, kv_heads = 2, group = 4;  // group: heads of q for one of k and v
constexpr int lanes = 32, mine = pairs / lanes;                               // pairs of a lane: lane + 32 * j

// A warp per head of k and v; a key, read and rotated once, serves its group. Real kernels share the tokens
// among warps.
// q, out [kv_heads, group, head_dim]; k, v [tokens, kv_heads, head_dim]; positions [tokens]; turns [pairs]
__global__ void attend(const float* q, const float* k, const float* v, float* out, const std::uint64_t* turns,
                       std::int64_t position, const std::int64_t* positions, std::int64_t tokens, float scale) {
  const int lane = static_cast<int>(threadIdx.x);
  const std::int64_t kv_head = blockIdx.x;
  float query[group][mine][2], sum[group][mine][2] = {}, weights[group] = {}, top[group];
  std::uint64_t speed[mine];  // turns per position, of this lane's pairs
  for (int g = 0; g < group; ++g) top[g] = -INFINITY;
  for (int j = 0; j < mine; ++j) {
    speed[j] = turns[lane + lanes * j];
    const rotary::device::CosSin by = rotary::device::cos_sin(position, speed[j]);
    for (int g = 0; g < group; ++g) {
      const float* x = q + (kv_head * group + g) * head_dim + lane + lanes * j;
      query[g][j][0] = x[0], query[g][j][1] = x[pairs];
      rotary::device::rotate(query[g][j][0], query[g][j][1], by);
    }
  }
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::int64_t row = (token * kv_heads + kv_head) * head_dim + lane;
    float score[group] = {}, value[mine][2];
    for (int j = 0; j < mine; ++j) {
      float a = k[row + lanes * j], b = k[row + lanes * j + pairs];
      rotary::device::rotate(a, b, rotary::device::cos_sin(positions[token], speed[j]));
      for (int g = 0; g < group; ++g) score[g] += query[g][j][0] * a + query[g][j][1] * b;
      value[j][0] = v[row + lanes * j], value[j][1] = v[row + lanes * j + pairs];
    }
    for (int g = 0; g < group; ++g) {
      for (int other = lanes / 2; other > 0; other /= 2) score[g] += __shfl_xor_sync(0xffffffff, score[g], other);
      const float new_top = fmaxf(top[g], score[g] * scale);
      const float keep = expf(top[g] - new_top), weight = expf(score[g] * scale - new_top);
      top[g] = new_top;
      weights[g] = weights[g] * keep + weight;
      for (int j = 0; j < mine; ++j) {
        for (int m = 0; m < 2; ++m) sum[g][j][m] = sum[g][j][m] * keep + weight * value[j][m];
      }
    }
  }
  for (int g = 0; g < group; ++g) {
    float* x = out + (kv_head * group + g) * head_dim + lane;
    for (int j = 0; j < mine; ++j) {
      for (int m = 0; m < 2; ++m) x[lanes * j + pairs * m] = sum[g][j][m] / weights[g];
    }
  }
}

// The same in double, of q and keys rotated on the CPU.
std::vector<double> attend_on_the_host(const rotary::Rope& rope, std::vector<float> q, std::vector<float> k,
                                       const std::vector<float>& v, std::int64_t position,
                                       std::span<const std::int64_t> positions) {
  const rotary::Frequencies frequencies = rotary::frequencies(rope);
  const auto tokens = static_cast<std::int64_t>(positions.size());
  rotary::rotate(rotary::heads(q, rotary::thd(1, kv_heads * group, head_dim)), rotary::Table(frequencies, position));
  rotary::rotate(rotary::heads(k, rotary::thd(tokens, kv_heads, head_dim)), rotary::Table(frequencies, positions));
  std::vector<double> out(q.size()), weight(positions.size());
  for (std::size_t head = 0; head < kv_heads * group; ++head) {
    const auto at = [&](std::size_t token) { return (token * kv_heads + head / group) * head_dim; };
    for (std::size_t t = 0; t < weight.size(); ++t) {
      const double score = std::inner_product(&k[at(t)], &k[at(t)] + head_dim, &q[head * head_dim], 0.0);
      weight[t] = std::exp(score / std::sqrt(head_dim));  // small numbers: no need to take the largest away
    }
    const double all = std::accumulate(weight.begin(), weight.end(), 0.0);
    for (std::size_t t = 0; t < weight.size(); ++t) {
      for (std::size_t d = 0; d < head_dim; ++d) out[head * head_dim + d] += weight[t] / all * v[at(t) + d];
    }
  }
  return out;
}

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

}  // namespace

int main() {
  if (int n = 0; cudaGetDeviceCount(&n) != cudaSuccess || n == 0) return std::printf("skipped: no CUDA device\n"), 77;
  const rotary::Rope rope{.head_dim = head_dim, .base = 500000, .pairing = rotary::Pairing::half};
  std::vector<std::uint64_t> turns;
  for (const double inv_freq : rotary::frequencies(rope).inv_freq) turns.push_back(rotary::device::turns_of(inv_freq));

  constexpr std::int64_t tokens = 300, sinks = 4, first = 1'000'000;  // the first 4 tokens, and a window of the rest
  std::mt19937 random(1);
  const auto uniform = [&] { return static_cast<float>(random()) * 0x1p-31f - 1; };
  std::vector<float> q(kv_heads * group * head_dim), k(tokens * kv_heads * head_dim), v(k.size()), out(q.size());
  for (auto* x : {&q, &k, &v}) std::generate(x->begin(), x->end(), uniform);
  std::vector<std::int64_t> in_cache(tokens);
  std::iota(in_cache.begin(), in_cache.end(), 0);
  std::vector<std::int64_t> in_text = in_cache;
  for (std::int64_t& position : in_text) position += position < sinks ? 0 : first;

  const auto device_q = on_device(q), device_k = on_device(k), device_v = on_device(v), device_out = on_device(out);
  const auto device_turns = on_device(turns);
  double largest = 0, allowed = 1e-6;
  int wrong = 0;
  for (const std::vector<std::int64_t>& positions : {in_text, in_cache}) {  // the same keys, numbered otherwise
    const std::int64_t position = positions.back() + 1;
    const auto device_positions = on_device(positions);
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(kv_heads);
    config.blockDim = dim3(lanes);
    check(cudaLaunchKernelEx(&config, attend, device_q.get(), device_k.get(), device_v.get(), device_out.get(),
                             device_turns.get(), position, device_positions.get(), tokens,
                             1 / std::sqrt(float{head_dim})));
    check(cudaMemcpy(out.data(), device_out.get(), out.size() * sizeof(float), cudaMemcpyDeviceToHost));
    const std::vector<double> expected = attend_on_the_host(rope, q, k, v, position, positions);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const double difference = std::abs(out[i] - expected[i]);
      largest = std::max(largest, difference);
      wrong += !(difference <= allowed);  // NaN too
    }
  }
  std::printf(
      "%d heads over %lld tokens, numbered as in the text and anew: off by at most %.1e, %d by more than %.0e\n",
      kv_heads * group, static_cast<long long>(tokens), largest, wrong, allowed);
  return wrong == 0 ? 0 : 1;
}
