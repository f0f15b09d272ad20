// A unit is `lanes` pairs of one head as two vectors, with both members of every pair in one thread. Used by rotate and
// step.
//
//   half          the first vector at element i, the second at pairs + i
//   interleaved   only read or only written: the first vector at 2 i, the second right after it;
//                 read and written: the first half of the head's vectors are first ones, the other half second ones,
// so that adjacent threads access adjacent vectors wherever the pairing allows it. The units of the rest, which is not
// rotated, follow those of the pairs. The last unit of either kind may be short.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels.h"
#include "lanes.cuh"
#include "launch.h"
#include "rotary/device.cuh"

namespace rotary::gpu {

// ---- division by a number that the host knows ----

// The division of numbers below 2^31 by a divisor from 1 to 2^31.
struct FastDivide {
  std::uint32_t divisor = 1, factor = 1, shift = 0;

  FastDivide() = default;
  explicit FastDivide(std::uint32_t by) : divisor(by) {
    while (shift < 31 && std::uint32_t{1} << shift < by) ++shift;
    factor = static_cast<std::uint32_t>((((std::uint64_t{1} << shift) - by) << 32) / by + 1);
  }
  // The quotient; n becomes the remainder.
  __host__ __device__ std::uint32_t split(std::uint32_t& n) const {
    const auto high = static_cast<std::uint32_t>(std::uint64_t{n} * factor >> 32);
    const std::uint32_t quotient = (high + n) >> shift;
    n -= quotient * divisor;
    return quotient;
  }
};

// ---- where a unit lies ----

template <DType Type>
__host__ __device__ constexpr int units_of_pairs(int pairs) {
  return ceil_div(pairs, lanes<Type>);
}
template <DType Type>
__host__ __device__ constexpr int units_of_rest(int rest) {
  return ceil_div(rest, 2 * lanes<Type>);
}

// The pairs of a unit: lanes / 2 from `first` on and lanes / 2 from `second` on, as far as there are pairs.
struct UnitPairs {
  int first, second;
};

template <DType Type, bool Reads, bool Writes>  // interleaved
__device__ inline UnitPairs pairs_of_unit(int unit, int units) {
  constexpr int half = lanes<Type> / 2;
  if constexpr (Reads && Writes) return {unit * half, (units + unit) * half};
  return {unit * 2 * half, unit * 2 * half + half};
}

// The places of a unit's two vectors: the index of the first element in the head, and the number of elements from there
// (0 or less: no elements).
struct Places {
  int first, second;
  int first_count, second_count;
};

template <bool Interleaved>
__device__ inline Places places_of_pairs(UnitPairs unit, int pairs) {
  if constexpr (Interleaved) {
    return {2 * unit.first, 2 * unit.second, 2 * (pairs - unit.first), 2 * (pairs - unit.second)};
  }
  return {unit.first, pairs + unit.first, pairs - unit.first, pairs - unit.first};
}

// The places in the rest, which has `rest` elements from `begin` on.
template <DType Type>
__device__ inline Places places_of_rest(int unit, int units, int begin, int rest) {
  const int first = unit * lanes<Type>, second = (units + unit) * lanes<Type>;
  return {begin + first, begin + second, rest - first, rest - second};
}

// The widest access in bytes that every vector of a head allows: 16, 8, or one element. aligned: the bitwise or of all
// addresses and strides in bytes. rest: the bitwise or of the rests of q and k.
inline int access_bytes(DType dtype, bool read_interleaved, bool write_interleaved, int pairs, int rest,
                        std::uint64_t aligned) {
  const int element = rotary::detail::bytes_of(dtype);
  const bool half = !read_interleaved || !write_interleaved;
  for (const int bytes : {16, 8}) {
    const int elements = bytes / element;
    const bool fits = aligned % static_cast<std::uint64_t>(bytes) == 0 && 2 * pairs % elements == 0 &&
                      rest % elements == 0 && (!half || pairs % elements == 0);
    if (fits) return bytes;
  }
  return element;
}

// ---- its raw elements ----

struct Unit {
  uint4 first, second;
};

template <DType Type, int Bytes>
__device__ inline Unit load_unit(const std::byte* head, const Places& at) {
  return {load_vector<Type, Bytes>(head + std::int64_t{at.first} * element_bytes<Type>, at.first_count),
          load_vector<Type, Bytes>(head + std::int64_t{at.second} * element_bytes<Type>, at.second_count)};
}

template <DType Type, int Bytes>
__device__ inline void store_unit(std::byte* head, const Places& at, const Unit& unit) {
  store_vector<Type, Bytes>(head + std::int64_t{at.first} * element_bytes<Type>, at.first_count, unit.first);
  store_vector<Type, Bytes>(head + std::int64_t{at.second} * element_bytes<Type>, at.second_count, unit.second);
}

// The elements of the first vector, then those of the second.
template <DType Type>
__device__ inline void widen_unit(const Unit& unit, float (&x)[2 * lanes<Type>]) {
  widen<Type>(unit.first, x);
  widen<Type>(unit.second, x + lanes<Type>);
}
template <DType Type>
__device__ inline Unit narrow_unit(const float (&x)[2 * lanes<Type>]) {
  return {narrow<Type>(x), narrow<Type>(x + lanes<Type>)};
}

// ---- cos and sin of its pairs ----

template <DType Type>
struct UnitCosSin {
  float cos[lanes<Type>], sin[lanes<Type>];
};

// The values of pairs [first, first + Count) of a table row; pairs beyond the last get some value of the row. vectors:
// see rows_of_vectors.
template <int Count>
__device__ inline void load_row(const float* row, int first, int pairs, bool vectors, float* to) {
  static_assert(Count == 2 || Count == 4);
  if (vectors) {
    const float* at = row + (first < pairs ? first : 0);
    if constexpr (Count == 4) {
      const float4 x = read_only(reinterpret_cast<const float4*>(at));
      to[0] = x.x, to[1] = x.y, to[2] = x.z, to[3] = x.w;
    } else {
      const float2 x = read_only(reinterpret_cast<const float2*>(at));
      to[0] = x.x, to[1] = x.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < Count; ++i) to[i] = read_only(row + (first + i < pairs ? first + i : 0));
  }
}

// Whether the rows of by's table can be read as float4s.
inline bool rows_of_vectors(const RotationArrays& by, int pairs) {
  const auto bits = reinterpret_cast<std::uintptr_t>(by.cos) | reinterpret_cast<std::uintptr_t>(by.sin);
  return pairs % 4 == 0 && bits % 16 == 0;
}

__device__ inline std::int64_t position_at(const PositionArrays& positions, std::int64_t row) {
  if (positions.i64 != nullptr) return static_cast<std::int64_t>(read_only(positions.i64 + row));
  return read_only(positions.i32 + row);
}

// row: batch row * by.batch_rows + token. sign: 1 << 31 negates sin. Pairs beyond the last get some values.
template <DType Type, bool WithTable>
__device__ inline void load_cos_sin(const RotationArrays& by, std::int64_t row, UnitPairs unit, int pairs, bool vectors,
                                    std::uint32_t sign, UnitCosSin<Type>& to) {
  constexpr int half = lanes<Type> / 2;
  if constexpr (WithTable) {
    const float* cos = by.cos + row * pairs;
    const float* sin = by.sin + row * pairs;
    load_row<half>(cos, unit.first, pairs, vectors, to.cos);
    load_row<half>(cos, unit.second, pairs, vectors, to.cos + half);
    load_row<half>(sin, unit.first, pairs, vectors, to.sin);
    load_row<half>(sin, unit.second, pairs, vectors, to.sin + half);
#pragma unroll
    for (int i = 0; i < 2 * half; ++i) to.sin[i] = float_of(bits_of(to.sin[i]) ^ sign);
  } else {
    const FrequencyArrays& frequencies = by.frequencies;
    if (frequencies.clockwise) sign ^= 0x80000000u;
    std::int64_t position = by.positions.one_axis ? position_at(by.positions, row) : 0;
#pragma unroll
    for (int i = 0; i < 2 * half; ++i) {
      int pair = i < half ? unit.first + i : unit.second + i - half;
      if (pair >= pairs) pair = 0;
      const std::uint64_t turns = read_only(frequencies.turns + pair);
      if (!by.positions.one_axis) {
        position = position_at(by.positions, read_only(frequencies.axis + pair) * by.positions.rows + row);
      }
      const device::CosSin x = device::cos_sin(position, turns);
      to.cos[i] = __fmul_rn(x.cos, frequencies.factor_float32);
      to.sin[i] = float_of(bits_of(__fmul_rn(x.sin, frequencies.factor_float32)) ^ sign);
    }
  }
}

// ---- the rotation ----

// x is in the order of widen_unit before, and in that of narrow_unit after.
template <DType Type, bool Reads, bool Writes>
__device__ inline void rotate_unit(float (&x)[2 * lanes<Type>], const UnitCosSin<Type>& by) {
  constexpr int count = lanes<Type>;
  float y[2 * count];
#pragma unroll
  for (int i = 0; i < count; ++i) {
    float a = x[Reads ? 2 * i : i], b = x[Reads ? 2 * i + 1 : count + i];
    device::rotate(a, b, {by.cos[i], by.sin[i]});
    y[Writes ? 2 * i : i] = a;
    y[Writes ? 2 * i + 1 : count + i] = b;
  }
#pragma unroll
  for (int i = 0; i < 2 * count; ++i) x[i] = y[i];
}

}  // namespace rotary::gpu
