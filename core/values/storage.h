// Scalar conversions of the 16-bit storage types, to nearest even. For the kernels; the reference has its own.
#pragma once

#include <cstdint>
#include <type_traits>

#include "rotary/rotary.h"

namespace rotary::detail {

template <class T>
inline constexpr bool is_bf16 = false;
template <>
inline constexpr bool is_bf16<bf16> = true;

// All functions here are static: each target keeps its own copy, compiled with its own flags.
static inline std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
static inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

static inline float decode(float x) { return x; }
static inline float decode(bf16 x) { return float_of(std::uint32_t{x.bits} << 16); }

// The exponents of f16 and f32 differ by 112; a multiplication moves subnormals along.
static inline float decode(f16 x) {
  const std::uint32_t sign = (x.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = (x.bits & 0x7fffu) << 13;
  const std::uint32_t infinite = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;
  return float_of(bits_of(float_of(magnitude) * 0x1p112f) | infinite | sign);
}

static inline bf16 encode_bf16(float x) {
  const std::uint32_t bits = bits_of(x);
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const std::uint32_t rounded = is_nan ? bits | 0x00400000u : bits + 0x7fffu + ((bits >> 16) & 1u);
  return {static_cast<std::uint16_t>(rounded >> 16)};
}

static inline f16 encode_f16(float x) {
  const std::uint32_t sign = (bits_of(x) >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits_of(x) & 0x7fffffffu;
  constexpr std::uint32_t normal = 0x38800000u, too_large = 0x477ff000u;  // 2^-14; 65520, halfway from 65504 to 2^16
  std::uint32_t result;
  if (magnitude - normal < too_large - normal) [[likely]] {
    result = (magnitude - 0x38000000u + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  } else if (magnitude < normal) {  // floats in [0.5, 1) and subnormal f16 share the step 2^-24
    result = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
  } else {
    result = magnitude > 0x7f800000u ? 0x7e00u : 0x7c00u;
  }
  return {static_cast<std::uint16_t>(sign | result)};
}

template <class T>
static inline T encode(float x) {
  if constexpr (is_bf16<T>) return encode_bf16(x);
  if constexpr (std::is_same_v<T, f16>) return encode_f16(x);
  if constexpr (std::is_same_v<T, float>) return x;
}

// Calls act with a value of the type.
template <class Act>
static inline void by_type(DType dtype, const Act& act) {
  switch (dtype) {
    case DType::f32:
      return act(float{});
    case DType::f16:
      return act(f16{});
    case DType::bf16:
      return act(bf16{});
  }
}

}  // namespace rotary::detail
