// x * (1 / sqrt(mean + eps)) * weight, unit by unit; each result is what a pass of its own would have stored.
#pragma once

#include "step_sum.cuh"

namespace rotary::gpu {

// The elements that a mean is over. A product with the reciprocal of a power of two has the bits of the quotient.
struct Count {
  float count = 1, reciprocal = 0;  // 0: of no power of two

  Count() = default;
  explicit Count(std::int64_t of) : count(static_cast<float>(of)) {
    if (of > 0 && of < 1 << 24 && (of & (of - 1)) == 0) reciprocal = 1.0f / count;
  }
};

__device__ inline float inverse_of(float sum, const Count& of, float eps) {
  const float mean = of.reciprocal != 0 ? __fmul_rn(sum, of.reciprocal) : __fdiv_rn(sum, of.count);
  return __frcp_rn(__fsqrt_rn(__fadd_rn(mean, eps)));
}

template <DType Type>
struct UnitWeights {
  float weight[2 * lanes<Type>];
};

// Count weights from `at` on, those below `count`; vectors: by vectors, which are whole or not there.
template <DType Weight, int Count>
__device__ inline void load_weights_of(const std::byte* at, int count, bool vectors, float* to) {
  constexpr int step = Count < lanes<Weight> ? Count : lanes<Weight>;
#pragma unroll
  for (int i = 0; i < Count; i += step) {
    const std::byte* from = at + i * element_bytes<Weight>;
    float x[lanes<Weight>];
    const uint4 raw = vectors ? load_vector<Weight, step * element_bytes<Weight>>(from, min(count - i, step))
                              : load_vector<Weight, element_bytes<Weight>>(from, min(count - i, step));
    widen<Weight>(raw, x);
#pragma unroll
    for (int j = 0; j < step; ++j) to[i + j] = x[j];
  }
}

template <int Count>
__device__ inline void load_weights_at(const NormJob& norm, std::int64_t first, int count, bool vectors, float* to) {
  const auto* weight = static_cast<const std::byte*>(norm.weight);
  if (norm.dtype == DType::f32) {
    load_weights_of<DType::f32, Count>(weight + first * 4, count, vectors, to);
  } else if (norm.dtype == DType::f16) {
    load_weights_of<DType::f16, Count>(weight + first * 2, count, vectors, to);
  } else {
    load_weights_of<DType::bf16, Count>(weight + first * 2, count, vectors, to);
  }
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    if (norm.one_plus) to[i] = __fadd_rn(1.0f, to[i]);
  }
}

// first: the index of the head's first weight. Nothing where there is no weight.
template <DType Type>
__device__ inline void load_weights(const NormJob& norm, std::int64_t first, const Places& at, bool vectors,
                                    UnitWeights<Type>& to) {
  if (norm.weight == nullptr) return;
  load_weights_at<lanes<Type>>(norm, first + at.first, at.first_count, vectors, to.weight);
  load_weights_at<lanes<Type>>(norm, first + at.second, at.second_count, vectors, to.weight + lanes<Type>);
}

template <DType Type>
__device__ inline Unit normed(const Unit& unit, float inverse, const NormJob& norm, const UnitWeights<Type>& by) {
  float x[2 * lanes<Type>];
  widen_unit<Type>(unit, x);
#pragma unroll
  for (float& value : x) value = __fmul_rn(value, inverse);
  if (norm.weight != nullptr) {
    if (norm.round_before) {
      round_to<Type>(x);
      round_to<Type>(x + lanes<Type>);
    }
#pragma unroll
    for (int i = 0; i < 2 * lanes<Type>; ++i) x[i] = __fmul_rn(x[i], by.weight[i]);
  }
  return narrow_unit<Type>(x);
}

}  // namespace rotary::gpu
