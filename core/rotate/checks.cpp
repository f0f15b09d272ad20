#include "runtime/arithmetic.h"

#include "checks.h"

#include <algorithm>
#include <limits>
#include <string>

#include "call_threads.h"
#include "overlap.h"
#include "values/dtypes.h"
#include "values/pairings.h"

namespace rotary::detail {
namespace {

// ---- memory that two sides share ----

Blocks blocks(const Job& job, const void* data, const std::int64_t (&stride)[3]) noexcept {
  const std::int64_t each = job.element_bytes();
  return {address_of(data),
          job.row_bytes(),
          {job.count[0], job.count[1], job.count[2]},
          {stride[0] * each, stride[1] * each, stride[2] * each}};
}

// True if elements of a and b overlap. Not inlined: few calls reach it.
ROTARY_NOINLINE bool meet(const Job& a, const void* a_data, const std::int64_t (&a_stride)[3], const Job& b,
                          const void* b_data, const std::int64_t (&b_stride)[3]) noexcept {
  return blocks_meet(blocks(a, a_data, a_stride), blocks(b, b_data, b_stride));
}

// The memory of a job's input and output, from the first element to the end of the last. Empty without elements.
struct JobRanges {
  Range in, out;
};

// ---- the rules, for calls that keep them ----

// One dimension of a call, with its strides in x, out and the table.
struct Dimension {
  std::int64_t count;
  std::int64_t in_stride;
  std::int64_t out_stride;
  std::int64_t table_stride;

