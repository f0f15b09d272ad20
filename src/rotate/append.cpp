// append and rotate_append: check, then the tokens in pieces: q's heads, then k's and v's of each stretch of places
// that follow each other in the cache.
#include "runtime/arithmetic.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>

#include "append_token.h"
#include "cache_checks.h"
#include "checks.h"
#include "cpu/targets.h"
#include "cpu/tuning.h"
#include "places.h"
#include "rotary/cache.h"
#include "runtime/float_state.h"
#include "stores.h"
#include "values/pairings.h"

namespace rotary {

using namespace detail;
namespace {

using Index = std::int64_t;

static_assert(staged_bytes >= most_staged * static_cast<Index>(sizeof(float)));

// ---- the work of a call ----
// The members of these structs are not cleared before they are set: for one token it would cost as much as the checks.

// Where the heads of a token begin. Strides are in bytes.
struct Side {
  std::byte* data;
  Index row, token;

  std::byte* at(Index row_index, Index token_index) const noexcept {
    return data + row_index * row + token_index * token;
  }
};

// flat: with batch rows and tokens as one dimension of tokens.
Index token_stride(const Layout& l, bool flat) noexcept {
  return l.tokens > 1 ? l.token_stride : flat && l.batch > 1 ? l.batch_stride : 0;
}
Index head_stride(const Layout& l) noexcept { return l.heads > 1 ? l.head_stride : 0; }
Side side(const void* data, DType dtype, const Layout& l, bool flat) noexcept {
  const Index each = bytes_of(dtype);
  return {static_cast<std::byte*>(const_cast<void*>(data)), l.batch > 1 ? l.batch_stride * each : 0,
          token_stride(l, flat) * each};
}

// Whether batch rows and tokens are one dimension.
bool joins(const Layout& l) noexcept {
  return l.batch == 1 || l.tokens == 1 || l.batch_stride == l.tokens * l.token_stride;
}

// A job of which each step changes the memory and the number of tokens.
struct Turn {
  Job job;
  int tokens_at;  // the dimension of tokens: 1, or 2 where heads are outside; heads are the other

  void set(Index heads, Index in_token, Index in_head, Index out_token, Index out_head, Index table_token) noexcept {
    tokens_at = 1;
    job.count[0] = 1;
    job.count[2] = heads;
    job.in_stride[0] = job.out_stride[0] = job.table_stride[0] = job.table_stride[2] = 0;
    job.in_stride[1] = in_token;
    job.in_stride[2] = in_head;
    job.out_stride[1] = out_token;
    job.out_stride[2] = out_head;
    job.table_stride[1] = table_token;
  }

  void run(cpu::RotateKernel kernel, Index tokens, const void* from, void* to, const float* cos,
           const float* sin) noexcept {
    const bool heads_inside = tokens == 1 || job.in_stride[3 - tokens_at] <= job.in_stride[tokens_at];
    if (heads_inside != (tokens_at == 1)) swap_dimensions();
    job.in = from;
    job.out = to;
    job.cos = cos;
    job.sin = sin;
    job.count[tokens_at] = tokens;
    kernel(job, 0, job.rows());
  }

 private:
  void swap_dimensions() noexcept {
    tokens_at = 3 - tokens_at;
    std::swap(job.count[1], job.count[2]);
    std::swap(job.in_stride[1], job.in_stride[2]);
    std::swap(job.out_stride[1], job.out_stride[2]);
    std::swap(job.table_stride[1], job.table_stride[2]);
  }
};

// Heads that go to the cache.
struct Move {
  Transfer transfer;
  Side in;
  std::byte* out;
  Index out_bytes;  // of an element

  void run(cpu::TransferKernel kernel, Index tokens, const void* from, void* to) noexcept {
    transfer.in = from;
    transfer.out = to;
    transfer.tokens = tokens;
    kernel(transfer);
  }
};

// How many parts of so many bytes make up the whole, at least; by 32 bits, as a division by 64 takes long.
Index parts_of(Index whole, Index part) noexcept {
  if (part >= whole) return 1;
  const auto bytes = static_cast<std::uint32_t>(part);
  return (static_cast<std::uint32_t>(whole) + bytes - 1) / bytes;
}

struct Work {
  cpu::RotateKernel rotate;
  cpu::TransferKernel transfer;
  const float *cos, *sin;  // cos null: append
  Index table_row, table_token;
  Index rows, tokens;
  Index piece;  // tokens
  bool with_q, with_k;
  bool staged;  // k rotates, and is converted
  Turn q, k;
  Side q_in, q_out;
  Move k_move, v_move;
  const Places* places;

