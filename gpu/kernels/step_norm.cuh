// x * (1 / sqrt(mean + eps)) * weight, unit by unit. The results are those that a separate pass would have stored.
#pragma once

#include "step_sum.cuh"

namespace rotary::gpu {

// The number of elements of a mean. If it is a power of two, the product with its reciprocal has the bits of the
// quotient.
struct Count {
  float count = 1, reciprocal = 0;  // reciprocal 0: count is not a power of two

  Count() = default;
  explicit Count(std::int64_t of) : count(static_cast<float>(of)) {
    if (of > 0 && of < 1 << 24 && (of & (of - 1)) == 0) reciprocal = 1.0f / count;
  }
};

__device__ inline float inverse_of(float sum, const Count& of, float eps) {
  const float mean = of.reciprocal != 0 ? __fmul_rn(sum, of.reciprocal) : __fdiv_rn(sum, of.count);
  return __frcp_rn(__fsqrt_rn(__fadd_rn(mean, eps)));
}

// A unit's weights as stored, at most 4 bytes each: they are loaded together, and widened once the sum is known.
template <DType Type>
struct RawWeights {
  uint4 vector[2 * lanes<Type> / 4];
};

// Weights per raw vector: as many as a vector of the heads has elements, if they fit.
template <DType Type, DType Weight>
inline constexpr int weight_step = lanes<Type> < lanes<Weight> ? lanes<Type> : lanes<Weight>;

// Bytes: the width of an access. Only weights below the counts of the places are read.
template <DType Type, DType Weight, int Bytes>
__device__ inline void load_weights_by(const std::byte* head, const Places& at, RawWeights<Type>& to) {
  constexpr int step = weight_step<Type, Weight>, vectors = lanes<Type> / step;
#pragma unroll
  for (int i = 0; i < 2 * vectors; ++i) {
    const int place = i < vectors ? at.first : at.second, count = i < vectors ? at.first_count : at.second_count;
    const int skipped = i % vectors * step;
    const std::byte* from = head + std::int64_t{place + skipped} * element_bytes<Weight>;
    to.vector[i] = load_vector<Weight, Bytes>(from, min(count - skipped, step));
  }
}

template <DType Type, DType Weight>
__device__ inline void load_weights_of(const std::byte* head, const Places& at, bool vectors, RawWeights<Type>& to) {
  if (vectors) {
    load_weights_by<Type, Weight, weight_step<Type, Weight> * element_bytes<Weight>>(head, at, to);
  } else {
    load_weights_by<Type, Weight, element_bytes<Weight>>(head, at, to);
  }
}

// first: the index of the head's first weight. vectors: see weight_vectors. Does nothing if there is no weight.
template <DType Type>
__device__ inline void load_weights(const NormJob& norm, std::int64_t first, const Places& at, bool vectors,
                                    RawWeights<Type>& to) {
  if (norm.weight == nullptr) return;
  const auto* weight = static_cast<const std::byte*>(norm.weight);
  if (norm.dtype == DType::f32) {
    load_weights_of<Type, DType::f32>(weight + first * 4, at, vectors, to);
  } else {  // raw f16 and bf16 are loaded alike
    load_weights_of<Type, DType::bf16>(weight + first * 2, at, vectors, to);
  }
}

template <DType Type>
struct UnitWeights {
  float weight[2 * lanes<Type>];
};

template <DType Type, DType Weight>
__device__ inline void widen_weights_of(const RawWeights<Type>& raw, UnitWeights<Type>& to) {
  constexpr int step = weight_step<Type, Weight>;
#pragma unroll
  for (int i = 0; i < 2 * lanes<Type>; i += step) {
    float x[lanes<Weight>];
    widen<Weight>(raw.vector[i / step], x);
#pragma unroll
    for (int j = 0; j < step; ++j) to.weight[i + j] = x[j];
  }
}

// Does nothing if there is no weight.
template <DType Type>
__device__ inline void widen_weights(const NormJob& norm, const RawWeights<Type>& raw, UnitWeights<Type>& to) {
  if (norm.weight == nullptr) return;
  switch (norm.dtype) {
    case DType::f32:
      widen_weights_of<Type, DType::f32>(raw, to);
      break;
    case DType::f16:
      widen_weights_of<Type, DType::f16>(raw, to);
      break;
    case DType::bf16:
      widen_weights_of<Type, DType::bf16>(raw, to);
      break;
  }
#pragma unroll
  for (float& weight : to.weight) {
    if (norm.one_plus) weight = __fadd_rn(1.0f, weight);
  }
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
