// rotate and its forms: check the call, then run the chosen kernel on the caller's executor.
#include "runtime/arithmetic.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

#include "call_threads.h"
#include "checks.h"
#include "cpu/targets.h"
#include "cpu/tuning.h"
#include "runtime/float_state.h"
#include "table/positions.h"
#include "table/table_checks.h"
#include "values/fail.h"

namespace rotary {

using namespace detail;
namespace {

using Index = std::int64_t;

bool moves(const Job& job) { return job.in != job.out; }

// ---- one job ----

struct JobRun {
  const Job* job;
  cpu::RotateKernel kernel;
};

void rotate_rows(void* context, Index begin, Index end) {
  const FloatState ours;
  const JobRun& run = *static_cast<const JobRun*>(context);
  run.kernel(*run.job, begin, end);
}

// One job by the caller's rows, found by number. Its items are the tokens with row numbers of their own; each has
// `group` rows of the job, its heads.
struct NumberedRun {
  const Job& job;
  const Rows& rows;
  cpu::RotateKernel kernel;
  int token_at = 0, batch_at = 0;  // dimensions of the job; without meaning for 1 token, for 1 batch row
  Index tokens = 1, group = 0;

  NumberedRun(const Job& j, const Rows& r) : job(j), rows(r), kernel(cpu::chosen().rotate) {
    Index batch = 1;
    for (int k = 0; k < 3; ++k) {
      const Index stride = job.table_stride[k];
      if (stride == rows.pairs) tokens = job.count[token_at = k];
      if (stride > rows.pairs) batch = job.count[batch_at = k];
    }
    group = job.rows() / (batch * tokens);
  }

  // The number of items from `item` on, at most `most`, whose rows are equally far apart; sets the distance.
  Index stretch(Index item, Index most, Index& step) const {
    const auto number = [&](Index i) { return PositionsAccess::integer(rows.numbers, i); };
    most = std::min(most, tokens - item % tokens);
    Index count = 1;
    step = most > 1 ? number(item + 1) - number(item) : 0;
    while (step >= 0 && count < most && number(item + count) == number(item) + count * step) ++count;
    return count;
  }

  // Rows [begin, end) of the part of the job that has `count` items.
  void rotate(Index item, Index count, Index step, Index begin, Index end) const {
    Job part = job;
    const Index token = item % tokens, batch = item / tokens;
    const auto first = [&](const Index(&stride)[3]) {
      return (token * stride[token_at] + batch * stride[batch_at]) * job.element_bytes();
    };
    part.in = static_cast<const std::byte*>(job.in) + first(job.in_stride);
    part.out = static_cast<std::byte*>(job.out) + first(job.out_stride);
    const Index row = PositionsAccess::integer(rows.numbers, item) * rows.stride;
    part.cos = static_cast<const float*>(rows.cos) + row;
    part.sin = static_cast<const float*>(rows.sin) + row;
    part.call_bytes = job.bytes_read();
    for (int k = 0; k < 3; ++k) {
      if (job.table_stride[k] == 0) continue;
      part.count[k] = k == token_at ? count : 1;
      part.table_stride[k] = k == token_at ? step * rows.stride : 0;
    }
    kernel(part, begin, end);
  }
};

void rotate_numbered(void* context, Index begin, Index end) {
  const FloatState ours;
  const NumberedRun& run = *static_cast<const NumberedRun*>(context);
  for (Index next; begin < end; begin = next) {
    const Index from = begin % run.group, whole = (end - begin) / run.group;
    Index count = 1, step = 0;
    if (from == 0) count = run.stretch(begin / run.group, whole, step);
    next = std::min(end, begin - from + count * run.group);
    run.rotate(begin / run.group, count, step, from, next - begin + from);
  }
}

void run_job(const Job& job, const Rows* rows, const RotateOptions& options) {
  if (job.rows() == 0) return;
  if (rows == nullptr) {
    JobRun run{&job, cpu::chosen().rotate};
    return run_items(options, job.rows(), job.row_bytes(), rotate_rows, &run);
  }
  NumberedRun run(job, *rows);
  run_items(options, job.rows(), job.row_bytes(), rotate_numbered, &run);
}

void run(const char* operation, Job&& job, const Table& table, const RotateOptions& options) {
  check_stores(operation, options.stores);
  check_part(operation, options);
  job.stream = moves(job) && streams(job.bytes_read(), options);
  run_job(job, RowsAccess::of(table), options);
}

// ---- two jobs: one dispatch, one pass over the table ----

// How a job walks the table: the dimensions that change the table's row, and how many successive rows share one.
struct Walk {
  Index count[3];
  Index stride[3];
  int dimensions = 0;
  Index group = 1;

