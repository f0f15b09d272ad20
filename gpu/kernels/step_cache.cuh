// The place of a token in a paged cache, and elements of 8 bits.
#pragma once

#include "units.cuh"

namespace rotary::gpu {

struct CachePlace {
  std::int64_t page, token;
  bool exists;
};

// page_size is cache.page_size.
__device__ inline CachePlace place_of_slot(const CacheJob& cache, const FastDivide& page_size, std::int64_t slot) {
  if (slot < 0) return {0, 0, false};
  if (slot >> 31 != 0) {
    const std::int64_t page = slot / cache.page_size;
    return {page, slot - page * cache.page_size, page < cache.pages};
  }
  auto token = static_cast<std::uint32_t>(slot);
  const std::uint32_t page = page_size.split(token);
  return {page, token, page < cache.pages};
}

// A token's values of Slots. They are loaded before its heads and used after the heads are loaded, so that neither load
// waits for the other.
struct TokenSlot {
  std::int64_t slot;
  int sequence, position;
};
__device__ inline TokenSlot slot_of(const Slots& slots, std::int64_t row) {
  if (slots.slot != nullptr) return {static_cast<std::int64_t>(read_only(slots.slot + row)), 0, 0};
  return {0, read_only(slots.batch_indices + row), read_only(slots.positions + row)};
}

__device__ inline CachePlace place_of(const CacheJob& cache, const FastDivide& page_size, const TokenSlot& at) {
  const Slots& slots = cache.slots;
  if (slots.slot != nullptr) return place_of_slot(cache, page_size, at.slot);
  if (at.sequence < 0 || at.sequence >= slots.sequences || at.position < 0) return {0, 0, false};
  auto token = static_cast<std::uint32_t>(at.position);
  const std::uint32_t page = page_size.split(token);
  const std::int64_t entry = std::int64_t{read_only(slots.indptr + at.sequence)} + page;
  if (entry < 0 || entry >= read_only(slots.indptr + at.sequence + 1)) return {0, 0, false};
  const int index = read_only(slots.indices + entry);
  return {index, token, index >= 0 && index < cache.pages};
}

// The divisor of the values. If it is a power of two, the product with its reciprocal has the bits of the quotient.
struct Scale {
  float scale = 1, reciprocal = 1;  // reciprocal 0: scale is not a power of two
};
__device__ inline Scale scale_of(float scale) {
  const std::uint32_t exponent = bits_of(scale) >> 23;  // the scale is positive
  const bool power = (bits_of(scale) & 0x7fffffu) == 0 && exponent > 0 && exponent < 254;
  return {scale, power ? float_of((254 - exponent) << 23) : 0.0f};
}

// ---- e4m3: a vector of `lanes` elements becomes as many bytes ----

template <DType Type>
__device__ inline uint2 narrow_vector_e4m3(const uint4& raw, const Scale& by) {
  float x[8] = {};
  widen<Type>(raw, x);
  if (by.reciprocal != 0) {
#pragma unroll
    for (int i = 0; i < lanes<Type>; ++i) x[i] = __fmul_rn(x[i], by.reciprocal);
  } else {
#pragma unroll
    for (int i = 0; i < lanes<Type>; ++i) x[i] = __fdiv_rn(x[i], by.scale);
  }
  std::uint32_t word[2] = {};
#pragma unroll
  for (int i = 0; i < lanes<Type>; i += 2) word[i / 4] |= std::uint32_t{narrow_e4m3(x[i], x[i + 1])} << (i % 4 * 8);
  return make_uint2(word[0], word[1]);
}

// Bytes: the width of an access to elements of the heads; an access here writes as many elements in fewer bytes.
template <DType Type, int Bytes>
__device__ inline void store_vector_e4m3(std::byte* at, int count, const uint2& raw) {
  constexpr int step = Bytes / element_bytes<Type>;
  const std::uint32_t word[2] = {raw.x, raw.y};
#pragma unroll
  for (int i = 0; i < lanes<Type>; i += step) {
    if (count <= i) continue;
    if constexpr (step == 8) {
      *reinterpret_cast<uint2*>(at) = raw;
    } else if constexpr (step == 4) {
      *reinterpret_cast<std::uint32_t*>(at + i) = word[i / 4];
    } else if constexpr (step == 2) {
      *reinterpret_cast<std::uint16_t*>(at + i) = static_cast<std::uint16_t>(word[i / 4] >> (i % 4 * 8));
    } else {
      at[i] = static_cast<std::byte>(word[i / 4] >> (i % 4 * 8));
    }
  }
}

template <DType Type, int Bytes>
__device__ inline void store_unit_e4m3(std::byte* head, const Places& at, const Unit& unit, const Scale& by) {
  store_vector_e4m3<Type, Bytes>(head + at.first, at.first_count, narrow_vector_e4m3<Type>(unit.first, by));
  store_vector_e4m3<Type, Bytes>(head + at.second, at.second_count, narrow_vector_e4m3<Type>(unit.second, by));
}

}  // namespace rotary::gpu
