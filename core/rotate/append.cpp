// append and rotate_append: check the call, then work on pieces of the tokens: q's heads, then k's and v's heads of
// each stretch of consecutive places in the cache. A call with one token per sequence is one piece.
#include "runtime/arithmetic.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "cache_checks.h"
#include "call_threads.h"
#include "checks.h"
#include "cpu/targets.h"
#include "cpu/tuning.h"
#include "rotary/cache.h"
#include "runtime/float_state.h"

namespace rotary {

using namespace detail;
namespace {

using Index = std::int64_t;

static_assert(staged_bytes >= most_staged * static_cast<Index>(sizeof(float)));

// True if batch rows and tokens form one dimension.
bool joins(const Layout& l) noexcept {
  return l.batch == 1 || l.tokens == 1 || l.batch_stride == l.tokens * l.token_stride;
}

// The slots of a call's tokens, numbered page * page_size + token in the page.
class SlotNumbers {
 public:
  struct Place {
    Index page, token;
  };

  // tokens: tokens per batch row.
  SlotNumbers(const Slots& slots, const Layout& k_pages, const Layout& v_pages, Index tokens) noexcept
      : slots_(slots),
        tokens_(tokens),
        pages_(k_pages.batch),
        count_(product(k_pages.batch, k_pages.tokens)),
        page_size_(k_pages.tokens),
        shift_((page_size_ & (page_size_ - 1)) == 0 ? std::countr_zero(static_cast<std::uint64_t>(page_size_)) : -1),
        pages_join_(joins(k_pages) && joins(v_pages)) {}

  Place place_of(Index slot) const noexcept {
    const Index page = shift_ >= 0 ? slot >> shift_ : slot / page_size_;
    return {page, slot - page * page_size_};
  }
  // The number of slots from this one on that lie at even distances.
  Index even_from(const Place& place) const noexcept {
    return pages_join_ ? std::numeric_limits<Index>::max() : page_size_ - place.token;
  }

  // The slot of token i = batch row * tokens + token; below 0: the token is skipped.
  Index of(Index i) const noexcept {
    if (slots_.slot != nullptr) return of_slot(slots_.slot[i]);
    if (slots_.slot_int32 != nullptr) return of_slot(slots_.slot_int32[i]);
    return slots_.by_row ? of_row(i) : of_sequence(slots_.batch_indices[i], slots_.positions[i]);
  }

 private:
  Index of_slot(Index slot) const noexcept { return slot < count_ ? slot : -1; }
  Index of_sequence(std::int32_t sequence, std::int32_t position) const noexcept {
    if (sequence < 0 || sequence >= slots_.sequences || position < 0) return -1;
    const auto [page, token] = place_of(position);
    const Index entry = slots_.indptr[sequence] + page;
    if (entry < 0 || entry >= slots_.indptr[sequence + 1]) return -1;
    const Index index = slots_.indices[entry];
    return index >= 0 && index < pages_ ? index * page_size_ + token : -1;
  }
  Index of_row(Index i) const noexcept {
    const Index row = tokens_ == 1 ? i : i / tokens_;
    const Index first = slots_.firsts != nullptr ? slots_.firsts[row] : slots_.first;
    return first < 0 ? -1 : row * page_size_ + first + i - row * tokens_;
  }

  const Slots& slots_;
  Index tokens_, pages_, count_, page_size_;
  int shift_;  // log2(page_size), or -1 if it is no power of two
  bool pages_join_;
};

// ---- the work of a call ----
// The members of these structs are not cleared before they are set: that would cost one token as much as the checks.

// The address of a token's heads or of a cache element. Strides are in bytes.
struct Side {
  std::byte* data;
  Index row, token;