  explicit Walk(const Job& job) {
    int last = 3;
    while (last > 0 && job.table_stride[last - 1] == 0) group *= job.count[--last];
    for (int k = 0; k < last; ++k) {
      if (job.count[k] == 1) continue;
      count[dimensions] = job.count[k];
      stride[dimensions++] = job.table_stride[k];
    }
  }
  bool same_as(const Walk& other) const {
    return dimensions == other.dimensions && std::equal(count, count + dimensions, other.count) &&
           std::equal(stride, stride + dimensions, other.stride);
  }
};

struct TwoWorks {
  const Jobs* jobs;
  cpu::RotateKernel kernel;
  Index q_group{}, k_group{};  // rows that share a row of the table
  Index chunk{};               // groups
};

// q's rows of a few rows of the table, then k's, and so on.
void rotate_groups(void* context, Index begin, Index end) {
  const FloatState ours;
  const TwoWorks& work = *static_cast<const TwoWorks*>(context);
  for (Index next; begin < end; begin = next) {
    next = std::min(end, begin + work.chunk);
    work.kernel(work.jobs->q, begin * work.q_group, next * work.q_group);
    work.kernel(work.jobs->k, begin * work.k_group, next * work.k_group);
  }
}

// All rows of q, then all of k.
void rotate_both(void* context, Index begin, Index end) {
  const FloatState ours;
  const TwoWorks& work = *static_cast<const TwoWorks*>(context);
  const Index q_rows = work.jobs->q.rows();
  if (begin < q_rows) work.kernel(work.jobs->q, begin, std::min(end, q_rows));
  if (end > q_rows) work.kernel(work.jobs->k, std::max(begin, q_rows) - q_rows, end - q_rows);
}

void run_jobs(Jobs& jobs, const RotateOptions& options) {
  Job &q = jobs.q, &k = jobs.k;
  const Index q_rows = q.rows(), k_rows = k.rows();
  if (k_rows == 0) return run_job(q, nullptr, options);
  if (q_rows == 0) return run_job(k, nullptr, options);
  q.call_bytes = k.call_bytes = q.bytes_read() + k.bytes_read();
  TwoWorks work{&jobs, cpu::chosen().rotate};
  const Index row_bytes = q.pairs * Index{2 * sizeof(float)};
  // Not for few tokens: their rows of the table stay in the cache anyway, and threads share heads. Nor for
  // [B, H, S, D], where every head walks the table.
  const Index table_bytes = tuning().table_bytes;
  if (jobs.table_rows * row_bytes > table_bytes) {
    const Walk q_walk(q), k_walk(k);
    if (q_walk.group > 1 && q_walk.same_as(k_walk)) {
      work.q_group = q_walk.group;
      work.k_group = k_walk.group;
      work.chunk = std::max<Index>(1, table_bytes / row_bytes);
      const Index group_bytes = q_walk.group * q.row_bytes() + k_walk.group * k.row_bytes();
      return run_items(options, q_rows / q_walk.group, group_bytes, rotate_groups, &work);
    }
  }
  run_items(options, q_rows + k_rows, std::min(q.row_bytes(), k.row_bytes()), rotate_both, &work);
}

void run(const char* operation, Jobs&& jobs, const Table& table, const RotateOptions& options) {
  check_stores(operation, options.stores);
  check_part(operation, options);
  if (moves(jobs.q) || moves(jobs.k)) {
    const bool past = streams(jobs.q.bytes_read() + jobs.k.bytes_read(), options);
    jobs.q.stream = past && moves(jobs.q);
    jobs.k.stream = past && moves(jobs.k);
  }
  const Rows* const rows = RowsAccess::of(table);
  if (rows == nullptr) return run_jobs(jobs, options);
  run_job(jobs.q, rows, options);
  run_job(jobs.k, rows, options);
}

// ---- heads whose block does not begin at element 0 ----

struct Front {
  const ConstHeads& in;
  const Heads& out;
  std::size_t bytes;
};

void copy_fronts(void* context, Index begin, Index end) {
  const Front& front = *static_cast<const Front*>(context);
  const Index each = bytes_of(front.in.dtype);
  for (Index i = begin; i < end; ++i) {
    std::memcpy(static_cast<std::byte*>(front.out.data) + head_at(front.out.layout, i) * each,
                static_cast<const std::byte*>(front.in.data) + head_at(front.in.layout, i) * each, front.bytes);
  }
}

// Copies the elements before the block, out of place; the call is already checked.
void copy_front(const char* operation, const InOut& x, const RotateOptions& options) {
  if (options.first == 0 || x.in.data == x.out.data || !has_elements(x.in.layout)) return;
  Front front{x.in, x.out, static_cast<std::size_t>(options.first * bytes_of(x.in.dtype))};
  const Layout& l = x.in.layout;
  check_part(operation, options);
  run_items(options, l.batch * l.tokens * l.heads, static_cast<Index>(front.bytes), copy_fronts, &front);
}

// ---- one call ----

// x alone, or q and k. X: Heads, in place, or InOut.
template <class X>
struct RotateCall {
  const char* operation;
  const X* q;  // or x
  const X* k = nullptr;
};

template <class X>
[[gnu::always_inline]] inline void run_checked(const RotateCall<X>& call, const Table& table,
                                               const RotateOptions& options) {
  const char* const operation = call.operation;
  const Direction direction = options.direction;
  if (call.k != nullptr)
    return run(operation, check_rotate_qk(operation, *call.q, *call.k, table, direction), table, options);
  run(operation, check_rotate(operation, *call.q, table, direction), table, options);
}

// Checks the heads and their blocks, then copies the elements before the blocks.
void copy_fronts(const RotateCall<InOut>& call, const Table& table, const RotateOptions& options) {
  const InOut& q = *call.q;
  if (call.k != nullptr) {
    check_heads_from(call.operation, q, *call.k, table, options);
    copy_front(call.operation, *call.k, options);
  } else {
    check_heads_from({call.operation, "x", "out", ""}, q, table, options);
  }
  copy_front(call.operation, q, options);
}
void copy_fronts(const RotateCall<Heads>&, const Table&, const RotateOptions&) {}  // in place they stay as they are

// Calls work(blocks) with the same call for the elements of each head from `first` on.
template <class X, class Work>
void with_blocks(RotateCall<X> call, int first, const Work& work) {
  const X q = behind(call.operation, *call.q, first);
  const X k = call.k != nullptr ? behind(call.operation, *call.k, first) : q;
  call.q = &q;
  if (call.k != nullptr) call.k = &k;
  work(call);
}

// ---- tables with rows per head ----

// Heads member, member + groups, ...: one from each group that shares a row.
template <class View>
View members(const View& x, std::int64_t rows, std::int64_t member) {
  View some = heads_of(x, member, rows);
  some.layout.head_stride *= x.layout.heads / rows;
  return some;
}

void run_per_head(const char* operation, const InOut& block, const Table& table, const RotateOptions& options) {
  const std::int64_t group = block.in.layout.heads / table.head_rows();
  for (std::int64_t m = 0; m < group; ++m) {
    const InOut some{members(block.in, table.head_rows(), m), members(block.out, table.head_rows(), m)};
    run(operation, check_rotate(operation, some, table, options.direction), table, options);
  }
}

void rotate_per_head(const RotateCall<InOut>& call, const Table& table, const RotateOptions& options) {
  copy_fronts(call, table, options);
  with_blocks(call, options.first, [&](const RotateCall<InOut>& blocks) {
    run_per_head(call.operation, *blocks.q, table, options);
    if (blocks.k != nullptr) run_per_head(call.operation, *blocks.k, table, options);
  });
}

InOut in_out(const InOut& x) { return x; }
InOut in_out(const Heads& x) { return {x, x}; }

// A call that needs more than its jobs. Not inlined: few calls reach it.
template <class X>
ROTARY_NOINLINE void rotate_blocks(const RotateCall<X>& call, const Table& table, const RotateOptions& options) {
  if (table.head_rows() == 1) {
    copy_fronts(call, table, options);
    return with_blocks(call, options.first, [&](const RotateCall<X>& blocks) { run_checked(blocks, table, options); });
  }
  const InOut q = in_out(*call.q), k = in_out(call.k != nullptr ? *call.k : *call.q);
  rotate_per_head({call.operation, &q, call.k != nullptr ? &k : nullptr}, table, options);
}

template <class X>
[[gnu::always_inline]] inline void rotate_all(const RotateCall<X>& call, const Table& table,
                                              const RotateOptions& options) {
  if (table.head_rows() == 1 && options.first == 0) return run_checked(call, table, options);
  rotate_blocks(call, table, options);
}

// ---- rows of the caller's ----

// Calls work(table) with a table that finds the rows by number or, if they are not f32, holds them.
template <class Work>
void by_rows(const char* operation, const Rows& rows, const Work& work) {
  if (rows.dtype != DType::f32 || rows.head_rows != 1) return work(Table(rows));
  check_rows(operation, rows);
  Table table;
  RowsAccess::set(table, rows);
  work(table);
}

}  // namespace

void rotate(const Heads& x, const Table& table, const RotateOptions& options) {
  rotate_all<Heads>({"rotate", &x}, table, options);
}
void rotate(const ConstHeads& x, const Heads& out, const Table& table, const RotateOptions& options) {
  const InOut both{x, out};
  rotate_all<InOut>({"rotate", &both}, table, options);
}

void rotate_qk(const Heads& q, const Heads& k, const Table& table, const RotateOptions& options) {
  rotate_all<Heads>({"rotate_qk", &q, &k}, table, options);
}
void rotate_qk(const InOut& q, const InOut& k, const Table& table, const RotateOptions& options) {
  rotate_all<InOut>({"rotate_qk", &q, &k}, table, options);
}

void rotate(const Heads& x, const Rows& rows, const RotateOptions& options) {
  by_rows("rotate", rows, [&](const Table& table) { rotate(x, table, options); });
}
void rotate(const ConstHeads& x, const Heads& out, const Rows& rows, const RotateOptions& options) {
  by_rows("rotate", rows, [&](const Table& table) { rotate(x, out, table, options); });
}
void rotate_qk(const Heads& q, const Heads& k, const Rows& rows, const RotateOptions& options) {
  by_rows("rotate_qk", rows, [&](const Table& table) { rotate_qk(q, k, table, options); });
}
void rotate_qk(const InOut& q, const InOut& k, const Rows& rows, const RotateOptions& options) {
  by_rows("rotate_qk", rows, [&](const Table& table) { rotate_qk(q, k, table, options); });
}

void rotate_qk(const Heads& q, const Heads& k, const Rope& rope, std::int64_t first_position,
               const RotateOptions& options) {
  constexpr const char* operation = "rotate_qk";
  const auto check_head_dim = [&](const char* side, const Layout& l) {
    if (l.head_dim == rope.head_dim) return;
    fail(Code::SHAPE, operation, side, " must have the rope's head_dim ", rope.head_dim, " but got ", l.head_dim);
  };
  check_head_dim("q", q.layout);
  check_head_dim("k", k.layout);
  if (first_position < 0) fail(Code::POSITION, operation, "first_position must be at least 0 but got ", first_position);
  const std::int64_t tokens = q.layout.tokens;
  const Positions at = positions(first_position, tokens);
  std::int64_t length = 0;
  if (add_overflows(first_position, tokens, &length)) length = std::numeric_limits<std::int64_t>::max();
  Frequencies turns = frequencies(rope, length);
  const int width = 2 * turns.pairs();
  const Heads of_q = slice(q, options.first, width), of_k = slice(k, options.first, width);
  const TableShape shape{turns.pairing, turns.pairs(), 1, tokens, turns.head_rows};
  check_heads(operation, {of_q, of_q}, {of_k, of_k}, shape, options.direction);
  const Executor& threads = executor_of(options);
  const Table table(turns, at, threads);
  RotateOptions of_slices = options;
  of_slices.first = 0;
  if (!table.xpos()) return rotate_qk(of_q, of_k, table, of_slices);
  rotate(of_q, table, of_slices);
  turns.xpos.reciprocal = !turns.xpos.reciprocal;
  rotate(of_k, Table(turns, at, threads), of_slices);
}

}  // namespace rotary
