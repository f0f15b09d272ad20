// rotate on the device. A thread rotates one unit of one token in up to four heads of q or of k: it issues all loads of
// data first, then those of the table or the angles, which the heads share.
//
// Bytes in flight: at 3 to 5 TB/s and a latency of some 0.8 microseconds an SM must have 10 to 15 KB of loads in
// flight. A thread has 4 heads * 2 vectors * 16 bytes = 128 bytes; at 80 registers an SM has 768 threads: 96 KB. So the
// memory stays busy even at the end of a grid, when blocks run out.
#include <algorithm>
#include <cstdint>

#include "launch.h"
#include "units.cuh"

namespace rotary::gpu {
namespace {

__host__ __device__ constexpr int heads_at_once(int bytes) { return bytes >= 8 ? 4 : 2; }
constexpr unsigned threads_at_once = 256;  // at most, in a block

struct RotateSide {
  const std::byte* in;
  std::byte* out;
  std::int64_t in_stride[3], out_stride[3];  // by batch, token, head, in bytes
  std::uint32_t heads, groups;               // one thread has heads g, g + groups, g + 2 groups, ...
  int rest, rest_units;
};

// Threads in the order (batch, token, group, unit) or (batch, group, token, unit). A block begins at each multiple of
// per_block.
struct RotateGrid {
  RotateSide q, k;
  RotationArrays by;
  FastDivide head_units, inner, middle;
  std::uint32_t threads, per_block, sign;
  int pairs, units;
  bool tokens_inner;  // tokens of a head are adjacent in memory, not heads of a token
  bool barrier;       // a head is read completely before it is written
  bool vectors;       // rows_of_vectors
};

// The work of one thread: heads that begin at `in` and `out`, each one step after the previous.
struct Share {
  const std::byte* in;
  std::byte* out;
  std::int64_t in_step, out_step;
  std::int64_t row;  // the table's
  std::uint32_t head, groups, heads;
  int unit;
  int rest_unit, rest_units, rest;  // rest_unit below 0: the unit rotates
};

__device__ inline Share share_of(const RotateGrid& grid, std::uint32_t thread) {
  Share share;
  std::uint32_t unit = thread;
  std::uint32_t inner = grid.head_units.split(unit);
  std::uint32_t middle = grid.inner.split(inner);
  const std::int64_t batch = grid.middle.split(middle);
  const std::int64_t token = grid.tokens_inner ? inner : middle;
  std::uint32_t group = grid.tokens_inner ? middle : inner;
  const bool of_k = group >= grid.q.groups;
  if (of_k) group -= grid.q.groups;

  share.head = group;
  share.groups = of_k ? grid.k.groups : grid.q.groups;
  share.heads = of_k ? grid.k.heads : grid.q.heads;
  const std::int64_t in_head = of_k ? grid.k.in_stride[2] : grid.q.in_stride[2];
  const std::int64_t out_head = of_k ? grid.k.out_stride[2] : grid.q.out_stride[2];
  share.in = (of_k ? grid.k.in : grid.q.in) + batch * (of_k ? grid.k.in_stride[0] : grid.q.in_stride[0]) +
             token * (of_k ? grid.k.in_stride[1] : grid.q.in_stride[1]) + group * in_head;
  share.out = (of_k ? grid.k.out : grid.q.out) + batch * (of_k ? grid.k.out_stride[0] : grid.q.out_stride[0]) +
              token * (of_k ? grid.k.out_stride[1] : grid.q.out_stride[1]) + group * out_head;
  share.in_step = share.groups * in_head;
  share.out_step = share.groups * out_head;
  share.row = batch * grid.by.batch_rows + token;
  if (grid.by.heads > 1) {
    const auto rows = static_cast<std::uint32_t>(grid.by.heads);
    share.row = share.row * rows + group / (share.heads / rows);
  }
  share.unit = static_cast<int>(unit);
  share.rest_unit = share.unit - grid.units;
  share.rest_units = of_k ? grid.k.rest_units : grid.q.rest_units;
  share.rest = of_k ? grid.k.rest : grid.q.rest;
  if (share.rest_unit >= share.rest_units) share.heads = 0;  // only the other tensor has more units
  return share;
}

template <DType Type, int Bytes, bool Reads, bool Writes, bool WithTable>  // Reads, Writes: interleaved
__global__ void __launch_bounds__(threads_at_once) rotate_kernel(const RotateGrid grid) {
  const std::uint32_t thread = blockIdx.x * grid.per_block + threadIdx.x;
  const bool idle = threadIdx.x >= grid.per_block || thread >= grid.threads;
  Share share = share_of(grid, idle ? 0 : thread);
  if (idle) share.heads = 0;

  const bool rotates = share.rest_unit < 0;
  const UnitPairs own = pairs_of_unit<Type, Reads, Writes>(share.unit, grid.units);
  Places from = places_of_pairs<Reads>(own, grid.pairs), to = places_of_pairs<Writes>(own, grid.pairs);
  if (!rotates) {
    from = to = places_of_rest<Type>(share.rest_unit, share.rest_units, 2 * grid.pairs, share.rest);
  }
  wait_for_earlier_kernels();
  if (Reads == Writes && idle) return;

  constexpr std::uint32_t heads = heads_at_once(Bytes);
  Unit unit[heads];
#pragma unroll
  for (std::uint32_t h = 0; h < heads; ++h) {
    if (share.head + h * share.groups < share.heads) unit[h] = load_unit<Type, Bytes>(share.in, from);
    share.in += share.in_step;
  }
  UnitCosSin<Type> by;
  if (rotates) {
    load_cos_sin<Type, WithTable>(grid.by, share.row, own, grid.pairs, grid.vectors, grid.sign, by);
  }
  if constexpr (Reads != Writes) {
    if (grid.barrier) __syncthreads();
  }
#pragma unroll
  for (std::uint32_t h = 0; h < heads; ++h) {
    if (share.head + h * share.groups >= share.heads) break;
    if (rotates) {
      float x[2 * lanes<Type>];
      widen_unit<Type>(unit[h], x);
      rotate_unit<Type, Reads, Writes>(x, by);
      unit[h] = narrow_unit<Type>(x);
    }
    store_unit<Type, Bytes>(share.out, to, unit[h]);
    share.out += share.out_step;
  }
}

// ---- which kernel ----

using Kernel = void (*)(const RotateGrid);

template <DType Type, int Bytes, bool Reads, bool Writes>
Kernel kernel_of(bool with_table) {
  return with_table ? rotate_kernel<Type, Bytes, Reads, Writes, true>
                    : rotate_kernel<Type, Bytes, Reads, Writes, false>;
}

template <DType Type, int Bytes>
Kernel kernel_of(const RotateJob& job) {
  const bool table = job.by.cos != nullptr;
  if (job.read_interleaved) {
    return job.write_interleaved ? kernel_of<Type, Bytes, true, true>(table)
                                 : kernel_of<Type, Bytes, true, false>(table);
  }
  return job.write_interleaved ? kernel_of<Type, Bytes, false, true>(table)
                               : kernel_of<Type, Bytes, false, false>(table);
}

template <DType Type>
Kernel kernel_of(const RotateJob& job, int bytes) {
  if (bytes == 16) return kernel_of<Type, 16>(job);
  if (bytes == 8) return kernel_of<Type, 8>(job);
  return kernel_of<Type, element_bytes<Type>>(job);
}

Kernel kernel_of(const RotateJob& job, int bytes) {
  return with_dtype(job.dtype, [&](auto type) -> Kernel { return kernel_of<type()>(job, bytes); });
}

// ---- which grid ----

bool in_place(const Side& side) { return side.heads > 0 && side.in == side.out; }

std::uint64_t alignment(const Side& side, const RotateJob& job, int element) {
  if (side.heads == 0) return 0;
  const std::int64_t sizes[3] = {job.batch, job.tokens, side.heads};
  return alignment_of(side.in, side.in_stride, sizes, element) |
         alignment_of(side.out, side.out_stride, sizes, element);
}

// a * b, at most max.
std::int64_t product(std::int64_t a, std::int64_t b, std::int64_t max) { return b > 0 && a > max / b ? max : a * b; }

constexpr std::int64_t max_threads = std::int64_t{1} << 31;  // FastDivide holds below it

std::int64_t threads_of(const RotateJob& job, std::int64_t head_units, std::int64_t heads_of_a_thread) {
  const std::int64_t groups = ceil_div(job.q.heads, heads_of_a_thread) + ceil_div(job.k.heads, heads_of_a_thread);
  return product(product(product(job.batch, job.tokens, max_threads), groups, max_threads), head_units, max_threads);
}

// The heads per thread: fewer if there are few threads, because a short call waits for the longest thread; one if heads
// have their own rows.
std::int64_t heads_of_a_thread(const RotateJob& job, std::int64_t head_units, int max) {
  if (job.by.heads > 1) return 1;
  for (int heads = max; heads > 1; heads /= 2) {
    if (threads_of(job, head_units, heads) >= enough_threads) return heads;
  }
  return 1;
}

RotateSide side_of(const Side& side, const RotateJob& job, int element, std::int64_t heads_each, int rest_units) {
  RotateSide to = {};
  to.in = static_cast<const std::byte*>(side.in);
  to.out = static_cast<std::byte*>(side.out);
  const std::int64_t sizes[3] = {job.batch, job.tokens, side.heads};
  for (int d = 0; d < 3; ++d) {
    if (sizes[d] < 2) continue;  // the stride is unspecified
    to.in_stride[d] = side.in_stride[d] * element;
    to.out_stride[d] = side.out_stride[d] * element;
  }
  to.heads = static_cast<std::uint32_t>(side.heads);
  to.groups = static_cast<std::uint32_t>(ceil_div(side.heads, heads_each));
  to.rest = side.rest;
  to.rest_units = rest_units;
  return to;
}

int rest_units_of(const Side& side, int element) {
  return side.heads == 0 ? 0 : static_cast<int>(ceil_div(side.rest, 32 / element));
}

// ---- splitting calls of too many threads ----

Side part_of(Side side, int element, int dimension, std::int64_t begin) {
  if (side.heads == 0) return side;
  side.in = static_cast<const std::byte*>(side.in) + begin * side.in_stride[dimension] * element;
  side.out = static_cast<std::byte*>(side.out) + begin * side.out_stride[dimension] * element;
  return side;
}

template <class T>
void advance(const T*& values, std::int64_t by) {
  if (values != nullptr) values += by;
}

// Moves the job's beginning to batch row or token `begin`.
void skip(RotateJob& job, int element, int dimension, std::int64_t begin) {
  job.q = part_of(job.q, element, dimension, begin);
  job.k = part_of(job.k, element, dimension, begin);
  const std::int64_t rows = dimension == 0 ? begin * job.by.batch_rows : begin;
  advance(job.by.cos, rows * job.by.heads * job.pairs);
  advance(job.by.sin, rows * job.by.heads * job.pairs);
  advance(job.by.positions.i64, rows);
  advance(job.by.positions.i32, rows);
}

void launch_halves(const RotateJob& job, int element, Stream stream) {
  RotateJob first = job, second = job;
  if (job.batch > 1 || job.tokens > 1) {
    const int dimension = job.batch > 1 ? 0 : 1;
    std::int64_t RotateJob::*const size = job.batch > 1 ? &RotateJob::batch : &RotateJob::tokens;
    first.*size = job.*size / 2;
    second.*size = job.*size - first.*size;
    skip(second, element, dimension, first.*size);
  } else if (job.q.heads > 0 && job.k.heads > 0) {
    first.k.heads = 0;
    second.q.heads = 0;
  } else {
    Side RotateJob::*const side = job.q.heads > 0 ? &RotateJob::q : &RotateJob::k;
    (first.*side).heads = (job.*side).heads / 2;
    (second.*side) = part_of(job.*side, element, 2, (first.*side).heads);
    (second.*side).heads = (job.*side).heads - (first.*side).heads;
  }
  launch_rotate(first, stream);
  launch_rotate(second, stream);
}

}  // namespace

// interleaved_to_half and its backward in place: a block reads its whole heads before it writes them, so a head may
// have at most threads_at_once units.
void launch_rotate(const RotateJob& job, Stream stream) {
  const int element = rotary::detail::bytes_of(job.dtype);
  const bool crosses = job.read_interleaved != job.write_interleaved;
  const bool barrier = crosses && (in_place(job.q) || in_place(job.k));
  if (barrier && job.q.heads > 0 && job.k.heads > 0 && in_place(job.q) != in_place(job.k)) {
    RotateJob q = job, k = job;
    q.k.heads = k.q.heads = 0;
    launch_rotate(q, stream);
    return launch_rotate(k, stream);
  }
  const int units = static_cast<int>(ceil_div(job.pairs, 16 / element));
  const int q_rest = rest_units_of(job.q, element), k_rest = rest_units_of(job.k, element);
  const std::int64_t head_units = std::int64_t{units} + std::max(q_rest, k_rest);
  const int rest = (job.q.heads > 0 ? job.q.rest : 0) | (job.k.heads > 0 ? job.k.rest : 0);
  const std::uint64_t aligned = alignment(job.q, job, element) | alignment(job.k, job, element);
  const int bytes = access_bytes(job.dtype, job.read_interleaved, job.write_interleaved, job.pairs, rest, aligned);
  const std::int64_t heads_each = heads_of_a_thread(job, head_units, heads_at_once(bytes));
  const std::int64_t threads = threads_of(job, head_units, heads_each);
  if (threads == 0) return;
  if (threads >= max_threads || std::max(job.q.heads, job.k.heads) >= max_threads) {
    return launch_halves(job, element, stream);
  }

  RotateGrid grid = {};
  grid.q = side_of(job.q, job, element, heads_each, q_rest);
  grid.k = side_of(job.k, job, element, heads_each, k_rest);
  grid.by = job.by;
  const Side& written = job.q.heads > 0 ? job.q : job.k;
  grid.tokens_inner = job.tokens > 1 && written.heads > 1 && written.out_stride[1] < written.out_stride[2];
  const auto tokens = static_cast<std::uint32_t>(job.tokens);
  const std::uint32_t groups = grid.q.groups + grid.k.groups;
  grid.head_units = FastDivide(static_cast<std::uint32_t>(head_units));
  grid.inner = FastDivide(grid.tokens_inner ? tokens : groups);
  grid.middle = FastDivide(grid.tokens_inner ? groups : tokens);
  grid.threads = static_cast<std::uint32_t>(threads);
  grid.sign = job.backward ? 0x80000000u : 0;
  grid.pairs = job.pairs;
  grid.units = units;
  grid.barrier = barrier;
  grid.vectors = rows_of_vectors(job.by, job.pairs);

  const unsigned block = barrier ? threads_at_once : threads_at_once / 2;  // small blocks shorten the end of the grid
  grid.per_block = barrier ? block / grid.head_units.divisor * grid.head_units.divisor : block;
  launch(kernel_of(job, bytes), dim3(ceil_div(grid.threads, grid.per_block)), dim3(block), stream, grid);
}

}  // namespace rotary::gpu
