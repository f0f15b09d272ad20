#include "plain_loop.h"

namespace rotary::cli::bench {
namespace {

// The loop must become part of the function that names its instruction set.
#define ROTARY_INLINE [[gnu::always_inline]] inline

template <class T>
ROTARY_INLINE float load(T value) {
  return static_cast<float>(value);
}
ROTARY_INLINE float load(bf16 value) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(value.bits) << 16); }

template <class T>
ROTARY_INLINE void store(float value, T& to) {
  to = static_cast<T>(value);
}
ROTARY_INLINE void store(float value, bf16& to) {  // to nearest even; there are no NaNs here
  const auto wide = __builtin_bit_cast(std::uint32_t, value);
  to.bits = static_cast<std::uint16_t>((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
}

template <bool interleaved, class T>
ROTARY_INLINE void rotate_pair(const T* x, T* out, float cos, float sin, std::int64_t i, std::int64_t pairs) {
  const std::int64_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + pairs;
  const float a = load(x[first]), b = load(x[second]);
  store(a * cos - b * sin, out[first]);
  store(b * cos + a * sin, out[second]);
}

template <bool interleaved, class T>
ROTARY_INLINE void rotate_head(const PlainJob& job, std::int64_t token, std::int64_t at) {
  const std::int64_t pairs = job.head_dim / 2;
  const float* __restrict cos = job.cos + token * pairs;
  const float* __restrict sin = job.sin + token * pairs;
  T* __restrict out = static_cast<T*>(job.out) + at;
  if (job.in == job.out) {  // apart, so that the compiler knows which memory is the same
    for (std::int64_t i = 0; i < pairs; ++i) rotate_pair<interleaved>(out, out, cos[i], sin[i], i, pairs);
  } else {
    const T* __restrict in = static_cast<const T*>(job.in) + at;
    for (std::int64_t i = 0; i < pairs; ++i) rotate_pair<interleaved>(in, out, cos[i], sin[i], i, pairs);
  }
}

template <bool interleaved, class T>
ROTARY_INLINE void rotate_tokens(const PlainJob& job, std::int64_t begin, std::int64_t end) {
  for (std::int64_t token = begin; token < end; ++token) {
    for (std::int64_t head = 0; head < job.heads; ++head)
      rotate_head<interleaved, T>(job, token, (token * job.heads + head) * job.head_dim);
  }
}

template <class T>
ROTARY_INLINE bool rotate_as(const PlainJob& job, std::int64_t begin, std::int64_t end) {
  job.interleaved ? rotate_tokens<true, T>(job, begin, end) : rotate_tokens<false, T>(job, begin, end);
  return true;
}

ROTARY_INLINE bool rotate_stored(DType dtype, const PlainJob& job, std::int64_t begin, std::int64_t end) {
  if (dtype == DType::f32) return rotate_as<float>(job, begin, end);
  if (dtype == DType::bf16) return rotate_as<bf16>(job, begin, end);
#ifdef __FLT16_MAX__
  return rotate_as<_Float16>(job, begin, end);
#else
  return false;
#endif
}

#if defined(__x86_64__) && defined(__GNUC__)
#define ROTARY_FOR(name, instructions)                                                                              \
  [[gnu::target(instructions)]] bool name(DType dtype, const PlainJob& job, std::int64_t begin, std::int64_t end) { \
    return rotate_stored(dtype, job, begin, end);                                                                   \
  }
ROTARY_FOR(rotate_by_avx2, "avx2,fma,f16c")
ROTARY_FOR(rotate_by_avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
#endif

}  // namespace

bool rotate_plainly(std::string_view target, DType dtype, const PlainJob& job, std::int64_t begin, std::int64_t end) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (target == "avx2") return rotate_by_avx2(dtype, job, begin, end);
  if (target.starts_with("avx512")) return rotate_by_avx512(dtype, job, begin, end);
#endif
  return rotate_stored(dtype, job, begin, end);
}

}  // namespace rotary::cli::bench
