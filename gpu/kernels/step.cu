// launch_step. rms_norm, append, rotate_append and norm_rotate_append are one pass with parts of it switched off.
#include <algorithm>

#include "launch.h"
#include "step_kernels.cuh"

namespace rotary::gpu {
namespace {

constexpr std::int64_t max_blocks = (std::int64_t{1} << 31) - 1;

bool across(const StepJob& job) {
  return (job.q.heads > 0 && job.q_norm.on && job.q_norm.across_heads) ||
         (job.k.heads > 0 && job.k_norm.on && job.k_norm.across_heads);
}

std::uint64_t bits_of_address(const void* address) { return reinterpret_cast<std::uintptr_t>(address); }

// The bitwise or of all addresses and strides in bytes. An f8 cache is counted as if its elements had the size of the
// heads'.
std::uint64_t alignment(const StepJob& job) {
  const int element = rotary::detail::bytes_of(job.dtype);
  std::uint64_t bits = 0;
  const auto take = [&](const Side& side, const void* address, const std::int64_t(&stride)[3]) {
    if (side.heads > 0) bits |= alignment_of(address, stride, {job.batch, job.tokens, side.heads}, element);
  };
  take(job.q, job.q.in, job.q.in_stride);
  take(job.q, job.q.out, job.q.out_stride);
  take(job.k, job.k.in, job.k.in_stride);
  take(job.v, job.v.in, job.v.in_stride);
  if (job.k.heads > 0 || job.v.heads > 0) {
    const auto times = static_cast<std::uint64_t>(job.cache.f8 ? element : 1);
    for (const std::int64_t stride : job.cache.stride)
      bits |= static_cast<std::uint64_t>(stride) * static_cast<std::uint64_t>(element);
    if (job.k.heads > 0) bits |= bits_of_address(job.cache.k) * times;
    if (job.v.heads > 0) bits |= bits_of_address(job.cache.v) * times;
  }
  return bits;
}

// Whether the weights of one vector of a head can be read by vectors of at most 16 bytes.
bool weight_vectors(const NormJob& norm, DType heads) {
  const int bytes = std::min(16, 16 / rotary::detail::bytes_of(heads) * rotary::detail::bytes_of(norm.dtype));
  return norm.weight != nullptr && bits_of_address(norm.weight) % static_cast<std::uint64_t>(bytes) == 0;
}

StepShape shape_of(const StepJob& job) {
  const int vector = 16 / rotary::detail::bytes_of(job.dtype);
  StepShape shape;
  shape.reads = job.read_interleaved || job.pairs == 0;
  shape.writes = job.write_interleaved || job.pairs == 0;
  shape.rows = job.batch * job.tokens;
  shape.pair_units = ceil_div(job.pairs, vector);
  shape.units = shape.pair_units + ceil_div(job.head_dim - 2 * job.pairs, 2 * vector);
  shape.lanes = FastDivide(static_cast<std::uint32_t>(std::min(shape.units, 32)));
  shape.groups = 32 / static_cast<int>(shape.lanes.divisor);
  shape.page_size = FastDivide(static_cast<std::uint32_t>(job.cache.page_size));
  shape.head_dim = Count(job.head_dim);
  shape.q_row = Count(job.q.heads * job.head_dim);
  shape.k_row = Count(job.k.heads * job.head_dim);
  if (shape.rows >> 31 == 0) shape.tokens = FastDivide(static_cast<std::uint32_t>(job.tokens));
  shape.row_vectors = job.pairs > 0 && job.by.cos != nullptr && rows_of_vectors(job.by, job.pairs);
  return shape;
}

// Sets the packets of q and k; returns the number of all packets.
std::int64_t set_packets(StepShape& shape, const StepJob& job, int heads_per_packet) {
  const std::int64_t q = ceil_div(job.q.heads, heads_per_packet), k = ceil_div(job.k.heads, heads_per_packet);
  shape.q_packets = static_cast<std::uint32_t>(q);
  shape.k_packets = static_cast<std::uint32_t>(k);
  return q + k + ceil_div(job.v.heads, heads_per_packet);
}

using Kernel = void (*)(const StepJob, const StepShape);

template <DType Type, int PacketHeads, bool Norms>
Kernel in_registers(const StepShape& shape) {
  if (shape.reads != shape.writes) return step_kernel<Type, true, false, PacketHeads, Norms>;
  return shape.reads ? step_kernel<Type, true, true, PacketHeads, Norms>
                     : step_kernel<Type, false, false, PacketHeads, Norms>;
}
template <DType Type, int PacketHeads>
Kernel in_registers(const StepShape& shape, bool norms) {
  return norms ? in_registers<Type, PacketHeads, true>(shape) : in_registers<Type, PacketHeads, false>(shape);
}
template <DType Type>
Kernel in_registers(const StepShape& shape, bool norms, bool several) {
  return several ? in_registers<Type, max_packet_heads<Type>>(shape, norms) : in_registers<Type, 1>(shape, norms);
}
Kernel in_registers(DType dtype, const StepShape& shape, bool norms, bool several) {
  return with_dtype(dtype, [&](auto type) -> Kernel { return in_registers<type()>(shape, norms, several); });
}

template <DType Type>
Kernel by_row(int bytes) {
  if (bytes == 16) return step_rows_kernel<Type, 16>;
  return bytes == 8 ? step_rows_kernel<Type, 8> : step_rows_kernel<Type, element_bytes<Type>>;
}
Kernel by_row(DType dtype, int bytes) {
  return with_dtype(dtype, [&](auto type) -> Kernel { return by_row<type()>(bytes); });
}

// Every `groups` rows have `parts` blocks. Launches as many grids of at most max_blocks blocks as that takes.
void launch_rows(Kernel kernel, const StepJob& job, StepShape& shape, std::int64_t groups, std::int64_t parts,
                 unsigned warps, Stream stream) {
  shape.parts = FastDivide(static_cast<std::uint32_t>(parts));
  const std::int64_t at_once = max_blocks / parts;
  for (std::int64_t left = ceil_div(shape.rows, groups); left > 0; left -= at_once) {
    const auto blocks = static_cast<unsigned>(std::min(left, at_once) * parts);
    launch(kernel, dim3(blocks), dim3(32, warps), stream, job, shape);
    shape.first_row += at_once * groups;
  }
}

void launch_in_registers(const StepJob& job, StepShape& shape, Stream stream) {
  const std::int64_t warps_of_rows = ceil_div(shape.rows, shape.groups);
  const int max = with_dtype(job.dtype, [](auto type) { return max_packet_heads<type()>; });
  std::int64_t packets = set_packets(shape, job, max);
  const bool several = job.by.heads == 1 && warps_of_rows * packets * 32 >= enough_threads;
  if (!several) packets = set_packets(shape, job, 1);
  const auto sharing = [&](const Side& side) {
    return FastDivide(static_cast<std::uint32_t>(std::max<std::int64_t>(1, side.heads / job.by.heads)));
  };
  shape.q_sharing = sharing(job.q);
  shape.k_sharing = sharing(job.k);
  const bool norms = (job.q.heads > 0 && job.q_norm.on) || (job.k.heads > 0 && job.k_norm.on);
  const std::int64_t warps = std::min<std::int64_t>(register_threads / 32, warps_of_rows);
  launch_rows(in_registers(job.dtype, shape, norms, several), job, shape, warps * shape.groups, packets,
              static_cast<unsigned>(warps), stream);
}

void launch_by_row(const StepJob& job, StepShape& shape, int bytes, Stream stream) {
  constexpr int warps = row_threads / 32;
  const std::int64_t heads = std::max({job.q.heads, job.k.heads, job.v.heads});
  shape.by_role = shape.rows * row_threads < 2 * enough_threads;
  if (shape.by_role && !across(job)) shape.shares = std::min(ceil_div(heads, warps * shape.groups), max_blocks / 3);
  launch_rows(by_row(job.dtype, bytes), job, shape, 1, shape.by_role ? 3 * shape.shares : 1, warps, stream);
}

}  // namespace

void launch_step(const StepJob& job, Stream stream) {
  if (job.batch * job.tokens == 0 || job.head_dim == 0 || job.q.heads + job.k.heads + job.v.heads == 0) return;
  StepShape shape = shape_of(job);
  const int rest = job.head_dim - 2 * job.pairs;
  const int bytes = access_bytes(job.dtype, shape.reads, shape.writes, job.pairs, rest, alignment(job));
  shape.q_weight_vectors = bytes == 16 && weight_vectors(job.q_norm, job.dtype);
  shape.k_weight_vectors = bytes == 16 && weight_vectors(job.k_norm, job.dtype);
  const bool fits = job.q.heads + job.k.heads + job.v.heads <= max_blocks;  // a block has at least one head
  if (bytes == 16 && shape.units <= 32 && fits && !across(job)) {
    launch_in_registers(job, shape, stream);
  } else {
    launch_by_row(job, shape, bytes, stream);
  }
}

}  // namespace rotary::gpu
