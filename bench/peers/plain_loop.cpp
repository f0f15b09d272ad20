#include "plain_loop.h"

#include <bit>
#include <cstdint>

namespace peers {
namespace {

class BFloat16 {
 public:
  explicit BFloat16(float value) {  // to nearest even; there are no NaNs here
    const auto wide = std::bit_cast<std::uint32_t>(value);
    bits_ = static_cast<std::uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16); }

 private:
  std::uint16_t bits_;
};

// The two members of pair i of a head.
template <bool interleaved>
std::int64_t first(std::int64_t i) {
  return interleaved ? 2 * i : i;
}
template <bool interleaved>
std::int64_t second(std::int64_t i, std::int64_t pairs) {
  return interleaved ? 2 * i + 1 : i + pairs;
}

template <bool interleaved, class T>
void turn_in_place(T* __restrict x, const float* __restrict cos, const float* __restrict sin, std::int64_t pairs) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const auto a = static_cast<float>(x[first<interleaved>(i)]);
    const auto b = static_cast<float>(x[second<interleaved>(i, pairs)]);
    x[first<interleaved>(i)] = static_cast<T>(a * cos[i] - b * sin[i]);
    x[second<interleaved>(i, pairs)] = static_cast<T>(b * cos[i] + a * sin[i]);
  }
}

template <bool interleaved, class T>
void turn(const T* __restrict x, T* __restrict out, const float* __restrict cos, const float* __restrict sin,
          std::int64_t pairs) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const auto a = static_cast<float>(x[first<interleaved>(i)]);
    const auto b = static_cast<float>(x[second<interleaved>(i, pairs)]);
    out[first<interleaved>(i)] = static_cast<T>(a * cos[i] - b * sin[i]);
    out[second<interleaved>(i, pairs)] = static_cast<T>(b * cos[i] + a * sin[i]);
  }
}

template <bool interleaved, class T>
void turn_head(const PlainJob& job, std::int64_t token, std::int64_t at) {
  const std::int64_t pairs = job.head_dim / 2;
  const float* cos = job.cos + token * pairs;
  const float* sin = job.sin + token * pairs;
  const T* x = static_cast<const T*>(job.in) + at;
  T* out = static_cast<T*>(job.out) + at;
  if (job.in == job.out) {
    turn_in_place<interleaved>(out, cos, sin, pairs);
  } else {
    turn<interleaved>(x, out, cos, sin, pairs);
  }
}

// All heads of a token or, by_head, all tokens of a head.
template <bool interleaved, class T>
void turn_row(const PlainJob& job, std::int64_t row) {
  if (job.by_head) {
    for (std::int64_t token = 0; token < job.tokens; ++token)
      turn_head<interleaved, T>(job, token, (row * job.tokens + token) * job.head_dim);
  } else {
    for (std::int64_t head = 0; head < job.heads; ++head)
      turn_head<interleaved, T>(job, row, (row * job.heads + head) * job.head_dim);
  }
}

template <bool interleaved, class T>
void turn_all(const PlainJob& job) {
  const std::int64_t rows = job.by_head ? job.heads : job.tokens;
  if (job.threads == 1) {  // apart: entering a parallel region costs more than a token's work
    for (std::int64_t row = 0; row < rows; ++row) turn_row<interleaved, T>(job, row);
    return;
  }
#pragma omp parallel for num_threads(job.threads)
  for (std::int64_t row = 0; row < rows; ++row) turn_row<interleaved, T>(job, row);
}

template <class T>
bool turn_either(const PlainJob& job) {
  if (job.interleaved) {
    turn_all<true, T>(job);
  } else {
    turn_all<false, T>(job);
  }
  return true;
}

}  // namespace

bool plain_rotate(Storage storage, const PlainJob& job) {
  if (storage == Storage::f32) return turn_either<float>(job);
  if (storage == Storage::bf16) return turn_either<BFloat16>(job);
#ifdef __FLT16_MAX__
  return turn_either<_Float16>(job);
#else
  return false;
#endif
}

}  // namespace peers
