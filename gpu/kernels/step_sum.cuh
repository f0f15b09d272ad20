// The sum of the squares of a head, in f32, in an order that depends on the dtype and head_dim only.
//
// The head is cut into vectors of P elements, 16 bytes of its dtype (P = 4 for f32, else 8): vector j has elements
// [j P, (j + 1) P), the last may be short. 64 partial sums start at +0. Element d, in ascending order, goes to partial
// sum (d / P) mod 64 by p = fma(x, x, p). Then for step = 1, 2, 4, 8, 16, 32 each partial sum i that is a multiple of
// 2 step becomes p[i] + p[i + step]; p[0] is the sum. As a loop:
//
//   float p[64] = {};
//   for (int d = 0; d < head_dim; ++d) p[d / P % 64] = std::fma(x[d], x[d], p[d / P % 64]);
//   for (int step = 1; step < 64; step *= 2)
//     for (int i = 0; i < 64; i += 2 * step) p[i] = p[i] + p[i + step];
//   return p[0];
//
// (Partial sums without elements are +0 and change nothing: sums of squares are +0 or more, or NaN.) The sum across
// heads is ((+0 + sum of head 0) + sum of head 1) + ...
#pragma once

#include "units.cuh"

namespace rotary::gpu {

inline constexpr int partial_sums = 64;

// The lanes of a warp that hold one head: lane `index` of `count`, from lane `first` of the warp on.
struct Group {
  int first, index, count;
};

// The x of lane `index` of the group. All 32 lanes of the warp must call it.
__device__ inline float from_lane(float x, const Group& group, int index) {
  return __shfl_sync(0xffffffffu, x, (group.first + index) & 31);
}

// Sums each x over the group: lane i passes partial sum 2 i plus partial sum 2 i + 1; every lane receives the sum.
// After the step by 2^level every lane of an aligned block of 2^(level + 1) lanes has the block's sum: it adds the
// other half's sum from the first lane of that half, if the group has that lane.
template <int Count>
__device__ inline void add_up(float (&x)[Count], const Group& group) {
  for (int level = 0; 1 << level < group.count; ++level) {
    const int other = (group.index >> level ^ 1) << level;
#pragma unroll
    for (float& value : x) {
      const float there = from_lane(value, group, other);
      value = other < group.count ? __fadd_rn(value, there) : value;
    }
  }
}

template <DType Type>
__device__ inline float add_squares(const uint4& raw, float sum) {
  float x[lanes<Type>];
  widen<Type>(raw, x);
#pragma unroll
  for (int i = 0; i < lanes<Type>; ++i) sum = __fmaf_rn(x[i], x[i], sum);
  return sum;
}

// ---- from memory: any head_dim, any access width ----

template <DType Type, int Bytes>
__device__ inline float sum_of_memory(const std::byte* head, int head_dim, bool active, const Group& group) {
  float sum[2] = {0, 0};
  if (active) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      for (int at = (2 * group.index + i) * lanes<Type>; at < head_dim; at += partial_sums * lanes<Type>) {
        const std::byte* vector = head + std::int64_t{at} * element_bytes<Type>;
        sum[i] = add_squares<Type>(load_vector<Type, Bytes>(vector, head_dim - at), sum[i]);
      }
    }
  }
  float total[1] = {__fadd_rn(sum[0], sum[1])};
  add_up(total, group);
  return total[0];
}

// ---- from units in registers: each lane has one, and all vectors are whole (accesses of 16 bytes) ----

// The lane that holds a vector of the head, and whether it is the second vector of its unit.
struct Holder {
  int index;
  bool second, exists;
};

// The vectors of the pairs come first, then those of the rest. The first half of each are the first vectors of the
// units, the second half the second ones; but if Crossing (the pairs are only read or only written interleaved), the
// two vectors of a unit of pairs are adjacent.
template <DType Type, bool Crossing>
__device__ inline Holder holder_of(int vector, int pairs, int head_dim) {
  const int of_pairs = 2 * pairs / lanes<Type>, units = units_of_pairs<Type>(pairs);
  const bool exists = vector * lanes<Type> < head_dim;
  if (vector < of_pairs) {
    if constexpr (Crossing) return {vector / 2, vector % 2 != 0, exists};
    return {vector < units ? vector : vector - units, vector >= units, exists};
  }
  const int rest = vector - of_pairs, rest_units = units_of_rest<Type>(head_dim - 2 * pairs);
  return {units + (rest < rest_units ? rest : rest - rest_units), rest >= rest_units, exists};
}

// The holders of the two vectors that this lane adds first.
struct Holders {
  Holder even, odd;
};
template <DType Type, bool Crossing>
__device__ inline Holders holders_of(const Group& group, int pairs, int head_dim) {
  return {holder_of<Type, Crossing>(2 * group.index, pairs, head_dim),
          holder_of<Type, Crossing>(2 * group.index + 1, pairs, head_dim)};
}

__device__ inline float from_holder(float first, float second, const Group& group, const Holder& holder) {
  const float a = from_lane(first, group, holder.index), b = from_lane(second, group, holder.index);
  return holder.exists ? (holder.second ? b : a) : 0.0f;
}

// The sums of several heads at once.
template <DType Type, int Count>
__device__ inline void sums_of_units(const Unit (&units)[Count], const Group& group, const Holders& holders,
                                     float (&sums)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    const float first = add_squares<Type>(units[i].first, 0), second = add_squares<Type>(units[i].second, 0);
    const float even = from_holder(first, second, group, holders.even);
    sums[i] = __fadd_rn(even, from_holder(first, second, group, holders.odd));
  }
  add_up(sums, group);
}

}  // namespace rotary::gpu
