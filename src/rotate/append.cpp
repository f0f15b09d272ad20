// append and rotate_append: check, then the tokens in pieces: q's heads, then k's and v's of each stretch of places
// that follow each other in the cache.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <limits>

#include "cache_checks.h"
#include "checks.h"
#include "cpu/targets.h"
#include "places.h"
#include "rotary/cache.h"
#include "runtime/float_state.h"
#include "values/pairings.h"

namespace rotary {

using namespace detail;
namespace {

using Index = std::int64_t;

constexpr Index grain_bytes = 64 * 1024;   // as in rotate.cpp
constexpr Index table_bytes = 32 * 1024;   // of the table at a time: q's heads, then k's, read it from the first cache
constexpr Index staged_bytes = 16 * 1024;  // of k between its rotation and its conversion
static_assert(staged_bytes >= most_staged * static_cast<Index>(sizeof(float)));

// ---- the work of a call ----
// The members of these structs are not cleared before they are set: for one token it would cost as much as the checks.

// Heads by token. Strides are in elements, of `each` bytes.
struct Side {
  std::byte* data;
  Index each;
  Index row, token, head;

  std::byte* at(Index row_index, Index token_index) const noexcept {
    return data + (row_index * row + token_index * token) * each;
  }
};

// The heads of a tensor; flat: with its batch rows and tokens as one dimension of tokens.
Side side(const void* data, DType dtype, const Layout& l, bool flat) noexcept {
  Side s;
  s.data = static_cast<std::byte*>(const_cast<void*>(data));
  s.each = bytes_of(dtype);
  s.row = l.batch > 1 ? l.batch_stride : 0;
  s.token = l.tokens > 1 ? l.token_stride : flat ? s.row : 0;
  s.head = l.heads > 1 ? l.head_stride : 0;
  return s;
}

// Whether batch rows and tokens are one dimension.
bool joins(const Layout& l) noexcept {
  return l.batch == 1 || l.tokens == 1 || l.batch_stride == l.tokens * l.token_stride;
}

// Heads that rotate, by a job of which each step changes the memory and the number of tokens.
struct Turn {
  Job job;
  Side in, out;
  Index table_token;
  int tokens_at;  // the job's dimension of tokens, and that of heads

  // Dimensions as the written heads lie in memory.
  void set_dimensions(Index heads, bool tokens_inside) noexcept {
    const int t = tokens_inside ? 2 : 1, h = 3 - t;
    tokens_at = t;
    job.count[0] = 1;
    job.count[h] = heads;
    job.in_stride[0] = job.out_stride[0] = job.table_stride[0] = job.table_stride[h] = 0;
    job.in_stride[t] = in.token;
    job.in_stride[h] = in.head;
    job.out_stride[t] = out.token;
    job.out_stride[h] = out.head;
    job.table_stride[t] = table_token;
  }

  void run(cpu::RotateKernel kernel, Index tokens, const void* from, void* to, const float* cos,
           const float* sin) noexcept {
    const bool tokens_inside = tokens > 1 && out.head > out.token;
    if (tokens_inside != (tokens_at == 2)) set_dimensions(job.count[3 - tokens_at], tokens_inside);
    job.in = from;
    job.out = to;
    job.cos = cos;
    job.sin = sin;
    job.count[tokens_at] = tokens;
    kernel(job, 0, job.rows());
  }
};

// Heads that go to the cache.
struct Move {
  Transfer transfer;
  Side in, out;

