// Experimental: tested on an emulator and on one kind of GPU (docs/gpu.md). Any version may change it.
//
// The angle and the rotation of one pair, for your own kernels: RoPE in attention, a GEMM's epilogue, a cache write.
//
//   #include "rotary/device.cuh"
//   __global__ void kernel(float* q, const std::int32_t* positions, const std::uint64_t* turns, ...) {
//     const rotary::device::CosSin by = rotary::device::cos_sin(positions[token], turns[pair]);
//     rotary::device::rotate(q[pair], q[pairs + pair], by);  // half; interleaved: q[2 * pair], q[2 * pair + 1]
//   }
//
// turns[i] is the rotation of pair i per position in units of 2^-64 turns: gpu::Frequencies::turns() in the device's
// memory, or turns_of() below. Its product with the position wraps, which is the range reduction. Apply the attention
// factor and clockwise yourself: multiply cos and sin by the factor; for clockwise call rotate_backward.
//
// The absolute error of cos and sin is at most 6.9e-8 for a given phase (measured over all phases). Rounding of turns
// adds at most 4e-10 at int32 positions, and 1.7e-19 for each unit of the position beyond. Results are the same bits
// on every device and host. The cost is about 25 instructions, most of them on 32 bits.
//
// Needs C++17. Only turns_of needs the library rotary. A host compiler sees ordinary functions.
#pragma once

#include <cmath>
#include <cstdint>

#include "rotary/experimental.h"

#ifdef __CUDACC__
#define ROTARY_HOST_DEVICE __host__ __device__
#else
#define ROTARY_HOST_DEVICE
#endif

namespace rotary::device {

struct CosSin {
  float cos, sin;
};

namespace detail {

// Each operation rounds separately, whatever -fmad says. On a host, g++ and clang need -ffp-contract=off for that.
ROTARY_HOST_DEVICE inline float product(float a, float b) noexcept {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
ROTARY_HOST_DEVICE inline float sum(float a, float b) noexcept {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}
ROTARY_HOST_DEVICE inline float difference(float a, float b) noexcept {
#ifdef __CUDA_ARCH__
  return __fsub_rn(a, b);
#else
  return a - b;
#endif
}
ROTARY_HOST_DEVICE inline float product_sum(float a, float b, float c) noexcept {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return std::fmaf(a, b, c);
#endif
}

}  // namespace detail

// The angle in units of 2^-64 turns, modulo one turn. The position may be negative.
ROTARY_EXPERIMENTAL ROTARY_HOST_DEVICE inline std::uint64_t phase(std::int64_t position, std::uint64_t turns) noexcept {
  return static_cast<std::uint64_t>(position) * turns;
}

// cos and sin of a phase; phase 0 gives 1 and +0. x is the distance from the nearest quarter turn, in quarter turns.
// The polynomials are from core/table/sollya/device_polynomials.sollya: before rounding, their error is at most
// 5.5e-9 for sin(pi/2 x) and 5e-10 for cos(pi/2 x).
ROTARY_EXPERIMENTAL ROTARY_HOST_DEVICE inline CosSin cos_sin(std::uint64_t phase) noexcept {
  const auto quarter = static_cast<std::uint32_t>((phase + (std::uint64_t{1} << 61)) >> 62);
  const auto beyond = static_cast<std::int32_t>(static_cast<std::uint32_t>(phase >> 30));
  const float x = detail::product(static_cast<float>(beyond), 0x1p-32f);
  const float u = detail::product(x, x);
  float s = detail::product_sum(-0x1.2bbf4ap-8f, u, 0x1.4650e6p-4f);
  s = detail::product_sum(s, u, -0x1.4abb7cp-1f);
  s = detail::product_sum(x, 0x1.921fb4p0f, detail::product(detail::product(x, u), s));
  float c = detail::product_sum(0x1.d61e28p-11f, u, -0x1.55b684p-6f);
  c = detail::product_sum(c, u, 0x1.03c1b6p-2f);
  c = detail::product_sum(c, u, -0x1.3bd3ccp0f);
  c = detail::product_sum(c, u, 1.0f);
  const float cos = (quarter & 1) != 0 ? s : c, sin = (quarter & 1) != 0 ? c : s;
  return {((quarter + 1) & 2) != 0 ? -cos : cos, (quarter & 2) != 0 ? -sin : sin};
}

ROTARY_EXPERIMENTAL ROTARY_HOST_DEVICE inline CosSin cos_sin(std::int64_t position, std::uint64_t turns) noexcept {
  return cos_sin(phase(position, turns));
}

// (a, b) -> (a cos - b sin, b cos + a sin): product, product, then the sum, the bits of rotary::rotate.
ROTARY_EXPERIMENTAL ROTARY_HOST_DEVICE inline void rotate(float& a, float& b, CosSin by) noexcept {
  const float first = detail::difference(detail::product(a, by.cos), detail::product(b, by.sin));
  b = detail::sum(detail::product(b, by.cos), detail::product(a, by.sin));
  a = first;
}

// The gradient: the transposed map.
ROTARY_EXPERIMENTAL ROTARY_HOST_DEVICE inline void rotate_backward(float& a, float& b, CosSin by) noexcept {
  rotate(a, b, {by.cos, -by.sin});
}

// inv_freq (radians per position, finite) in units of 2^-64 turns per position, modulo one turn, rounded to nearest; a
// negative frequency gives the two's complement. A host function of the library rotary.
ROTARY_EXPERIMENTAL std::uint64_t turns_of(double inv_freq) noexcept;

}  // namespace rotary::device

#undef ROTARY_HOST_DEVICE
