// shift on the device: a thread has one unit of one head and moves it from token keep + drop + r to keep + r, then from
// keep + 2 drop + r to keep + drop + r, and so on. No other thread reads or writes these elements, so that
// nothing has to wait and every place is read before it is written.
#include <algorithm>
#include <cstdint>

#include "launch.h"
#include "units.cuh"

namespace rotary::gpu {
namespace {

constexpr unsigned threads_of_block = 256;
constexpr std::int64_t max_blocks = std::int64_t{1} << 20;  // their threads loop

// Null: there is no such page.
__device__ inline std::byte* head_at(const ShiftJob& job, std::int64_t sequence, std::int64_t token, std::int64_t head,
                                     int element) {
  const Sequences& s = job.sequences;
  const std::int64_t entry = token / job.page_size;
  std::int64_t page = entry == 0 ? sequence : job.pages;
  if (s.indptr != nullptr) {
    const std::int64_t at = s.indptr[sequence] + entry;
    page = at < s.indptr[sequence + 1] ? s.indices[at] : job.pages;
  }
  if (page < 0 || page >= job.pages) return nullptr;
  const std::int64_t at = page * job.stride[0] + (token - entry * job.page_size) * job.stride[1] + head * job.stride[2];
  return job.data + at * element;
}

template <DType Type, int Bytes, bool Interleaved>
__global__ void __launch_bounds__(threads_of_block) shift_kernel(const __grid_constant__ ShiftJob job) {
  const int pair_units = units_of_pairs<Type>(job.pairs), rest = job.head_dim - 2 * job.pairs;
  const int rest_units = units_of_rest<Type>(rest), units = pair_units + rest_units;
  const std::int64_t chains = job.drop < job.most ? job.drop : job.most,
                     threads = job.count * chains * job.heads * units;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  wait_for_earlier_kernels();
  for (std::int64_t thread = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; thread < threads; thread += step) {
    const auto unit = static_cast<int>(thread % units);
    const std::int64_t head = thread / units % job.heads, chain = thread / units / job.heads;
    const std::int64_t sequence = chain / chains;
    const bool turns = unit < pair_units;
    const UnitPairs own = pairs_of_unit<Type, Interleaved, Interleaved>(unit, pair_units);
    const Places at = turns ? places_of_pairs<Interleaved>(own, job.pairs)
                            : places_of_rest<Type>(unit - pair_units, rest_units, 2 * job.pairs, rest);
    UnitCosSin<Type> by = {};
    const std::int64_t row = job.by.heads == 1 ? 0 : head / (job.heads / job.by.heads);
    if (turns) load_cos_sin<Type, true>(job.by, row, own, job.pairs, false, 0, by);
    const std::int64_t length = job.sequences.lengths != nullptr ? job.sequences.lengths[sequence] : job.page_size;
    for (std::int64_t token = job.keep + job.drop + chain % chains; token < length; token += job.drop) {
      const std::byte* const from = head_at(job, sequence, token, head, element_bytes<Type>);
      std::byte* const to = head_at(job, sequence, token - job.drop, head, element_bytes<Type>);
      if (from == nullptr || to == nullptr) continue;
      Unit x = load_unit<Type, Bytes>(from, at);
      if (turns) {
        float values[2 * lanes<Type>];
        widen_unit<Type>(x, values);
        rotate_unit<Type, Interleaved, Interleaved>(values, by);
        x = narrow_unit<Type>(values);
      }
      store_unit<Type, Bytes>(to, at, x);
    }
  }
}

using Kernel = void (*)(const ShiftJob);

template <DType Type, int Bytes>
Kernel kernel_of(bool interleaved) {
  return interleaved ? shift_kernel<Type, Bytes, true> : shift_kernel<Type, Bytes, false>;
}

}  // namespace

void launch_shift(const ShiftJob& job, Stream stream) {
  const int element = rotary::detail::bytes_of(job.dtype), vector = 16 / element, rest = job.head_dim - 2 * job.pairs;
  const std::uint64_t aligned = alignment_of(job.data, job.stride, {job.pages, job.page_size, job.heads}, element);
  const int bytes = access_bytes(job.dtype, job.interleaved, job.interleaved, job.pairs, rest, aligned);
  const std::int64_t units = ceil_div(job.pairs, vector) + ceil_div(rest, 2 * vector);
  const std::int64_t chains = std::min(job.drop, job.most) * job.count;
  const std::int64_t blocks =
      ceil_div(std::min(chains, max_blocks * threads_of_block) * job.heads * units, std::int64_t{threads_of_block});
  if (blocks == 0) return;
  const Kernel kernel = with_dtype(job.dtype, [&](auto type) -> Kernel {
    return bytes == 16 ? kernel_of<type(), 16>(job.interleaved)
                       : kernel_of<type(), element_bytes<type()>>(job.interleaved);
  });
  launch(kernel, dim3(static_cast<unsigned>(std::min(blocks, max_blocks))), dim3(threads_of_block), stream, job);
}

}  // namespace rotary::gpu