  void run(cpu::TransferKernel kernel, Index tokens, const void* from, void* to) noexcept {
    transfer.in = from;
    transfer.out = to;
    transfer.tokens = tokens;
    kernel(transfer);
  }
};

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
  const Index all = t.heads, room = staged_bytes / (t.head_dim * k.in.each);
  const Index heads = std::min(all, room), tokens = std::min(count, room / heads);
  k.out.head = t.in_head = t.head_dim;
  for (Index i = 0; i < count; i += tokens) {
    const Index now = std::min(tokens, count - i), at = work.table_at(row, token + i);
    for (Index h = 0; h < all; h += heads) {
      t.heads = std::min(heads, all - h);
      k.out.token = t.in_token = t.heads * t.head_dim;
      k.set_dimensions(t.heads, false);
      k.run(work.rotate, now, k.in.at(row, token + i) + h * k.in.head * k.in.each, stage, work.cos + at, work.sin + at);
      move.run(work.transfer, now, stage, to + (i * t.out_token + h * t.out_head) * move.out.each);
    }
  }
}

// k and v of tokens that have their places one after the other.
void append_stretch(Work& work, Index row, Index token, Index count, Index place) noexcept {
  Move &k = work.k_move, &v = work.v_move;
  std::byte* const k_to = k.out.data + place * k.out.each;
  if (work.cos == nullptr) {
    k.run(work.transfer, count, k.in.at(row, token), k_to);
  } else if (work.staged) {
    convert_rotated(work, row, token, count, k_to);
  } else {
    const Index at = work.table_at(row, token);
    work.k.run(work.rotate, count, k.in.at(row, token), k_to, work.cos + at, work.sin + at);
  }
  v.run(work.transfer, count, v.in.at(row, token), v.out.data + place * v.out.each);
}

void append_piece(Work& work, Index row, Index token, Index count) noexcept {
  const Places& places = *work.places;
  const Index step = places.step(), first = row * work.tokens + token;
  for (Index i = 0, length = 1; i < count; i += length, length = 1) {
    const Index place = places.of(first + i);
    if (place < 0) continue;
    while (i + length < count && places.of(first + i + length) == place + length * step) ++length;
    append_stretch(work, row, token + i, length, place);
  }
}

void run_tokens(Work& work, Index begin, Index end) noexcept {
  while (begin < end) {
    const Index row = work.rows == 1 ? 0 : begin / work.tokens, token = begin - row * work.tokens;
    const Index count = std::min({work.piece, work.tokens - token, end - begin});
    if (work.with_q) {
      Turn& q = work.q;
      const Index at = work.table_at(row, token);
      q.run(work.rotate, count, q.in.at(row, token), q.out.at(row, token), work.cos + at, work.sin + at);
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

void set_turn(Turn& turn, DType dtype, const Layout& l, const Table& table, Direction direction,
              Index table_token) noexcept {
  Job& job = turn.job;
  const Order order = order_of(table.pairing(), direction);
  job.dtype = dtype;
  job.read_interleaved = order.read_interleaved;
  job.write_interleaved = order.write_interleaved;
  job.backward = direction == Direction::backward;
  job.pairs = table.pairs();
  job.rest = turn.in.data == turn.out.data ? 0 : l.head_dim - table.rotary_dim();
  turn.table_token = table_token;
  turn.set_dimensions(l.heads, false);
}

void set_move(Move& move, const ConstHeads& x, bool flat, const Cache& cache, void* to, const Places& places,
              float scale) noexcept {
  Transfer& t = move.transfer;
  t.from = x.dtype;
  t.to = element_type(cache.type, x.dtype);
  move.in = side(x.data, x.dtype, x.layout, flat);
  move.out = {static_cast<std::byte*>(to), bytes_of(t.to), 0, places.step(), cache.heads > 1 ? cache.head_stride : 0};
  t.scale = scale;
  t.heads = x.layout.heads;
  t.head_dim = x.layout.head_dim;
  t.in_token = move.in.token;
  t.in_head = move.in.head;
  t.out_token = move.out.token;
  t.out_head = move.out.head;
}

void set_cache(Work& work, const ConstHeads& k, const ConstHeads& v, bool flat, const Cache& cache,
               const Places& places) noexcept {
  const float* const scales = cache.scales;
  set_move(work.k_move, k, flat, cache, cache.k, places, scales != nullptr ? scales[0] : cache.k_scale);
  set_move(work.v_move, v, flat, cache, cache.v, places, scales != nullptr ? scales[1] : cache.v_scale);
  work.places = &places;
}

Index head_bytes(const ConstHeads& x) noexcept { return x.layout.heads * x.layout.head_dim * bytes_of(x.dtype); }

void run(Work& work, const Layout& l, bool flat, Index token_bytes, const Executor& executor) {
  work.rows = flat ? 1 : l.batch;
  work.tokens = flat ? l.batch * l.tokens : l.tokens;
  static const char* hack = std::getenv("HACK_STREAM");
  const bool stream = hack ? *hack == 0x31 : exceeds_cache(l.batch * l.tokens * token_bytes);
  work.k_move.transfer.stream = work.v_move.transfer.stream = stream;
  work.k.job.stream = stream && !work.staged;
  work.q.job.stream = stream && work.with_q && work.q.in.data != work.q.out.data;
  const cpu::Kernels& kernels = cpu::chosen();
  work.rotate = kernels.rotate;
  work.transfer = kernels.transfer;
  executor.run(work.rows * work.tokens, (grain_bytes + token_bytes - 1) / token_bytes, run_range, &work);
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
  check_rotate_append("rotate_append", q, q_out, k, v, table, cache, slots, direction);
  const Layout& l = q.layout;
  Work work;
  const bool flat = (table.batch() == l.batch || l.tokens == 1) && joins(l) && joins(q_out.layout) && joins(k.layout) &&
                    joins(v.layout);
  const Places places(slots, cache, l.tokens);
  work.cos = table.cos().data();
  work.sin = table.sin().data();
  work.table_row = table.batch() > 1 ? l.tokens * table.pairs() : 0;
  work.table_token = l.tokens > 1 || table.batch() > 1 ? table.pairs() : 0;
  work.piece = std::max<Index>(1, table_bytes / (table.pairs() * Index{2 * sizeof(float)}));
  work.with_q = has_elements(l);
  work.with_k = has_elements(k.layout);
  work.staged = false;
  Index bytes = 0;
  if (work.with_q) {
    work.q.in = side(q.data, q.dtype, l, flat);
    work.q.out = side(q_out.data, q.dtype, q_out.layout, flat);
    set_turn(work.q, q.dtype, l, table, direction, work.table_token);
    bytes += head_bytes(q);
  }
  if (work.with_k) {
    set_cache(work, k, v, flat, cache, places);
    work.k.in = work.k_move.in;
    work.k.out = work.k_move.out;
    set_turn(work.k, k.dtype, k.layout, table, direction, work.table_token);
    const ElementType to = work.k_move.transfer.to;
    work.staged = to.f8 || to.dtype != k.dtype;
    bytes += head_bytes(k) + head_bytes(v);
  }
  if (bytes > 0) run(work, l, flat, bytes, *options.executor);
}

void rotate_append(const Heads& q, const ConstHeads& k, const ConstHeads& v, const Table& table, const Cache& cache,
                   const Slots& slots, const RotateOptions& options) {
  rotate_append(ConstHeads(q), q, k, v, table, cache, slots, options);
}

}  // namespace rotary
