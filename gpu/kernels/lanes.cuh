// Storage types on the device: raw vectors of 16 bytes to floats and back. The only file with PTX; next to each
// instruction is a software version for the host and older architectures.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "rotary/rotary.h"
#include "values/dtypes.h"

namespace rotary::gpu {

// Calls use(std::integral_constant<DType, ...>) with the dtype, on the host.
template <class Use>
auto with_dtype(DType dtype, Use use) {
  switch (dtype) {
    case DType::f32:
      return use(std::integral_constant<DType, DType::f32>());
    case DType::f16:
      return use(std::integral_constant<DType, DType::f16>());
    case DType::bf16:
      return use(std::integral_constant<DType, DType::bf16>());
  }
  __builtin_unreachable();  // the dtype was checked
}

template <DType Type>
inline constexpr int element_bytes = rotary::detail::bytes_of(Type);
template <DType Type>
inline constexpr int lanes = 16 / element_bytes<Type>;  // elements of a vector

__host__ __device__ inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }
__host__ __device__ inline std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }

// ---- software versions: every NaN becomes the same NaN ----

__host__ __device__ inline float software_of_f16(std::uint32_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return float_of(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  if (magnitude >= 0x0400u) return float_of(sign | ((magnitude << 13) + (112u << 23)));
  return float_of(sign | bits_of(static_cast<float>(magnitude) * 0x1p-24f));
}

// Rounds to nearest even, and to infinity beyond the largest f16. Subnormals are rounded by adding 0.5, whose ulp is
// the smallest f16.
__host__ __device__ inline std::uint32_t software_f16(float x) {
  const std::uint32_t magnitude = bits_of(x) & 0x7fffffffu;
  const std::uint32_t sign = (bits_of(x) ^ magnitude) >> 16;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
  if (magnitude < 0x38800000u) return sign | (bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f));
  return sign | (((magnitude + 0xfffu + (magnitude >> 13 & 1u)) >> 13) - (112u << 10));
}

__host__ __device__ inline std::uint32_t software_bf16(float x) {
  const std::uint32_t bits = bits_of(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fc0u;
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

// Rounds to nearest even and clamps to +-448; NaN gives 0x7f. Below 2^-6 the values are the multiples of 2^-9, the ulp
// of 2^14.
__host__ __device__ inline std::uint32_t software_e4m3(float x) {
  const std::uint32_t magnitude = bits_of(x) & 0x7fffffffu;
  const std::uint32_t sign = (bits_of(x) ^ magnitude) >> 24;
  if (magnitude > 0x7f800000u) return 0x7fu;
  if (magnitude >= 0x43e00000u) return sign | 0x7eu;
  if (magnitude < 0x3c800000u) return sign | (bits_of(float_of(magnitude) + 16384.0f) - bits_of(16384.0f));
  return sign | (((magnitude + 0x7ffffu + (magnitude >> 20 & 1u)) >> 20) - (120u << 3));
}

// ---- two 16-bit elements in a word, the first in the low half ----

template <DType Type>
__device__ inline void widen_word(std::uint32_t word, float& low, float& high) {
  static_assert(Type == DType::f16 || Type == DType::bf16);
  if constexpr (Type == DType::bf16) {
    low = float_of(word << 16);
    high = float_of(word & 0xffff0000u);
  } else {
#ifdef __CUDA_ARCH__
    asm("{ .reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b; }"
        : "=f"(low), "=f"(high)
        : "r"(word));
#else
    low = software_of_f16(word & 0xffffu);
    high = software_of_f16(word >> 16);
#endif
  }
}

template <DType Type>
__device__ inline std::uint32_t narrow_word(float low, float high) {
  static_assert(Type == DType::f16 || Type == DType::bf16);
#ifdef __CUDA_ARCH__
  std::uint32_t word;
  if constexpr (Type == DType::bf16) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  }
  return word;
#else
  if constexpr (Type == DType::bf16) return software_bf16(low) | software_bf16(high) << 16;
  return software_f16(low) | software_f16(high) << 16;
#endif
}

// Two e4m3 in 16 bits, the first in the low byte.
__device__ inline std::uint16_t narrow_e4m3(float low, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint16_t word;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(word) : "f"(high), "f"(low));
  return word;
#else
  return static_cast<std::uint16_t>(software_e4m3(low) | software_e4m3(high) << 8);
#endif
}

