#include "runtime/arithmetic.h"

#include "append_token.h"

#include <cstddef>
#include <cstring>

#include "cache_checks.h"
#include "cpu/targets.h"
#include "cpu/tuning.h"
#include "places.h"
#include "runtime/float_state.h"

namespace rotary::detail {
namespace {

using Index = std::int64_t;

// Heads from where they lie, head by head `in_head` elements apart, to a place of the cache.
void transfer(cpu::TransferKernel kernel, const ConstHeads& x, const void* from, Index in_head, const Cache& cache,
              ElementType to, float scale, void* out) noexcept {
  const Index block = x.layout.head_dim;
  if (!to.f8 && to.dtype == x.dtype && (x.layout.heads == 1 || (in_head == block && cache.head_stride == block))) {
    std::memcpy(out, from, static_cast<std::size_t>(x.layout.heads * block * bytes_of(x.dtype)));
    return;
  }
  kernel({from, out, x.dtype, to, false, scale, 1, x.layout.heads, block, 0, in_head, 0, cache.head_stride, nullptr, 0});
}

}  // namespace

bool is_one_token(const Job& q, const ConstHeads& k, const RotateOptions& options) noexcept {
  const Layout& l = k.layout;
  if (((l.batch - 1) | (l.tokens - 1)) != 0 || q.dtype != k.dtype || options.stores == Stores::streaming) return false;
  if (q.count[2] <= 0 || l.heads <= 0) return false;
  const Index each = bytes_of(k.dtype), k_bytes = l.heads * l.head_dim * each;
  return k_bytes <= staged_bytes && q.count[2] * (2 * q.pairs + q.rest) * each <= tuning().grain_bytes;
}

void append_one_token(const Job& q, const ConstHeads& k, const ConstHeads& v, const Cache& cache, const Slots& slots) {
  const FloatState ours;
  const cpu::Kernels& kernels = cpu::chosen();
  const Layout& l = k.layout;
  const Index place = Places(slots, cache, 1).of(0);
  if (place < 0) return kernels.rotate(q, 0, q.rows());
  const ElementType k_to = element_type(cache.type, k.dtype), v_to = element_type(cache.type, v.dtype);
  std::byte* const k_out = static_cast<std::byte*>(cache.k) + place * bytes_of(k_to);
  std::byte* const v_out = static_cast<std::byte*>(cache.v) + place * bytes_of(v_to);
  const bool staged = k_to.f8 || k_to.dtype != k.dtype;
  alignas(64) std::byte stage[staged_bytes];
  Job turn = q;
  turn.in = k.data;
  turn.out = staged ? stage : k_out;
  turn.rest = l.head_dim - 2 * q.pairs;
  turn.count[2] = l.heads;
  turn.in_stride[2] = l.head_stride;
  turn.out_stride[2] = staged ? l.head_dim : cache.head_stride;
  kernels.rotate_token(q, turn);
  const float* const scales = cache.scales;
  if (staged) {
    transfer(kernels.transfer, k, stage, l.head_dim, cache, k_to, scales != nullptr ? scales[0] : cache.k_scale, k_out);
  }
  transfer(kernels.transfer, v, v.data, v.layout.head_stride, cache, v_to,
           scales != nullptr ? scales[1] : cache.v_scale, v_out);
}

}  // namespace rotary::detail
