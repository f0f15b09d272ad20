// The two kernels of launch_step. step_kernel keeps units in registers: a group of lanes of a warp has a head, and all
// accesses are of 16 bytes. step_rows_kernel, with a block for each row, does everything else.
#pragma once

#include "step_heads.cuh"

namespace rotary::gpu {

// The largest number of heads of one token per thread of step_kernel: four of f32, two of a 16-bit type. With more, the
// registers would limit the number of resident warps.
template <DType Type>
inline constexpr int max_packet_heads = element_bytes<Type>;
inline constexpr int register_threads = 128;
inline constexpr int row_threads = 256;
// The blocks of step_kernel with norms that a multiprocessor is to hold at once: as many as fit without spills.
template <DType Type, bool Interleaved>
inline constexpr int norm_blocks = Type == DType::f32&& Interleaved ? 5 : 6;

// Heads [head, head + count) of q, k or v.
struct Work {
  Qkv which;
  std::int64_t head;
  int count;
};
// The packets of q come first, then those of k, then those of v.
template <int PacketHeads>
__device__ inline Work work_of(const StepJob& job, const StepShape& shape, std::uint32_t packet) {
  Qkv which = Qkv::q;
  std::int64_t heads = job.q.heads;
  if (packet >= shape.q_packets + shape.k_packets) {
    which = Qkv::v, heads = job.v.heads, packet -= shape.q_packets + shape.k_packets;
  } else if (packet >= shape.q_packets) {
    which = Qkv::k, heads = job.k.heads, packet -= shape.q_packets;
  }
  const std::int64_t head = std::int64_t{packet} * PacketHeads;
  return {which, head, static_cast<int>(min(heads - head, std::int64_t{PacketHeads}))};
}

// Keeps the compiler from holding values that were widened for the sum until the product, in registers that other
// blocks need.
__device__ inline void widen_again([[maybe_unused]] uint4& raw) {
#ifdef __CUDA_ARCH__
  asm volatile("" : "+r"(raw.x), "+r"(raw.y), "+r"(raw.z), "+r"(raw.w));
#endif
}

template <DType Type, int PacketHeads>
__device__ inline void norm_units(Unit (&units)[PacketHeads], const NormJob& norm, const Count& head_dim,
                                  const Group& group, const Holders& holders, const RawWeights<Type>& raw) {
  float sums[PacketHeads];
  sums_of_units<Type>(units, group, holders, sums);
  UnitWeights<Type> weights = {};
  widen_weights(norm, raw, weights);
#pragma unroll
  for (int i = 0; i < PacketHeads; ++i) {
    widen_again(units[i].first);
    widen_again(units[i].second);
    units[i] = normed<Type>(units[i], inverse_of(sums[i], head_dim, norm.eps), norm, weights);
  }
}

// A block takes one packet of heads, each warp the packet of `groups` rows, each lane one unit of all the packet's
// heads. So only branches by unit and row diverge within a block. All loads are issued before the first use, and so k
// and v of skipped tokens are loaded too. Norms: whether any norm is on.
template <DType Type, bool Reads, bool Writes, int PacketHeads, bool Norms>
__global__ void __launch_bounds__(register_threads, Norms ? norm_blocks<Type, Reads && Writes> : 0)
    step_kernel(const StepJob job, const StepShape shape) {
  const auto [group, number] = group_of(shape);
  std::uint32_t packet = blockIdx.x;
  const std::int64_t block = shape.parts.split(packet);
  const Work work = work_of<PacketHeads>(job, shape, packet);
  const std::int64_t first_row = shape.first_row + (block * blockDim.y + threadIdx.y) * shape.groups;
  const bool is_q = work.which == Qkv::q;
  const NormJob& norm = is_q ? job.q_norm : job.k_norm;
  const bool norms = Norms && work.which != Qkv::v && norm.on;
  const UnitPlaces at = places_of<Type, Reads, Writes>(job, shape, work.which, group.index);
  wait_for_earlier_kernels();
  if (first_row >= shape.rows) return;  // the whole warp

  const bool inside = number < shape.groups && first_row + number < shape.rows;
  const std::int64_t index = first_row + (inside ? number : 0);
  TokenSlot slot = {};
  if (!is_q) slot = slot_of(job.cache.slots, index);
  Row row = row_of<Type>(job, shape, work.which, index);
  if constexpr (PacketHeads == 1) {
    auto head = static_cast<std::uint32_t>(work.head);
    row.angles = row.angles * job.by.heads + (is_q ? shape.q_sharing : shape.k_sharing).split(head);
  }
  const bool moves = inside && !stays(job, work.which, at, norms);

  Unit units[PacketHeads] = {};
  row.in += work.head * row.in_step;
#pragma unroll
  for (int i = 0; i < PacketHeads; ++i) {
    if (moves && i < work.count) units[i] = load_unit<Type, 16>(global(row.in), at.in);
    row.in += row.in_step;
  }
  RawWeights<Type> weights = {};
  if (norms) load_weights<Type>(norm, 0, at.in, is_q ? shape.q_weight_vectors : shape.k_weight_vectors, weights);
  UnitCosSin<Type> by = {};
  if (moves && at.rotates) load_cos_sin<Type>(job, shape, row.angles, at, by);
  if (!is_q) send_to_cache<Type>(job, shape, work.which, slot, row);
  if (norms) {
    const Holders holders = holders_of<Type, Reads != Writes>(group, job.pairs, job.head_dim);
    norm_units<Type>(units, norm, shape.head_dim, group, holders, weights);
  }
  if (!moves || !row.exists) return;
  row.out += work.head * row.out_step;
#pragma unroll
  for (int i = 0; i < PacketHeads; ++i) {
    if (i >= work.count) break;
    if (at.rotates) units[i] = rotated<Type, Reads, Writes>(units[i], by);
    store_unit_of<Type, 16>(job, work.which, row.scale, row.out, at.out, units[i]);
    row.out += row.out_step;
  }
}

// ---- any head ----

// The sum over all heads of a row, for every thread of the block.
template <DType Type, int Bytes>
__device__ inline float sum_across(const Row& row, std::int64_t heads, int head_dim, const Group& group, int first,
                                   int step) {
  __shared__ float sums[row_threads];
  float total = 0;
  for (std::int64_t base = 0; base < heads; base += row_threads) {
    const int count = static_cast<int>(min(heads - base, std::int64_t{row_threads}));
    for (int warp_head = 0; warp_head < count; warp_head += step) {
      const int head = warp_head + first;
      const bool active = first < step && head < count;
      const float sum =
          sum_of_memory<Type, Bytes>(global(row.in + (base + head) * row.in_step), head_dim, active, group);
      if (active && group.index == 0) sums[head] = sum;
    }
    __syncthreads();
    for (int i = 0; i < count; ++i) total = __fadd_rn(total, sums[i]);
    __syncthreads();
  }
  return total;
}

// Norms, rotates and stores one head of any size; the lanes of its group take its units in turn.
template <DType Type, int Bytes, bool Reads, bool Writes>
__device__ inline void step_head(const StepJob& job, const StepShape& shape, Qkv which, const NormJob& norm, bool norms,
                                 const Row& row, std::int64_t head, const Group& group, float inverse) {
  const std::byte* in = global(row.in + head * row.in_step);
  std::byte* out = row.out + head * row.out_step;
  const bool vectors = which == Qkv::q ? shape.q_weight_vectors : shape.k_weight_vectors;
  for (int index = group.index; index < shape.units; index += group.count) {
    const UnitPlaces at = places_of<Type, Reads, Writes>(job, shape, which, index);
    if (stays(job, which, at, norms)) continue;
    Unit unit = load_unit<Type, Bytes>(in, at.in);
    if (norms) {
      RawWeights<Type> raw = {};
      load_weights<Type>(norm, norm.across_heads ? head * job.head_dim : 0, at.in, vectors, raw);
      UnitWeights<Type> weights = {};
      widen_weights(norm, raw, weights);
      unit = normed<Type>(unit, inverse, norm, weights);
    }
    if (at.rotates) {
      UnitCosSin<Type> by = {};
      load_cos_sin<Type>(job, shape, angles_of(job, which, row, head), at, by);
      unit = rotated<Type, Reads, Writes>(unit, by);
    }
    store_unit_of<Type, Bytes>(job, which, row.scale, out, at.out, unit);
  }
}

// A block takes a row or, if rows are few, a share of the heads of its q, k or v. Norms across heads are slow: one
// block then has all of a row's q, or all of its k, and reads the heads twice, first for the sum.
template <DType Type, int Bytes>
__global__ void __launch_bounds__(row_threads, 2) step_rows_kernel(const StepJob job, const StepShape shape) {
  const auto [group, number] = group_of(shape);
  const int step = static_cast<int>(blockDim.y) * shape.groups;
  const int first = number < shape.groups ? static_cast<int>(threadIdx.y) * shape.groups + number : step;
  std::uint32_t part = blockIdx.x;
  const std::int64_t index_of_row = shape.first_row + shape.parts.split(part);
  const int only = shape.by_role ? static_cast<int>(part % 3) : -1;
  const std::int64_t share = shape.by_role ? part / 3 : 0;
  wait_for_earlier_kernels();
#pragma unroll 1
  for (int r = 0; r < 3; ++r) {
    if (only >= 0 && r != only) continue;
    const Qkv which = static_cast<Qkv>(r);
    const std::int64_t heads = which == Qkv::q ? job.q.heads : which == Qkv::k ? job.k.heads : job.v.heads;
    if (heads == 0) continue;
    Row row = row_of<Type>(job, shape, which, index_of_row);
    if (which != Qkv::q) {
      send_to_cache<Type>(job, shape, which, slot_of(job.cache.slots, index_of_row), row);
    }
    if (!row.exists) continue;  // the whole block
    const NormJob& norm = which == Qkv::q ? job.q_norm : job.k_norm;
    const bool norms = which != Qkv::v && norm.on, across = norms && norm.across_heads;
    const Count count = !across ? shape.head_dim : which == Qkv::q ? shape.q_row : shape.k_row;
    float sum = across ? sum_across<Type, Bytes>(row, heads, job.head_dim, group, first, step) : 0;
    for (std::int64_t base = share * step; base < heads; base += shape.shares * step) {
      const std::int64_t head = base + first;
      const bool active = first < step && head < heads;
      if (norms && !across) {
        sum = sum_of_memory<Type, Bytes>(global(row.in + head * row.in_step), job.head_dim, active, group);
      }
      const float inverse = norms ? inverse_of(sum, count, norm.eps) : 0;
      if (!active) continue;
      if (shape.reads != shape.writes) {
        step_head<Type, Bytes, true, false>(job, shape, which, norm, norms, row, head, group, inverse);
      } else if (shape.reads) {
        step_head<Type, Bytes, true, true>(job, shape, which, norm, norms, row, head, group, inverse);
      } else {
        step_head<Type, Bytes, false, false>(job, shape, which, norm, norms, row, head, group, inverse);
      }
    }
  }
}

}  // namespace rotary::gpu