// ---- vectors ----

template <DType Type>
__device__ inline void widen(const uint4& raw, float* x) {  // lanes<Type> of them
  const std::uint32_t word[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    if constexpr (Type == DType::f32) {
      x[w] = float_of(word[w]);
    } else {
      widen_word<Type>(word[w], x[2 * w], x[2 * w + 1]);
    }
  }
}

template <DType Type>
__device__ inline uint4 narrow(const float* x) {
  std::uint32_t word[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    if constexpr (Type == DType::f32) {
      word[w] = bits_of(x[w]);
    } else {
      word[w] = narrow_word<Type>(x[2 * w], x[2 * w + 1]);
    }
  }
  return make_uint4(word[0], word[1], word[2], word[3]);
}

// Rounds x to Type, as storing it would.
template <DType Type>
__device__ inline void round_to(float* x) {
  if constexpr (Type != DType::f32) widen<Type>(narrow<Type>(x), x);
}

// ---- memory accesses of 16 bytes, 8 bytes or one element (Bytes) ----

template <class T>
__device__ inline T read_only(const T* at) {
#ifdef __CUDA_ARCH__
  return __ldg(at);
#else
  return *at;
#endif
}

// The first `count` elements of a vector, the others 0; reads nothing if count is 0 or less. Accesses of 16 bytes read
// the whole vector, accesses of 8 bytes whole halves.
template <DType Type, int Bytes>
__device__ inline uint4 load_vector(const std::byte* at, int count) {
  uint4 raw = make_uint4(0, 0, 0, 0);
  if constexpr (Bytes == 16) {
    if (count > 0) raw = *reinterpret_cast<const uint4*>(at);
  } else if constexpr (Bytes == 8) {
    uint2 half[2] = {make_uint2(0, 0), make_uint2(0, 0)};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (count > h * lanes<Type> / 2) half[h] = reinterpret_cast<const uint2*>(at)[h];
    }
    raw = make_uint4(half[0].x, half[0].y, half[1].x, half[1].y);
  } else {
    static_assert(Bytes == element_bytes<Type>);
    std::uint32_t word[4] = {};
#pragma unroll
    for (int e = 0; e < lanes<Type>; ++e) {
      if (count <= e) continue;
      if constexpr (Type == DType::f32) {
        word[e] = reinterpret_cast<const std::uint32_t*>(at)[e];
      } else {
        word[e / 2] |= std::uint32_t{reinterpret_cast<const std::uint16_t*>(at)[e]} << (e % 2 * 16);
      }
    }
    raw = make_uint4(word[0], word[1], word[2], word[3]);
  }
  return raw;
}

template <DType Type, int Bytes>
__device__ inline void store_vector(std::byte* at, int count, const uint4& raw) {
  if constexpr (Bytes == 16) {
    if (count > 0) *reinterpret_cast<uint4*>(at) = raw;
  } else if constexpr (Bytes == 8) {
    const uint2 half[2] = {make_uint2(raw.x, raw.y), make_uint2(raw.z, raw.w)};
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (count > h * lanes<Type> / 2) reinterpret_cast<uint2*>(at)[h] = half[h];
    }
  } else {
    static_assert(Bytes == element_bytes<Type>);
    const std::uint32_t word[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int e = 0; e < lanes<Type>; ++e) {
      if (count <= e) continue;
      if constexpr (Type == DType::f32) {
        reinterpret_cast<std::uint32_t*>(at)[e] = word[e];
      } else {
        reinterpret_cast<std::uint16_t*>(at)[e] = static_cast<std::uint16_t>(word[e / 2] >> (e % 2 * 16));
      }
    }
  }
}

}  // namespace rotary::gpu
