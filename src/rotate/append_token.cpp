// Batch row by batch row: q's and k's heads in one call of the kernel, then v's. A long call's pieces and stretches
// would cost a single token as much as its rotation.
#include "runtime/arithmetic.h"

#include "append_token.h"

#include <cstddef>
#include <cstring>

#include "cache_checks.h"
#include "cpu/targets.h"
#include "cpu/tuning.h"
#include "places.h"
#include "runtime/compiler.h"
#include "runtime/float_state.h"

namespace rotary::detail {
namespace {

using Index = std::int64_t;

// Where the heads of a row begin, and the bytes from there to those of the next.
struct Side {
  std::byte* data;
  Index row;

  Side(const void* begin, DType dtype, const Layout& l) noexcept
      : data(static_cast<std::byte*>(const_cast<void*>(begin))),
        row(l.batch > 1 ? l.batch_stride * bytes_of(dtype) : 0) {}
  std::byte* at(Index index) const noexcept { return data + index * row; }
};

// Heads that go to the cache.
struct Move {
  Side in;
  std::byte* out;
  ElementType to;
  int out_bytes;  // of an element
  bool converts;
  Index heads, head_dim, in_head, out_head;
  DType dtype;
  float scale;

  Move(const ConstHeads& x, const Cache& cache, void* there, float by) noexcept
      : in(x.data, x.dtype, x.layout),
        out(static_cast<std::byte*>(there)),
        to(element_type(cache.type, x.dtype)),
        out_bytes(static_cast<int>(bytes_of(to))),
        converts(to.f8 || to.dtype != x.dtype),
        heads(x.layout.heads),
        head_dim(x.layout.head_dim),
        in_head(heads > 1 ? x.layout.head_stride : head_dim),
        out_head(heads > 1 ? cache.head_stride : head_dim),
        dtype(x.dtype),
        scale(by) {}

  // Fetches the lines that run() writes, where it only copies. Inlined by force: g++ drops calls of functions that only
  // fetch.
  [[gnu::always_inline]] void fetch(Index place) const noexcept {
    if (converts) return;
    for (Index head = 0; head < heads; ++head) {
      const std::byte* const there = out + (place + head * out_head) * out_bytes;
      for (Index i = 0; i < head_dim * out_bytes; i += 64) __builtin_prefetch(there + i, 1, 3);
    }
  }

  // From heads that lie from_head elements apart.
  void run(cpu::TransferKernel kernel, const void* from, Index from_head, Index place) const noexcept {
    std::byte* const there = out + place * out_bytes;
    if (!converts && from_head == head_dim && out_head == head_dim) {
      std::memcpy(there, from, static_cast<std::size_t>(heads * head_dim * out_bytes));
    } else {
      kernel({from, there, dtype, to, false, scale, 1, heads, head_dim, 0, from_head, 0, out_head});
    }
  }
};

struct Work {
  const cpu::Kernels& kernels;
  Job& q;  // of one row
  Side q_in, q_out;
  Index table_row;
  Move k, v;
  int k_rest;
  Places places;
};

// All but v.
[[gnu::always_inline]] inline void turn_row(const Work& work, const Job& q, Index row, Index place) noexcept {
  if (place < 0) return work.kernels.rotate(q, 0, q.count[2]);
  const Move& k = work.k;
  alignas(64) std::byte stage[staged_bytes];
  void* const turned = k.converts ? stage : k.out + place * k.out_bytes;
  const Index turned_head = k.converts ? k.head_dim : k.out_head;
  work.kernels.rotate_token(q, {k.in.at(row), turned, k.heads, k.in_head, turned_head, work.k_rest});
  if (k.converts) k.run(work.kernels.transfer, stage, k.head_dim, place);
}
void copy_row(const Work& work, Index row, Index place) noexcept {
  if (place >= 0) work.v.run(work.kernels.transfer, work.v.in.at(row), work.v.in_head, place);
}

void append_rows(void* context, Index begin, Index end) {
  const FloatState ours;
  const Work& work = *static_cast<const Work*>(context);
  Job q = work.q;
  for (Index row = begin; row < end; ++row) {
    q.in = work.q_in.at(row);
    q.out = work.q_out.at(row);
    q.cos = work.q.cos + row * work.table_row;
    q.sin = work.q.sin + row * work.table_row;
    const Index place = work.places.of(row);
    if (place >= 0) {  // which come while q turns
      work.k.fetch(place);
      work.v.fetch(place);
    }
    turn_row(work, q, row, place);
    copy_row(work, row, place);
  }
}

}  // namespace

bool append_token(Job& q_job, const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const ConstHeads& v,
                  const Table& table, const Cache& cache, const Slots& slots, const RotateOptions& options) {
  const Layout& l = q.layout;
  const Index each = bytes_of(k.dtype), k_bytes = k.layout.heads * k.layout.head_dim * each;
  if (l.tokens != 1 || q.dtype != k.dtype || q_job.rows() == 0 || k_bytes == 0 || k_bytes > staged_bytes) return false;
  const Index row_bytes =
      l.heads * l.head_dim * each + k_bytes + k.layout.heads * k.layout.head_dim * bytes_of(v.dtype);
  if (l.batch > 4096 || l.batch * row_bytes > most_bytes_by_token || options.stores == Stores::streaming) return false;
  q_job.count[2] = l.heads;
  q_job.table_stride[2] = 0;
  q_job.in_stride[2] = l.heads > 1 ? l.head_stride : 0;
  q_job.out_stride[2] = l.heads > 1 ? q_out.layout.head_stride : 0;
  const float* const scales = cache.scales;
  const auto work = [&] {
    return Work{cpu::chosen(),
                q_job,
                {q.data, q.dtype, l},
                {q_out.data, q.dtype, q_out.layout},
                table.batch() > 1 ? table.pairs() : 0,
                {k, cache, cache.k, scales != nullptr ? scales[0] : cache.k_scale},
                {v, cache, cache.v, scales != nullptr ? scales[1] : cache.v_scale},
                k.layout.head_dim - table.rotary_dim(),
                {slots, cache, 1}};
  };
  if (l.batch == 1) {  // in registers
    const FloatState ours;
    const Work one = work();
    const Index place = one.places.of(0);
    copy_row(one, 0, place);  // v comes from memory, if it does, while q turns
    turn_row(one, q_job, 0, place);
  } else {
    Work all = work();
    options.executor->run(l.batch, (tuning().grain_bytes + row_bytes - 1) / row_bytes, append_rows, &all);
  }
  return true;
}

}  // namespace rotary::detail