  Index table_at(Index row, Index token) const noexcept { return row * table_row + token * table_token; }
};

// k's heads rotate into a stage, as many as it holds, and are converted from there.
void convert_rotated(const Work& work, Index row, Index token, Index count, std::byte* to) noexcept {
  alignas(64) std::byte stage[staged_bytes];
  Turn k = work.k;
  Move move = work.k_move;
  Transfer& t = move.transfer;
  const Index in_token = t.in_token, in_head = t.in_head, each = bytes_of(t.from), all = t.heads;
  const Index room = staged_bytes / (t.head_dim * each);
  const Index heads = std::min(all, room), tokens = std::min(count, room / heads);
  t.in_head = t.head_dim;
  for (Index i = 0; i < count; i += tokens) {
    const Index now = std::min(tokens, count - i), at = work.table_at(row, token + i);
    for (Index h = 0; h < all; h += heads) {
      t.heads = std::min(heads, all - h);
      t.in_token = t.heads * t.head_dim;
      k.set(t.heads, in_token, in_head, t.in_token, t.head_dim, work.table_token);
      k.run(work.rotate, now, move.in.at(row, token + i) + h * in_head * each, stage, work.cos + at, work.sin + at);
      move.run(work.transfer, now, stage, to + (i * t.out_token + h * t.out_head) * move.out_bytes);
    }
  }
}

// k and v of tokens that have their places one after the other.
void append_stretch(Work& work, Index row, Index token, Index count, Index place) noexcept {
  Move &k = work.k_move, &v = work.v_move;
  std::byte* const k_to = k.out + place * k.out_bytes;
  if (work.cos == nullptr) {
    k.run(work.transfer, count, k.in.at(row, token), k_to);
  } else if (work.staged) {
    convert_rotated(work, row, token, count, k_to);
  } else {
    const Index at = work.table_at(row, token);
    work.k.run(work.rotate, count, k.in.at(row, token), k_to, work.cos + at, work.sin + at);
  }
  v.run(work.transfer, count, v.in.at(row, token), v.out + place * v.out_bytes);
}

void append_piece(Work& work, Index row, Index token, Index count) noexcept {
  const Places& places = *work.places;
  const Index step = places.step(), first = row * work.tokens + token;
  for (Index i = 0, length = 1; i < count; i += length, length = 1) {
    const Index place = places.of(first + i);
    if (place < 0) continue;
    while (i + length < count && length < stretch && places.of(first + i + length) == place + length * step) ++length;
    append_stretch(work, row, token + i, length, place);
  }
}

void run_tokens(Work& work, Index begin, Index end) noexcept {
  while (begin < end) {
    const Index row = work.rows == 1 ? 0 : begin / work.tokens, token = begin - row * work.tokens;
    const Index count = std::min({work.piece, work.tokens - token, end - begin});
    if (work.with_q) {
      const Index at = work.table_at(row, token);
      work.q.run(work.rotate, count, work.q_in.at(row, token), work.q_out.at(row, token), work.cos + at, work.sin + at);
    }
    if (work.with_k) append_piece(work, row, token, count);
    begin += count;
  }
}

// Jobs change from step to step, so each of several ranges has its own.
void run_range(void* context, Index begin, Index end) {
  if (begin == end) return;
  const FloatState ours;
  Work& work = *static_cast<Work*>(context);
  if (end - begin == work.rows * work.tokens) return run_tokens(work, begin, end);
  Work mine = work;
  run_tokens(mine, begin, end);
}

// ---- from a call to its work ----

void set_turn(Turn& turn, DType dtype, const Table& table, Direction direction, int rest) noexcept {
  Job& job = turn.job;
  const Order order = order_of(table.pairing(), direction);
  job.dtype = dtype;
  job.read_interleaved = order.read_interleaved;
  job.write_interleaved = order.write_interleaved;
  job.backward = direction == Direction::backward;
  job.pairs = table.pairs();
  job.rest = rest;
}

void set_move(Move& move, const ConstHeads& x, bool flat, const Cache& cache, void* to, const Places& places,
              float scale) noexcept {
  Transfer& t = move.transfer;
  t.from = x.dtype;
  t.to = element_type(cache.type, x.dtype);
  t.scale = scale;
  t.heads = x.layout.heads;
  t.head_dim = x.layout.head_dim;
  t.in_token = token_stride(x.layout, flat);
  t.in_head = head_stride(x.layout);
  t.out_token = places.step();
  t.out_head = cache.heads > 1 ? cache.head_stride : 0;
  move.in = side(x.data, x.dtype, x.layout, flat);
  move.out = static_cast<std::byte*>(to);
  move.out_bytes = bytes_of(t.to);
}

void set_cache(Work& work, const ConstHeads& k, const ConstHeads& v, bool flat, const Cache& cache,
               const Places& places) noexcept {
  const float* const scales = cache.scales;
  set_move(work.k_move, k, flat, cache, cache.k, places, scales != nullptr ? scales[0] : cache.k_scale);
  set_move(work.v_move, v, flat, cache, cache.v, places, scales != nullptr ? scales[1] : cache.v_scale);
  work.places = &places;
}

Index head_bytes(const ConstHeads& x) noexcept { return x.layout.heads * x.layout.head_dim * bytes_of(x.dtype); }

void run(Work& work, const Layout& l, bool flat, Index token_bytes, const RotateOptions& options) {
  work.rows = flat ? 1 : l.batch;
  work.tokens = flat ? l.batch * l.tokens : l.tokens;
  const Index bytes = l.batch * l.tokens * token_bytes;
  const bool stream = streams(bytes, options);
  work.q.job.call_bytes = work.k.job.call_bytes = bytes;
  work.k_move.transfer.stream = work.v_move.transfer.stream = stream;
  work.k.job.stream = stream && !work.staged;
  work.q.job.stream = stream && work.with_q && work.q_in.data != work.q_out.data;
  const cpu::Kernels& kernels = cpu::chosen();
  work.rotate = kernels.rotate;
  work.transfer = kernels.transfer;
  options.executor->run(work.rows * work.tokens, parts_of(tuning().grain_bytes, token_bytes), run_range, &work);
}

}  // namespace

void append(const ConstHeads& k, const ConstHeads& v, const Cache& cache, const Slots& slots,
            const Executor& executor) {
  check_append("append", k, v, cache, slots);
  if (!has_elements(k.layout)) return;
  Work work;
  const bool flat = joins(k.layout) && joins(v.layout);
  work.cos = nullptr;
  work.piece = std::numeric_limits<Index>::max();
  work.with_q = work.staged = false;
  work.with_k = true;
  const Places places(slots, cache, k.layout.tokens);
  set_cache(work, k, v, flat, cache, places);
  run(work, k.layout, flat, head_bytes(k) + head_bytes(v), executor);
}

void rotate_append(const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const ConstHeads& v,
                   const Table& table, const Cache& cache, const Slots& slots, const RotateOptions& options) {
  const Direction direction = options.direction;
  Job q_job = check_rotate_append("rotate_append", q, q_out, k, v, table, cache, slots, direction);
  check_stores("rotate_append", options.stores);
  if (append_token(q_job, q, q_out, k, v, table, cache, slots, options)) return;
  const Layout& l = q.layout;
  Work work;
  const bool flat = (table.batch() == l.batch || l.tokens == 1) && joins(l) && joins(q_out.layout) && joins(k.layout) &&
                    joins(v.layout);
  const Places places(slots, cache, l.tokens);
  work.cos = table.cos().data();
  work.sin = table.sin().data();
  work.table_row = table.batch() > 1 ? l.tokens * table.pairs() : 0;
  work.table_token = l.tokens > 1 || table.batch() > 1 ? table.pairs() : 0;
  work.piece = parts_of(append_table_bytes, table.pairs() * Index{2 * sizeof(float)});
  work.with_q = has_elements(l);
  work.with_k = has_elements(k.layout);
  work.staged = false;
  Index bytes = 0;
  if (work.with_q) {
    const int rest = q.data == q_out.data ? 0 : l.head_dim - table.rotary_dim();
    work.q_in = side(q.data, q.dtype, l, flat);
    work.q_out = side(q_out.data, q.dtype, q_out.layout, flat);
    set_turn(work.q, q.dtype, table, direction, rest);
    work.q.set(l.heads, token_stride(l, flat), head_stride(l), token_stride(q_out.layout, flat),
               head_stride(q_out.layout), work.table_token);
    bytes += head_bytes(q);
  }
  if (work.with_k) {
    set_cache(work, k, v, flat, cache, places);
    const Transfer& t = work.k_move.transfer;
    set_turn(work.k, k.dtype, table, direction, k.layout.head_dim - table.rotary_dim());
    work.k.set(t.heads, t.in_token, t.in_head, t.out_token, t.out_head, work.table_token);
    work.staged = t.to.f8 || t.to.dtype != k.dtype;
    bytes += head_bytes(k) + head_bytes(v);
  }
  if (bytes > 0) run(work, l, flat, bytes, options);
}

void rotate_append(const Heads& q, const ConstHeads& k, const ConstHeads& v, const Table& table, const Cache& cache,
                   const Slots& slots, const RotateOptions& options) {
  rotate_append(ConstHeads(q), q, k, v, table, cache, slots, options);
}

}  // namespace rotary
