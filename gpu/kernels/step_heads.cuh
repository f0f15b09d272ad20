// The heads of one row (a token of a batch row): their places to read and write, and the operations on one unit.
#pragma once

#include "step_cache.cuh"
#include "step_norm.cuh"

namespace rotary::gpu {

enum class Qkv : std::uint8_t { q, k, v };

// Values that the host computes once per launch.
struct StepShape {
  std::int64_t rows = 0;       // batch * tokens
  std::int64_t first_row = 0;  // this launch's
  int units = 0;               // per head
  int pair_units = 0;
  int groups = 0;                              // groups of lanes per warp, each for one head
  std::uint32_t q_packets = 0, k_packets = 0;  // step_kernel: a packet is one thread's heads of a token
  FastDivide lanes;                            // per head: units, at most 32
  FastDivide parts;                            // blocks per row, or per group of rows
  bool by_role = false;                        // step_rows_kernel: q, k and v each have `shares` blocks of their own
  std::int64_t shares = 1;
  FastDivide tokens;  // set if rows are fewer than 2^31
  FastDivide page_size;
  Count head_dim, q_row, k_row;        // q_row, k_row: the elements of all heads
  bool reads = false, writes = false;  // interleaved; without pairs both
  FastDivide q_sharing, k_sharing;     // step_kernel: heads that share a row of the table
  bool row_vectors = false;            // the table's rows can be read in 16 bytes
  bool q_weight_vectors = false, k_weight_vectors = false;
};

// One row of q, k or v. Steps from head to head are in bytes.
struct Row {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  std::int64_t in_step = 0, out_step = 0;
  std::int64_t angles = 0;  // place of the token in the table or the positions
  Scale scale;              // for an f8 cache
  bool exists = false;      // whether it has a place to be written
};

// The group of this lane.
struct LaneGroup {
  Group group;
  int number;  // in the warp; shape.groups for the last lanes if they are in no group
};
__device__ inline LaneGroup group_of(const StepShape& shape) {
  std::uint32_t index = threadIdx.x;
  const auto number = static_cast<int>(shape.lanes.split(index));
  const auto count = static_cast<int>(shape.lanes.divisor);
  return {{number * count, static_cast<int>(index), count}, number};
}

// Tells the compiler that a pointer is to global memory. Otherwise accesses through a pointer chosen from several
// become generic ones.
template <class T>
__device__ inline T* global(T* at) {
#ifdef __CUDA_ARCH__
  __builtin_assume(__isGlobal(at));
#endif
  return at;
}

struct BatchToken {
  std::int64_t batch, token;
};
__device__ inline BatchToken split_row(const StepJob& job, const StepShape& shape, std::int64_t row) {
  if (job.batch == 1) return {0, row};
  if (shape.rows >> 31 != 0) return {row / job.tokens, row % job.tokens};
  auto token = static_cast<std::uint32_t>(row);
  const std::uint32_t batch = shape.tokens.split(token);
  return {batch, token};
}

template <DType Type>
__device__ inline void read_side(const Side& side, const BatchToken& at, Row& row) {
  row.in = static_cast<const std::byte*>(side.in) +
           (at.batch * side.in_stride[0] + at.token * side.in_stride[1]) * element_bytes<Type>;
  row.in_step = side.in_stride[2] * element_bytes<Type>;
}

// Makes a row; rows of k and v get their place in the cache later: see send_to_cache.
template <DType Type>
__device__ inline Row row_of(const StepJob& job, const StepShape& shape, Qkv which, std::int64_t index) {
  Row row;
  const BatchToken at = split_row(job, shape, index);
  row.angles = at.batch * job.by.batch_rows + at.token;
  if (which == Qkv::q) {
    read_side<Type>(job.q, at, row);
    row.out = static_cast<std::byte*>(job.q.out) +
              (at.batch * job.q.out_stride[0] + at.token * job.q.out_stride[1]) * element_bytes<Type>;
    row.out_step = job.q.out_stride[2] * element_bytes<Type>;
    row.exists = true;
    return row;
  }
  read_side<Type>(which == Qkv::k ? job.k : job.v, at, row);
  return row;
}

// Sets where a row of k or v is written.
template <DType Type>
__device__ inline void send_to_cache(const StepJob& job, const StepShape& shape, Qkv which, const TokenSlot& slot,
                                     Row& row) {
  const CacheJob& cache = job.cache;
  const CachePlace place = place_of(cache, shape.page_size, slot);
  const int bytes = cache.f8 ? 1 : element_bytes<Type>;
  row.exists = place.exists;
  row.out_step = cache.stride[2] * bytes;
  const std::int64_t offset = place.exists ? (place.page * cache.stride[0] + place.token * cache.stride[1]) * bytes : 0;
  if (which == Qkv::k) {
    row.out = static_cast<std::byte*>(cache.k) + offset;
    row.scale = scale_of(cache.scales != nullptr ? read_only(cache.scales) : cache.k_scale);
  } else {
    row.out = static_cast<std::byte*>(cache.v) + offset;
    row.scale = scale_of(cache.scales != nullptr ? read_only(cache.scales + 1) : cache.v_scale);
  }
}

// The places where a unit's vectors are read and written. v does not rotate and keeps its order.
struct UnitPlaces {
  UnitPairs pairs;
  Places in, out;
  bool rotates;
};
template <DType Type, bool Reads, bool Writes>
__device__ inline UnitPlaces places_of(const StepJob& job, const StepShape& shape, Qkv which, int unit) {
  UnitPlaces at;
  at.rotates = unit < shape.pair_units;
  at.pairs = pairs_of_unit<Type, Reads, Writes>(unit, shape.pair_units);
  if (at.rotates) {
    at.in = places_of_pairs<Reads>(at.pairs, job.pairs);
    at.out = Reads == Writes || which == Qkv::v ? at.in : places_of_pairs<Writes>(at.pairs, job.pairs);
  } else {
    const int rest = job.head_dim - 2 * job.pairs;
    at.in = places_of_rest<Type>(unit - shape.pair_units, shape.units - shape.pair_units, 2 * job.pairs, rest);
    at.out = at.in;
  }
  at.rotates = at.rotates && which != Qkv::v;
  return at;
}

// The row of the table, or of the positions, for a head of q or k.
__device__ inline std::int64_t angles_of(const StepJob& job, Qkv which, const Row& row, std::int64_t head) {
  if (job.by.heads == 1) return row.angles;
  const std::int64_t heads = which == Qkv::q ? job.q.heads : job.k.heads;
  return row.angles * job.by.heads + head / (heads / job.by.heads);
}

// Whether the unit is an unrotated part of q that would be written unchanged to its own place.
__device__ inline bool stays(const StepJob& job, Qkv which, const UnitPlaces& at, bool normed) {
  return which == Qkv::q && job.q.in == job.q.out && !at.rotates && !normed;
}

template <DType Type>
__device__ inline void load_cos_sin(const StepJob& job, const StepShape& shape, std::int64_t angles,
                                    const UnitPlaces& at, UnitCosSin<Type>& to) {
  if (job.by.cos != nullptr) {
    load_cos_sin<Type, true>(job.by, angles, at.pairs, job.pairs, shape.row_vectors, 0, to);
  } else {
    load_cos_sin<Type, false>(job.by, angles, at.pairs, job.pairs, false, 0, to);
  }
}

template <DType Type, bool Reads, bool Writes>
__device__ inline Unit rotated(const Unit& unit, const UnitCosSin<Type>& by) {
  float x[2 * lanes<Type>];
  widen_unit<Type>(unit, x);
  rotate_unit<Type, Reads, Writes>(x, by);
  return narrow_unit<Type>(x);
}

template <DType Type, int Bytes>
__device__ inline void store_unit_of(const StepJob& job, Qkv which, const Scale& scale, std::byte* head,
                                     const Places& at, const Unit& unit) {
  if (job.cache.f8 && which != Qkv::q) {
    store_unit_e4m3<Type, Bytes>(global(head), at, unit, scale);
  } else {
    store_unit<Type, Bytes>(global(head), at, unit);
  }
}

}  // namespace rotary::gpu