  std::byte* at(Index row_index, Index token_index) const noexcept {
    return data + row_index * row + token_index * token;
  }
};
// A reusable job: each step sets its pointers and its token count.
struct Turn {
  Job job;
  int tokens_at, heads_at;  // the job's dimension of tokens and of heads: 1 and 2, or 2 and 1 if heads are outside
};

struct Work {
  cpu::RotateKernel rotate;
  cpu::TransferKernel transfer;
  Index rows, tokens;
  Index piece;  // tokens
  bool with_q, with_k, with_v;
  bool turns_k;  // k rotates; else it is copied like v
  bool staged;   // k rotates and changes its type
  const float *cos, *sin;
  Index table_row, table_token, table_head;
  Side q_in, q_out, k_in, v_in;
  Side k_out, v_out;  // the cache, with pages as rows
  Turn q, k;
  Transfer k_copy, v_copy;
  Index k_heads, stage_heads, stage_tokens;  // heads of k, and the numbers of heads and tokens in a stage
  const SlotNumbers* slots;
};

void run(const Work& work, Turn& turn, Index row, Index token, Index count, const void* from, void* to,
         Index head = 0) noexcept {
  Job& job = turn.job;
  const Index at = row * work.table_row + token * work.table_token + head * work.table_head;
  job.in = from;
  job.out = to;
  job.cos = work.cos + at;
  job.sin = work.sin + at;
  job.count[turn.tokens_at] = count;
  work.rotate(job, 0, job.rows());
}

void run(const Work& work, Transfer& copy, Index count, const void* from, void* to) noexcept {
  copy.in = from;
  copy.out = to;
  copy.tokens = count;
  work.transfer(copy);
}

// Repeatedly rotates into the stage as many heads of k as it holds, and converts them from there.
void convert_rotated(Work& work, Index row, Index token, Index count, std::byte* out) noexcept {
  alignas(64) std::byte stage[staged_bytes];
  Job& job = work.k.job;
  Transfer& copy = work.k_copy;
  const Index head_bytes = job.in_stride[work.k.heads_at] * bytes_of(copy.from), each = bytes_of(copy.to);
  for (Index i = 0; i < count; i += work.stage_tokens) {
    const Index now = std::min(work.stage_tokens, count - i);
    for (Index h = 0; h < work.k_heads; h += work.stage_heads) {
      copy.heads = job.count[work.k.heads_at] = std::min(work.stage_heads, work.k_heads - h);
      run(work, work.k, row, token + i, now, work.k_in.at(row, token + i) + h * head_bytes, stage, h);
      run(work, copy, now, stage, out + (i * copy.out_token + h * copy.out_head) * each);
    }
  }
}

// Appends k and v of tokens whose slots are consecutive.
void append_stretch(Work& work, Index row, Index token, Index count, const SlotNumbers::Place& to) noexcept {
  const std::byte* const k = work.k_in.at(row, token);
  std::byte* const k_out = work.k_out.at(to.page, to.token);
  if (!work.turns_k) {
    run(work, work.k_copy, count, k, k_out);
  } else if (work.staged) {
    convert_rotated(work, row, token, count, k_out);
  } else {
    run(work, work.k, row, token, count, k, k_out);
  }
  if (work.with_v) run(work, work.v_copy, count, work.v_in.at(row, token), work.v_out.at(to.page, to.token));
}

void append_piece(Work& work, Index row, Index token, Index count) noexcept {
  const SlotNumbers& slots = *work.slots;
  const Index first = row * work.tokens + token;
  for (Index i = 0, length = 1; i < count; i += length, length = 1) {
    const Index slot = slots.of(first + i);
    if (slot < 0) continue;
    const SlotNumbers::Place place = slots.place_of(slot);
    const Index most = std::min({stretch, count - i, slots.even_from(place)});
    while (length < most && slots.of(first + i + length) == slot + length) ++length;
    append_stretch(work, row, token + i, length, place);
  }
}

void run_tokens(Work& work, Index begin, Index end) noexcept {
  while (begin < end) {
    const Index row = work.rows == 1 ? 0 : begin / work.tokens, token = begin - row * work.tokens;
    const Index count = std::min({work.piece, work.tokens - token, end - begin});
    if (work.with_q) run(work, work.q, row, token, count, work.q_in.at(row, token), work.q_out.at(row, token));
    if (work.with_k) append_piece(work, row, token, count);
    begin += count;
  }
}

// Steps change the jobs, so each range works on a copy if there are several.
void run_range(void* context, Index begin, Index end) {
  if (begin == end) return;
  const FloatState ours;
  Work& work = *static_cast<Work*>(context);
  if (end - begin == work.rows * work.tokens) return run_tokens(work, begin, end);
  Work mine = work;
  run_tokens(mine, begin, end);
}

// ---- from a call to its work ----

void set_tokens(Work& work, const Layout& l, bool joined) noexcept {
  work.rows = joined ? 1 : l.batch;
  work.tokens = joined ? l.batch * l.tokens : l.tokens;
}

Index token_stride(const Work& work, const Layout& l) noexcept {
  return l.tokens > 1 ? l.token_stride : work.rows == 1 && l.batch > 1 ? l.batch_stride : 0;
}
Index head_stride(const Layout& l) noexcept { return l.heads > 1 ? l.head_stride : 0; }
Side side(const Work& work, const void* data, DType dtype, const Layout& l) noexcept {
  const Index each = bytes_of(dtype);
  return {static_cast<std::byte*>(const_cast<void*>(data)), l.batch > 1 ? l.batch_stride * each : 0,
          token_stride(work, l) * each};
}

// Keeps the pairing, dtype and table of turn.job and sets its dimensions.
void set_turn(const Work& work, Turn& turn, const Layout& in, Index heads, Index out_token, Index out_head) noexcept {
  Job& job = turn.job;
  const Index in_token = token_stride(work, in), in_head = head_stride(in);
  const bool heads_inside = work.tokens == 1 || in_head <= in_token;
  const int tokens = turn.tokens_at = heads_inside ? 1 : 2, at = turn.heads_at = heads_inside ? 2 : 1;
  job.count[0] = 1;
  job.count[at] = heads;
  job.in_stride[0] = job.out_stride[0] = job.table_stride[0] = 0;
  job.in_stride[tokens] = in_token;
  job.in_stride[at] = in_head;
  job.out_stride[tokens] = out_token;
  job.out_stride[at] = out_head;
  job.table_stride[tokens] = work.table_token;
  job.table_stride[at] = work.table_head;
}

// Sets the copy of x to one side of a cache, divided by scales[0], or by scale if scales is null.
void set_copy(const Work& work, Transfer& copy, const ConstHeads& x, CachedType to, const Layout& cache,
              const float* scales, float scale) noexcept {
  copy.from = x.dtype;
  copy.to = to;
  copy.scale = scales != nullptr ? *scales : scale;
  copy.heads = x.layout.heads;
  copy.head_dim = x.layout.head_dim;
  copy.in_token = token_stride(work, x.layout);
  copy.in_head = head_stride(x.layout);
  copy.out_token = cache.tokens > 1 ? cache.token_stride : cache.batch > 1 ? cache.batch_stride : 0;
  copy.out_head = head_stride(cache);
}
Side pages(void* data, const Layout& cache, Index each) noexcept {
  return {static_cast<std::byte*>(data), cache.batch > 1 ? cache.batch_stride * each : 0,
          cache.tokens > 1 ? cache.token_stride * each : 0};
}

void set_cache(Work& work, const ConstHeads& k, const ConstHeads& v, const Cache& cache, const Layout& k_pages,
               const Layout& v_pages, const SlotNumbers& slots) noexcept {
  work.slots = &slots;
  const CachedType k_type = cached_type(cache.type, k.dtype), v_type = cached_type(cache.type, v.dtype);
  work.k_in = side(work, k.data, k.dtype, k.layout);
  set_copy(work, work.k_copy, k, k_type, k_pages, cache.scales, cache.k_scale);
  work.k_out = pages(k_data(cache, bytes_of(k_type)), k_pages, bytes_of(k_type));
  work.staged = work.turns_k && (k_type.f8 || k_type.dtype != k.dtype);
  work.with_v = has_elements(v.layout);
  if (!work.with_v) return;
  work.v_in = side(work, v.data, v.dtype, v.layout);
  set_copy(work, work.v_copy, v, v_type, v_pages, cache.scales != nullptr ? cache.scales + 1 : nullptr, cache.v_scale);
  work.v_out = pages(cache.v, v_pages, bytes_of(v_type));
}

// The cache must be set before.
void set_k_turn(Work& work, const Layout& l) noexcept {
  Transfer& copy = work.k_copy;
  if (!work.staged) return set_turn(work, work.k, l, l.heads, copy.out_token, copy.out_head);
  const Index room = staged_bytes / (copy.head_dim * bytes_of(copy.from));
  work.k_heads = copy.heads;
  work.stage_heads = std::min(copy.heads, room);
  work.stage_tokens = room / work.stage_heads;
  copy.in_head = copy.head_dim;
  copy.in_token = work.stage_heads * copy.head_dim;
  set_turn(work, work.k, l, work.stage_heads, copy.in_token, copy.in_head);
}

// Whether v's batch rows and tokens form one dimension where k's do.
bool v_joins(const ConstHeads& v) noexcept { return !has_elements(v.layout) || joins(v.layout); }

void run(const char* operation, Work& work, Index token_bytes, const RotateOptions& options) {
  const Index tokens = work.rows * work.tokens, bytes = tokens * token_bytes;
  const bool stream = streams(bytes, options);
  work.q.job.call_bytes = work.k.job.call_bytes = bytes;
  work.k_copy.stream = work.v_copy.stream = stream;
  work.k.job.stream = stream && !work.staged;
  work.q.job.stream = stream && work.with_q && work.q_in.data != work.q_out.data;
  const cpu::Kernels& kernels = cpu::chosen();
  work.rotate = kernels.rotate;
  work.transfer = cpu::transfer_of(kernels);
  check_part(operation, options);
  run_items(options, tokens, token_bytes, run_range, &work);
}

}  // namespace

void append(const ConstHeads& k, const ConstHeads& v, const Cache& cache, const Slots& slots,
            const RotateOptions& options) {
  check_first_is_0("append", options.first);
  if (options.direction != Direction::forward)
    fail(Code::VALUE, "append", "direction must be forward but got value ", static_cast<int>(options.direction));
  check_stores("append", options.stores);
  check_append("append", k, v, cache, slots);
  if (!has_elements(k.layout)) return;
  Work work;
  set_tokens(work, k.layout, joins(k.layout) && v_joins(v));
  work.piece = work.tokens;
  work.with_q = work.turns_k = false;
  work.with_k = true;
  const Layout k_pages = k_layout(cache), v_pages = v_layout(cache);
  const SlotNumbers numbers(slots, k_pages, v_pages, k.layout.tokens);
  set_cache(work, k, v, cache, k_pages, v_pages, numbers);
  run("append", work, token_bytes(k) + token_bytes(v), options);
}

void rotate_append(const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const ConstHeads& v,
                   const Table& table, const Cache& cache, const Slots& slots, const RotateOptions& options) {
  Work work;
  Job& job = work.q.job;
  check_rotate_append("rotate_append", q, q_out, k, v, table, cache, slots, options, job);
  check_stores("rotate_append", options.stores);
  const Layout& l = q.layout;
  work.with_q = has_elements(l);
  work.with_k = work.turns_k = has_elements(k.layout);
  check_k_rows("rotate_append", k.layout, table.head_rows());
  if (table.head_rows() != 1 || (options.first != 0 && q.data != q_out.data)) {
    rotate(q, q_out, table, options);
    work.with_q = false;
  }
  if (!work.with_q && !work.with_k) return;
  set_tokens(
      work, l,
      (table.batch() == l.batch || l.tokens == 1) && joins(l) && joins(q_out.layout) && joins(k.layout) && v_joins(v));
  const Layout k_pages = k_layout(cache), v_pages = v_layout(cache);
  const SlotNumbers numbers(slots, k_pages, v_pages, l.tokens);
  work.cos = job.cos;
  work.sin = job.sin;
  const Index table_row = std::int64_t{table.head_rows()} * table.pairs();
  work.table_row = table.batch() > 1 ? l.tokens * table_row : 0;
  work.table_token = l.tokens > 1 || table.batch() > 1 ? table_row : 0;
  work.table_head = table.head_rows() == 1 ? 0 : table.pairs();
  const Index table_bytes = table_row * Index{2 * sizeof(float)};
  work.piece = work.tokens == 1 ? 1 : parts_of(append_table_bytes, table_bytes);
  Index bytes = 0;
  if (work.with_k) {
    Job& turn = work.k.job;
    turn.dtype = k.dtype;
    turn.read_interleaved = job.read_interleaved;
    turn.write_interleaved = job.write_interleaved;
    turn.backward = job.backward;
    turn.pairs = job.pairs;
    turn.rest = k.layout.head_dim - table.rotary_dim();
    set_cache(work, k, v, cache, k_pages, v_pages, numbers);
    set_k_turn(work, k.layout);
    bytes += token_bytes(k) + token_bytes(v);
  }
  if (work.with_q) {
    const Index first = options.first * bytes_of(q.dtype);
    work.q_in = side(work, static_cast<const std::byte*>(q.data) + first, q.dtype, l);
    work.q_out = side(work, static_cast<const std::byte*>(q_out.data) + first, q.dtype, q_out.layout);
    set_turn(work, work.q, l, l.heads, token_stride(work, q_out.layout), head_stride(q_out.layout));
    bytes += token_bytes(q);
  }
  run("rotate_append", work, bytes, options);
}

void rotate_append(const Heads& q, const ConstHeads& k, const ConstHeads& v, const Table& table, const Cache& cache,
                   const Slots& slots, const RotateOptions& options) {
  rotate_append(ConstHeads(q), q, k, v, table, cache, slots, options);
}

}  // namespace rotary
