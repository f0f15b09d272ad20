// shift: checks the call, then moves each sequence's tokens from the front, in pieces that do not overlap their target.
#include "runtime/arithmetic.h"

#include <algorithm>
#include <cstddef>

#include "cache_checks.h"
#include "call_threads.h"
#include "checks.h"
#include "cpu/targets.h"
#include "runtime/float_state.h"
#include "shift_checks.h"

namespace rotary {

using namespace detail;
namespace {

using Index = std::int64_t;

// Elements of every head that move in the same way: the block that rotates, the elements before it, those of v.
struct Moved {
  Heads x;
  bool turns;
};

struct ShiftWork {
  cpu::RotateKernel rotate;
  cpu::TransferKernel transfer;
  Job turn;  // for one token, without pointers, counts and strides
  Moved parts[3];
  int count = 0;
  Index heads = 0;  // in all parts
  Index keep, drop;
  const Sequences& sequences;
  int rows = 1;  // rows of the table: one for all heads, or one for each head or group of heads

  void add(const Heads& x, bool turns) noexcept {
    if (!has_elements(x.layout)) return;
    parts[count++] = {x, turns};
    heads += x.layout.heads;
  }
};

Index pages_of(const Sequences& s, Index sequence) noexcept {
  return s.indptr == nullptr ? 1 : Index{s.indptr[sequence + 1]} - s.indptr[sequence];
}
Index length_of(const Sequences& s, Index sequence, Index page_size) noexcept {
  return s.lengths == nullptr ? page_size : s.lengths[sequence];
}
// The number of tokens of a sequence that move.
Index moving(Index length, Index keep, Index drop) noexcept {
  return drop == 0 || keep >= length || drop >= length - keep ? 0 : length - keep - drop;
}

// The address of a token's head; null if the page does not exist.
std::byte* place(const Sequences& s, const Heads& x, Index sequence, Index token, Index head) noexcept {
  const Layout& l = x.layout;
  const Index page = s.indptr == nullptr ? sequence : s.indices[s.indptr[sequence] + token / l.tokens];
  if (page < 0 || page >= l.batch) return nullptr;
  const Index at = page * l.batch_stride + token % l.tokens * l.token_stride + head * l.head_stride;
  return static_cast<std::byte*>(x.data) + at * bytes_of(x.dtype);
}

// Rotates tokens. Both sides have the strides of the layout; rows are walked as they lie in memory.
void turn(const ShiftWork& work, const Layout& l, Index tokens, Index heads, const void* in, void* out,
          Index row) noexcept {
  Job job = work.turn;
  job.cos += row * job.pairs;
  job.sin += row * job.pairs;
  job.in = in;
  job.out = out;
  const int at = tokens == 1 || l.head_stride <= l.token_stride ? 1 : 2;
  job.count[0] = 1;
  job.count[at] = tokens;
  job.count[3 - at] = heads;
  job.in_stride[0] = 0;
  job.in_stride[at] = tokens > 1 ? l.token_stride : 0;
  job.in_stride[3 - at] = heads > 1 ? l.head_stride : 0;
  std::copy_n(job.in_stride, 3, job.out_stride);
  std::fill_n(job.table_stride, 3, Index{0});
  work.rotate(job, 0, job.rows());
}

void move_heads(const ShiftWork& work, const Moved& part, Index sequence, Index head, Index heads) noexcept {
  const Layout& l = part.x.layout;
  const auto left_of = [&](Index token) { return l.tokens - token % l.tokens; };
  const Index length = length_of(work.sequences, sequence, l.tokens);
  const Index begin = length - moving(length, work.keep, work.drop);
  for (Index token = begin, count = 0; token < length; token += count) {
    const Index to = token - work.drop;
    count = std::min({work.drop, length - token, left_of(token), left_of(to)});
    const std::byte* const in = place(work.sequences, part.x, sequence, token, head);
    std::byte* const out = place(work.sequences, part.x, sequence, to, head);
    if (in == nullptr || out == nullptr) continue;
    if (part.turns && work.rows > 1) {
      for (Index i = 0; i < heads; ++i) {
        const Index bytes = i * l.head_stride * bytes_of(part.x.dtype);
        turn(work, l, count, 1, in + bytes, out + bytes, (head + i) / (l.heads / work.rows));
      }
    } else if (part.turns) {
      turn(work, l, count, heads, in, out, 0);
    } else {
      const Index token_stride = count > 1 ? l.token_stride : 0, head_stride = heads > 1 ? l.head_stride : 0;
      const CachedType same{false, part.x.dtype};
      work.transfer({in, out, part.x.dtype, same, work.turn.stream, 1, count, heads, l.head_dim, token_stride,
                     head_stride, token_stride, head_stride});
    }
  }
}

// Moves items, which are heads of the parts of each sequence and do not touch each other's memory.
void move_range(void* context, Index begin, Index end) {
  const FloatState ours;
  const ShiftWork& work = *static_cast<const ShiftWork*>(context);
  while (begin < end) {
    Index head = begin % work.heads;
    const Moved* part = work.parts;
    for (; head >= part->x.layout.heads; ++part) head -= part->x.layout.heads;
    const Index heads = std::min(part->x.layout.heads - head, end - begin);
    move_heads(work, *part, begin / work.heads, head, heads);
    begin += heads;
  }
}

// Checks that the pages of tokens [begin, end) of a sequence exist.
void check_pages(const Sequences& s, Index sequence, Index begin, Index end, const Layout& l) {
  for (Index i = begin / l.tokens; i <= (end - 1) / l.tokens; ++i) {
    const std::int32_t page = s.indices[s.indptr[sequence] + i];
    if (page < 0 || page >= l.batch)
      refuse_shift("indices must be pages of the cache, from 0 to ", l.batch - 1, ", but page ", i, " of sequence ",
                   sequence, " is ", page);
  }
}

// Checks the lengths of the sequences and sets the number of tokens that move.
void check_lengths(const Sequences& s, Index count, const Layout& l, Index keep, Index drop, Index& tokens) {
  tokens = 0;
  for (Index i = 0; i < count; ++i) {
    const Index length = length_of(s, i, l.tokens), pages = pages_of(s, i);
    if (length < 0 || length > product(std::max<Index>(0, pages), l.tokens) || (s.indptr != nullptr && s.indptr[i] < 0))
      refuse_shift("sequence ", i, " must lie in its pages, ", pages, " of ", l.tokens, " tokens, but its length is ",
                   length);
    const Index moved = moving(length, keep, drop);
    tokens += moved;
    if (moved == 0 || s.indptr == nullptr || s.skip_missing) continue;
    check_pages(s, i, keep, keep + moved, l);
    check_pages(s, i, length - moved, length, l);
  }
}

}  // namespace

void shift(const Heads& k, const Heads& v, const Table& table, std::int64_t keep, std::int64_t drop,
           const Sequences& sequences, const RotateOptions& options) {
  const Index count = check_shift(k, v, shape_of(table), table.cos().data(), table.sin().data(), keep, drop, sequences);
  check_stores("shift", options.stores);
  const Heads block = behind("shift", k, options.first);
  Heads token = block;  // any token: the checks and the job are those of a rotation in place
  token.layout.tokens = token.layout.batch = 1;
  const cpu::Kernels& kernels = cpu::chosen();
  ShiftWork work{kernels.rotate, cpu::transfer_of(kernels), {}, {}, 0, 0, keep, drop, sequences, table.head_rows()};
  check_rotate({"shift", "k", "k", ""}, token, token, table, options.direction, work.turn);
  if (!has_elements(k.layout)) return;
  Index tokens = 0;
  check_lengths(sequences, count, k.layout, keep, drop, tokens);
  if (tokens == 0) return;

  work.add(block, true);
  work.add(slice(k, 0, options.first), false);
  work.add(v, false);
  const Index each = token_bytes(k) + token_bytes(v), bytes = tokens * each;
  work.turn.rest = block.layout.head_dim - table.rotary_dim();
  work.turn.stream = streams(std::min(drop, tokens) * each, options);  // written bytes were read this long before
  work.turn.call_bytes = bytes;
  check_part("shift", options);
  const Index items = count * work.heads;
  run_items(options, items, std::max<Index>(1, bytes / items), move_range, &work);
}

void shift(const Cache& cache, DType dtype, const Table& table, std::int64_t keep, std::int64_t drop,
           const Sequences& sequences, const RotateOptions& options) {
  check_dtype("shift", dtype);
  check_cache_type("shift", cache.type);
  check_cache_offset("shift", cache);
  const CachedType type = cached_type(cache.type, dtype);
  if (type.f8) fail(Code::DTYPE, "shift", "the cache must hold f32, f16 or bf16 but its type is f8_e4m3");
  const Heads k{k_data(cache, bytes_of(type)), type.dtype, k_layout(cache)};
  const Heads v{cache.v, type.dtype, v_layout(cache)};
  shift(k, cache.v == nullptr ? Heads{} : v, table, keep, drop, sequences, options);
}

void shift(const Heads& k, const Heads& v, const Table& table, std::int64_t keep, std::int64_t drop,
           const RotateOptions& options) {
  shift(k, v, table, keep, drop, Sequences{}, options);
}

}  // namespace rotary