  // Outermost first: sizes of one, then by the output's stride. Rows are walked as they lie in memory.
  std::int64_t rank() const noexcept { return count > 1 ? out_stride : std::numeric_limits<std::int64_t>::max(); }
};

[[gnu::always_inline]] inline void order(Dimension& outer, Dimension& inner) noexcept {
  if (outer.rank() < inner.rank()) std::swap(outer, inner);
}

// Adds dimension k of the job, the innermost first. Written elements must be distinct: each stride steps over all that
// the smaller strides reach.
[[gnu::always_inline]] inline bool add_dimension(Job& job, int k, const Dimension& d, std::int64_t& extent,
                                                 bool& same_strides) noexcept {
  const bool moves = d.count > 1;
  job.count[k] = d.count;
  job.in_stride[k] = moves ? d.in_stride : 0;
  job.out_stride[k] = moves ? d.out_stride : 0;
  job.table_stride[k] = moves ? d.table_stride : 0;
  if (!moves) return true;
  same_strides &= d.in_stride == d.out_stride;
  return d.out_stride >= extent && extend(extent, d.count, d.out_stride);
}

// X is Heads or ConstHeads, so that a call in place does not copy its heads.
template <class X>
[[gnu::always_inline]] inline bool add_strides(Job& job, const X& x, const Heads& out, const TableShape& table,
                                               JobRanges& ranges) noexcept {
  const Layout &from = x.layout, &to = out.layout;
  const std::int64_t row = std::int64_t{table.head_rows} * table.pairs;
  Dimension outer{from.batch, from.batch_stride, to.batch_stride, table.batch == 1 ? 0 : from.tokens * row};
  Dimension middle{from.tokens, from.token_stride, to.token_stride, row};
  Dimension inner{from.heads, from.head_stride, to.head_stride, table.head_rows == 1 ? 0 : table.pairs};
  order(outer, middle);
  order(middle, inner);
  order(outer, middle);

  bool same_strides = true;
  std::int64_t written = from.head_dim;
  if (!add_dimension(job, 2, inner, written, same_strides) || !add_dimension(job, 1, middle, written, same_strides) ||
      !add_dimension(job, 0, outer, written, same_strides)) {
    return false;
  }
  const std::int64_t each = job.element_bytes();
  Range in_range, out_range;
  if (!lies_at(job.out, written, each, out_range)) return false;
  ranges = {out_range, out_range};
  if (same_strides && job.in == job.out) return true;
  std::int64_t read = same_strides ? written : from.head_dim;
  if (!same_strides && !extend(read, from)) return false;
  if (!lies_at(job.in, read, each, in_range)) return false;
  ranges.in = in_range;
  return in_range.apart(out_range) || !meet(job, job.in, job.in_stride, job, job.out, job.out_stride);
}

void clear(Job& job) noexcept { std::fill_n(job.count, 3, std::int64_t{0}); }

// Sets the job of a call from x to out; false if a rule is broken, and refuse() then knows which.
template <class X>
[[gnu::always_inline]] inline bool set_job(const X& x, const Heads& out, const TableShape& table, Direction direction,
                                           Job& job, JobRanges& ranges) noexcept {
  const Pairing pairing = table.pairing;
  if (x.dtype != out.dtype || !is_built(x.dtype) || !is_set(pairing)) return false;
  if (direction > Direction::backward) return false;
  if (!same_shape(x.layout, out.layout) || table.tokens != x.layout.tokens) return false;
  if (table.batch != 1 && table.batch != x.layout.batch) return false;
  if (table.rotary_dim() > x.layout.head_dim) return false;
  if (table.head_rows != 1 && x.layout.heads % table.head_rows != 0) return false;
  job.in = x.data;
  job.out = out.data;
  job.dtype = x.dtype;
  const Order order = order_of(pairing, direction);
  job.read_interleaved = order.read_interleaved;
  job.write_interleaved = order.write_interleaved;
  job.backward = direction == Direction::backward;
  job.pairs = table.pairs;
  job.rest = x.data == out.data ? 0 : x.layout.head_dim - table.rotary_dim();
  if (has_elements(x.layout)) return add_strides(job, x, out, table, ranges);
  clear(job);
  return x.layout.batch >= 0 && x.layout.tokens >= 0 && x.layout.heads >= 0;
}

// Heads are x and out in one, so that a call in place reads and compares nothing twice.
bool make_job(const Heads& x, const Heads&, const TableShape& table, Direction direction, Job& job,
              JobRanges& ranges) noexcept {
  return set_job(x, x, table, direction, job, ranges);
}
bool make_job(const ConstHeads& x, const Heads& out, const TableShape& table, Direction direction, Job& job,
              JobRanges& ranges) noexcept {
  return set_job(x, out, table, direction, job, ranges);
}

// Sets the table's rows; jobs are made without them, because they may lie elsewhere.
void set_rows(Job& job, const Table& table) noexcept {
  job.cos = table.cos().data();
  job.sin = table.sin().data();
}

// Copies the names, so that callers construct theirs only on an error.
template <class X>
[[gnu::always_inline]] inline JobRanges make(const Names& names, const X& x, const Heads& out, const TableShape& table,
                                             Direction direction, Job& job) {
  JobRanges ranges{};
  if (!make_job(x, out, table, direction, job, ranges)) refuse(Names(names), x, out, table, direction);
  return ranges;
}

// ---- q and k ----

// Whether k's heads follow q's in one tensor, as a projection writes them; sets that tensor's layout.
template <class X>
[[gnu::always_inline]] inline bool join(const X& q, const X& k, Layout& both) noexcept {
  const Layout &a = q.layout, &b = k.layout;
  if (q.dtype != k.dtype || !is_built(q.dtype)) return false;
  const std::uintptr_t gap = address_of(k.data) - address_of(q.data);
  const auto each = static_cast<std::uintptr_t>(bytes_of(q.dtype));
  const std::int64_t stride = a.heads != 1 ? a.head_stride : static_cast<std::int64_t>(gap / each);
  if (gap != static_cast<std::uintptr_t>(a.heads) * static_cast<std::uintptr_t>(stride) * each) return false;
  if (a.heads <= 0 || b.heads <= 0 || (b.heads != 1 && b.head_stride != stride)) return false;
  if (a.batch != b.batch || a.tokens != b.tokens || a.head_dim != b.head_dim) return false;
  if (a.tokens != 1 && a.token_stride != b.token_stride) return false;
  if (a.batch != 1 && a.batch_stride != b.batch_stride) return false;
  both = a;
  both.head_stride = stride;
  return !add_overflows(a.heads, b.heads, &both.heads);
}

// The outputs of q and k must not overlap each other's inputs or outputs. Not inlined: for most calls the ranges
// decide.
ROTARY_NOINLINE void check_disjoint(const char* operation, const Job& q, const Job& k) {
  const bool q_moves = q.in != q.out, k_moves = k.in != k.out;
  const char *q_out = q_moves ? "q_out" : "q", *k_out = k_moves ? "k_out" : "k";
  if (meet(q, q.out, q.out_stride, k, k.out, k.out_stride)) refuse_overlap(operation, q_out, k_out);
  if (meet(q, q.out, q.out_stride, k, k.in, k.in_stride)) refuse_overlap(operation, q_out, "k");
  if (meet(k, k.out, k.out_stride, q, q.in, q.in_stride)) refuse_overlap(operation, k_out, "q");
}

template <class X>
void check_each(const char* operation, const X& q, const Heads& q_out, const X& k, const Heads& k_out,
                const TableShape& table, Direction direction, Jobs& jobs) {
  const JobRanges of_q = make({operation, "q", "q_out", " of q"}, q, q_out, table, direction, jobs.q);
  const JobRanges of_k = make({operation, "k", "k_out", " of k"}, k, k_out, table, direction, jobs.k);
  if (q.layout.batch != k.layout.batch)
    fail(Code::SHAPE, operation, "q and k must have one batch but got ", q.layout.batch, " and ", k.layout.batch);
  if (!of_q.out.apart(of_k.out) || !of_q.out.apart(of_k.in) || !of_k.out.apart(of_q.in))
    check_disjoint(operation, jobs.q, jobs.k);
}

Jobs jobs_by(const char* operation, const TableShape& table) {
  if (table.xpos) refuse_xpos(operation);
  Jobs jobs;
  clear(jobs.k);
  jobs.table_rows = table.tokens * table.batch;
  return jobs;
}

void set_rows(Jobs& jobs, const Table& table) noexcept {
  set_rows(jobs.q, table);
  set_rows(jobs.k, table);
}

Jobs jobs_of(const char* operation, const InOut& q, const InOut& k, const TableShape& table, Direction direction) {
  Jobs jobs = jobs_by(operation, table);
  Layout in, out;
  JobRanges ranges{};
  if (table.head_rows != 1 || q.in.layout.heads != q.out.layout.heads || !join(q.in, k.in, in) ||
      !join(q.out, k.out, out) ||
      !make_job({q.in.data, q.in.dtype, in}, {q.out.data, q.out.dtype, out}, table, direction, jobs.q, ranges)) {
    check_each(operation, q.in, q.out, k.in, k.out, table, direction, jobs);
  }
  return jobs;
}

}  // namespace

void check_rotate(const Names& names, const ConstHeads& x, const Heads& out, const Table& table, Direction direction,
                  Job& job) {
  make(names, x, out, shape_of(table), direction, job);
  set_rows(job, table);
}
Job check_rotate(const char* operation, const Heads& x, const Table& table, Direction direction) {
  Job job;
  make({operation, "x", "x", ""}, x, x, shape_of(table), direction, job);
  set_rows(job, table);
  return job;
}
Job check_rotate(const char* operation, const InOut& x, const Table& table, Direction direction) {
  Job job;
  make({operation, "x", "out", ""}, x.in, x.out, shape_of(table), direction, job);
  set_rows(job, table);
  return job;
}
void check_heads(const Names& names, const ConstHeads& x, const Heads& out, const TableShape& table,
                 Direction direction) {
  Job job;
  make(names, x, out, table, direction, job);
}

Jobs check_rotate_qk(const char* operation, const Heads& q, const Heads& k, const Table& rows, Direction direction) {
  const TableShape& table = shape_of(rows);
  Jobs jobs = jobs_by(operation, table);
  Heads both{q.data, q.dtype, {}};
  JobRanges ranges{};
  if (!join(q, k, both.layout) || !make_job(both, both, table, direction, jobs.q, ranges))
    check_each(operation, q, q, k, k, table, direction, jobs);
  set_rows(jobs, rows);
  return jobs;
}
Jobs check_rotate_qk(const char* operation, const InOut& q, const InOut& k, const Table& table, Direction direction) {
  Jobs jobs = jobs_of(operation, q, k, shape_of(table), direction);
  set_rows(jobs, table);
  return jobs;
}
void check_heads(const char* operation, const InOut& q, const InOut& k, const TableShape& table, Direction direction) {
  jobs_of(operation, q, k, table, direction);
}

void check_heads_from(const Names& names, const InOut& x, const Table& table, const RotateOptions& options) {
  const InOut block = behind(names.operation, x, options.first);
  check_heads(names, block.in, block.out, shape_of(table), options.direction);
  if (options.first != 0) check_heads(names, x.in, x.out, shape_of(table), options.direction);
}
void check_heads_from(const char* operation, const InOut& q, const InOut& k, const Table& table,
                      const RotateOptions& options) {
  check_heads(operation, behind(operation, q, options.first), behind(operation, k, options.first), shape_of(table),
              options.direction);
  if (options.first != 0) check_heads(operation, q, k, shape_of(table), options.direction);
}

std::int64_t checked_product(const char* operation, std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (a < 0 || b < 0) fail(Code::SHAPE, operation, "sizes must not be negative but got ", std::min(a, b));
  if (multiply_overflows(a, b, &product))
    fail(Code::SHAPE, operation, "the elements must number less than 2^63 but got ", a, " times ", b);
  return product;
}

void check_inside(const Layout& l, std::size_t elements) {
  check_sizes("heads", l);
  if (!has_elements(l)) return;
  std::int64_t extent = l.head_dim;
  const bool sound = extend(extent, l);
  if (sound && static_cast<std::uint64_t>(extent) <= elements) return;
  fail(Code::SHAPE, "heads", "the layout must lie inside the memory of ", elements, " elements but ",
       sound ? "reaches " + std::to_string(extent) : "has a stride below 0 or spans 2^63 elements or more");
}

void check_stores(const char* operation, Stores stores) {
  if (stores <= Stores::streaming) return;
  fail(Code::VALUE, operation, "stores must be automatic, cached or streaming but got value ",
       static_cast<int>(stores));
}

void check_first_is_0(const char* operation, int first) {
  if (first != 0) fail(Code::SHAPE, operation, "first must be 0 but got ", first);
}

bool streams(std::int64_t bytes_read, const RotateOptions& options) {
  if (options.stores != Stores::automatic) return options.stores == Stores::streaming;
  return tuning().streams(options.executor == nullptr ? bytes_read : bytes_read / options.executor->concurrency());
}

}  // namespace rotary::detail
