#include "runtime/arithmetic.h"

#include "checks.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>

#include "overlap.h"
#include "refuse.h"
#include "values/dtypes.h"
#include "values/pairings.h"

namespace rotary::detail {
namespace {

// ---- memory that two sides share ----

Blocks blocks(const Job& job, const void* data, const std::int64_t (&stride)[3]) noexcept {
  const std::int64_t each = job.element_bytes();
  return {reinterpret_cast<std::uintptr_t>(data),
          job.row_bytes(),
          {job.count[0], job.count[1], job.count[2]},
          {stride[0] * each, stride[1] * each, stride[2] * each}};
}

// Whether a's and b's elements, at those places, meet. In a function of its own, as few calls come to it.
ROTARY_NOINLINE bool meet(const Job& a, const void* a_data, const std::int64_t (&a_stride)[3], const Job& b,
                          const void* b_data, const std::int64_t (&b_stride)[3]) noexcept {
  return blocks_meet(blocks(a, a_data, a_stride), blocks(b, b_data, b_stride));
}

// ---- the rules, for calls that keep them ----

// One dimension of a call, with what each step means in x, out and the table.
struct Dimension {
  std::int64_t count;
  std::int64_t in_stride;
  std::int64_t out_stride;
  std::int64_t table_stride;

  // Outermost first: sizes of one, then by the stride of what is written. Rows are walked as they lie in memory.
  std::int64_t rank() const noexcept { return count > 1 ? out_stride : std::numeric_limits<std::int64_t>::max(); }
};

void order(Dimension& outer, Dimension& inner) noexcept {
  if (outer.rank() < inner.rank()) std::swap(outer, inner);
}

// One side of a call: the elements from its first to its last.
struct Extent {
  std::int64_t elements;

  bool lies_at(const void* data, std::int64_t each, std::uintptr_t& end) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(data);
    std::int64_t bytes = 0;
    if (multiply_overflows(elements, each, &bytes)) return false;
    return data != nullptr && (address & static_cast<std::uintptr_t>(each - 1)) == 0 &&
           !add_overflows(address, static_cast<std::uintptr_t>(bytes), &end);
  }
};

// Dimension k of the job, the innermost first: written elements are distinct, each stride steps over all that the
// smaller strides reach.
bool add_dimension(Job& job, int k, const Dimension& d, Extent& out, bool& same_strides) noexcept {
  const bool moves = d.count > 1;
  job.count[k] = d.count;
  job.in_stride[k] = moves ? d.in_stride : 0;
  job.out_stride[k] = moves ? d.out_stride : 0;
  job.table_stride[k] = moves ? d.table_stride : 0;
  if (!moves) return true;
  same_strides &= d.in_stride == d.out_stride;
  return d.out_stride >= out.elements && extend(out.elements, d.count, d.out_stride);
}

// X is Heads or ConstHeads: a call in place makes no copy of its heads.
template <class X>
bool add_strides(Job& job, const X& x, const Heads& out, const TableShape& table) noexcept {
  const Layout &from = x.layout, &to = out.layout;
  const std::int64_t pairs = table.pairs;
  Dimension outer{from.batch, from.batch_stride, to.batch_stride, table.batch == 1 ? 0 : from.tokens * pairs};
  Dimension middle{from.tokens, from.token_stride, to.token_stride, pairs};
  Dimension inner{from.heads, from.head_stride, to.head_stride, 0};
  order(outer, middle);
  order(middle, inner);
  order(outer, middle);

  bool same_strides = true;
  Extent written{from.head_dim};
  if (!add_dimension(job, 2, inner, written, same_strides) || !add_dimension(job, 1, middle, written, same_strides) ||
      !add_dimension(job, 0, outer, written, same_strides)) {
    return false;
  }
  const std::int64_t each = job.element_bytes();
  std::uintptr_t in_end = 0, out_end = 0;
  if (!written.lies_at(job.out, each, out_end)) return false;
  if (same_strides && job.in == job.out) return true;
  Extent read = written;
  if (!same_strides) {
    read.elements = from.head_dim;
    for (int k = 0; k < 3; ++k) {
      if (job.in_stride[k] < 0 || !extend(read.elements, job.count[k], job.in_stride[k])) return false;
    }
  }
  if (!read.lies_at(job.in, each, in_end)) return false;
  return in_end <= reinterpret_cast<std::uintptr_t>(job.out) || out_end <= reinterpret_cast<std::uintptr_t>(job.in) ||
         !meet(job, job.in, job.in_stride, job, job.out, job.out_stride);
}

void clear(Job& job) noexcept { std::fill_n(job.count, 3, std::int64_t{0}); }

void set_rows(Job& job, const Table& table) noexcept {
  job.cos = table.cos().data();
  job.sin = table.sin().data();
}
void set_rows(Job&, const TableShape&) noexcept {}

// x to out as a job; false where a rule does not hold: then refuse() knows which.
template <class X, class Rows>
bool make_job(const X& x, const Heads& out, const Rows& rows, Direction direction, Job& job) noexcept {
  const TableShape table = shape_of(rows);
  const Pairing pairing = table.pairing;
  if (x.dtype != out.dtype || !is_storage(x.dtype) || !is_set(pairing)) return false;
  if (direction > Direction::backward) return false;
  if (!same_shape(x.layout, out.layout) || table.tokens != x.layout.tokens) return false;
  if (table.batch != 1 && table.batch != x.layout.batch) return false;
  if (table.rotary_dim() > x.layout.head_dim) return false;
  if (!has_elements(x.layout)) {
    clear(job);
    return x.layout.batch >= 0 && x.layout.tokens >= 0 && x.layout.heads >= 0 && x.layout.head_dim >= 0;
  }
  job.in = x.data;
  job.out = out.data;
  set_rows(job, rows);
  job.dtype = x.dtype;
  const Order order = order_of(pairing, direction);
  job.read_interleaved = order.read_interleaved;
  job.write_interleaved = order.write_interleaved;
  job.backward = direction == Direction::backward;
  job.pairs = table.pairs;
  job.rest = x.data == out.data ? 0 : x.layout.head_dim - table.rotary_dim();
  return add_strides(job, x, out, table);
}

template <class Rows>
[[gnu::always_inline]] inline Job job_in_place(const char* operation, const Heads& x, const Rows& table,
                                               Direction direction) {
  Job job;
  if (!make_job(x, x, table, direction, job)) refuse({operation, "x", "x", ""}, x, x, shape_of(table), direction);
  return job;
}

template <class Rows>
[[gnu::always_inline]] inline Job job_out_of_place(const Names& names, const ConstHeads& x, const Heads& out,
                                                   const Rows& table, Direction direction) {
  Job job;
  if (!make_job(x, out, table, direction, job)) refuse(names, x, out, shape_of(table), direction);
  return job;
}

}  // namespace

void check_heads(const Names& names, const ConstHeads& x, const Heads& out, const TableShape& table,
                 Direction direction) {
  Job job;
  if (!make_job(x, out, table, direction, job)) refuse(names, x, out, table, direction);
}

Job check_rotate(const Names& names, const ConstHeads& x, const Heads& out, const Table& table, Direction direction) {
  return job_out_of_place(names, x, out, table, direction);
}
Job check_rotate(const char* operation, const Heads& x, const Table& table, Direction direction) {
  return job_in_place(operation, x, table, direction);
}
Job check_rotate(const char* operation, const Heads& x, const TableShape& table, Direction direction) {
  return job_in_place(operation, x, table, direction);
}

Job check_rotate(const char* operation, const ConstHeads& x, const Heads& out, const Table& table,
                 Direction direction) {
  return job_out_of_place({operation, "x", "out", ""}, x, out, table, direction);
}
Job check_rotate(const char* operation, const ConstHeads& x, const Heads& out, const TableShape& table,
                 Direction direction) {
  return job_out_of_place({operation, "x", "out", ""}, x, out, table, direction);
}

// ---- q and k ----

namespace {

// Whether k's heads follow q's in one tensor, as a projection writes them: both becomes that tensor.
template <class X>
bool join(const X& q, const X& k, X& both) noexcept {
  const Layout &a = q.layout, &b = k.layout;
  if (q.dtype != k.dtype || !is_storage(q.dtype) || a.heads <= 0 || b.heads <= 0) return false;
  if (a.batch != b.batch || a.tokens != b.tokens || a.head_dim != b.head_dim) return false;
  if (a.tokens != 1 && a.token_stride != b.token_stride) return false;
  if (a.batch != 1 && a.batch_stride != b.batch_stride) return false;
  const auto gap = reinterpret_cast<std::uintptr_t>(k.data) - reinterpret_cast<std::uintptr_t>(q.data);
  const auto each = static_cast<std::uintptr_t>(bytes_of(q.dtype));
  Layout& l = both.layout;
  if (a.heads == 1) l.head_stride = b.heads == 1 ? static_cast<std::int64_t>(gap / each) : b.head_stride;
  if (b.heads != 1 && b.head_stride != l.head_stride) return false;
  if (gap != static_cast<std::uintptr_t>(a.heads) * static_cast<std::uintptr_t>(l.head_stride) * each) return false;
  return !add_overflows(a.heads, b.heads, &l.heads);
}

// Of a job over all heads of a packed tensor: q and k rotate, v is copied where there is a copy to make.
void split_v(Jobs& jobs, std::int64_t head_stride, const Layout& l, std::int64_t kv_heads) {
  Job& qk = jobs.q;
  int heads = 0;  // the dimension
  while (qk.count[heads] != l.heads || qk.out_stride[heads] != head_stride) ++heads;
  qk.count[heads] -= kv_heads;
  if (qk.in == qk.out) return;
  Job& v = jobs.k = qk;
  const std::int64_t each = qk.element_bytes();
  v.count[heads] = kv_heads;
  v.in = static_cast<const std::byte*>(qk.in) + qk.count[heads] * qk.in_stride[heads] * each;
  v.out = static_cast<std::byte*>(qk.out) + qk.count[heads] * qk.out_stride[heads] * each;
  v.pairs = 0;
  v.rest = l.head_dim;
}

// Nothing that the one writes may be read or written by the other.
void check_disjoint(const char* operation, const Job& q, const Job& k) {
  if (q.rows() == 0 || k.rows() == 0) return;
  const bool q_moves = q.in != q.out, k_moves = k.in != k.out;
  const char *q_out = q_moves ? "q_out" : "q", *k_out = k_moves ? "k_out" : "k";
  if (meet(q, q.out, q.out_stride, k, k.out, k.out_stride)) refuse_overlap(operation, q_out, k_out);
  if (k_moves && meet(q, q.out, q.out_stride, k, k.in, k.in_stride)) refuse_overlap(operation, q_out, "k");
  if (q_moves && meet(k, k.out, k.out_stride, q, q.in, q.in_stride)) refuse_overlap(operation, k_out, "q");
}

template <class X, class Rows>
void check_each(const char* operation, const X& q, const Heads& q_out, const X& k, const Heads& k_out,
                const Rows& table, Direction direction, Jobs& jobs) {
  if (!make_job(q, q_out, table, direction, jobs.q)) {
    refuse({operation, "q", "q_out", " of q"}, q, q_out, shape_of(table), direction);
  }
  if (!make_job(k, k_out, table, direction, jobs.k)) {
    refuse({operation, "k", "k_out", " of k"}, k, k_out, shape_of(table), direction);
  }
  if (q.layout.batch != k.layout.batch) {
    fail(Code::SHAPE, operation,
         "q and k must have one batch but got " + std::to_string(q.layout.batch) + " and " +
             std::to_string(k.layout.batch));
  }
  check_disjoint(operation, jobs.q, jobs.k);
}

Jobs jobs_by(const Table& table) {
  Jobs jobs;
  clear(jobs.k);
  jobs.table_rows = table.tokens() * table.batch();
  return jobs;
}
Jobs jobs_by(const TableShape&) {
  Jobs jobs;
  clear(jobs.k);
  jobs.table_rows = 0;
  return jobs;
}

template <class Rows>
[[gnu::always_inline]] inline Jobs jobs_in_place(const char* operation, const Heads& q, const Heads& k,
                                                 const Rows& table, Direction direction) {
  Jobs jobs = jobs_by(table);
  Heads both = q;
  if (!join(q, k, both) || !make_job(both, both, table, direction, jobs.q)) {
    check_each(operation, q, q, k, k, table, direction, jobs);
  }
  return jobs;
}

template <class Rows>
[[gnu::always_inline]] inline Jobs jobs_out_of_place(const char* operation, const InOut& q, const InOut& k,
                                                     const Rows& table, Direction direction) {
  Jobs jobs = jobs_by(table);
  InOut both = q;
  if (q.in.layout.heads != q.out.layout.heads || !join(q.in, k.in, both.in) || !join(q.out, k.out, both.out) ||
      !make_job(both.in, both.out, table, direction, jobs.q)) {
    check_each(operation, q.in, q.out, k.in, k.out, table, direction, jobs);
  }
  return jobs;
}

}  // namespace

Jobs check_rotate_qk(const char* operation, const Heads& q, const Heads& k, const Table& table, Direction direction) {
  return jobs_in_place(operation, q, k, table, direction);
}
Jobs check_rotate_qk(const char* operation, const Heads& q, const Heads& k, const TableShape& table,
                     Direction direction) {
  return jobs_in_place(operation, q, k, table, direction);
}

Jobs check_rotate_qk(const char* operation, const InOut& q, const InOut& k, const Table& table, Direction direction) {
  return jobs_out_of_place(operation, q, k, table, direction);
}
Jobs check_rotate_qk(const char* operation, const InOut& q, const InOut& k, const TableShape& table,
                     Direction direction) {
  return jobs_out_of_place(operation, q, k, table, direction);
}

Jobs check_rotate_qkv(const char* operation, const ConstHeads& qkv, const Heads& out, std::int64_t kv_heads,
                      const Table& table, Direction direction) {
  const Layout& l = qkv.layout;
  if (kv_heads < 0) check_kv_heads(operation, l.heads, kv_heads);
  Jobs jobs = jobs_by(table);
  if (!make_job(qkv, out, table, direction, jobs.q)) {
    refuse({operation, "qkv", "out", ""}, qkv, out, shape_of(table), direction);
  }
  check_kv_heads(operation, l.heads, kv_heads);
  if (kv_heads > 0 && jobs.q.rows() > 0) split_v(jobs, out.layout.head_stride, l, kv_heads);
  return jobs;
}

void check_kv_heads(const char* operation, std::int64_t heads, std::int64_t kv_heads) {
  if (kv_heads < 0) fail(Code::SHAPE, operation, "kv_heads must not be negative but got " + std::to_string(kv_heads));
  if (kv_heads > heads / 2) {
    fail(Code::SHAPE, operation,
         "heads must be at least twice kv_heads but got " + std::to_string(heads) + " heads and " +
             std::to_string(kv_heads) + " kv_heads");
  }
}

void check_slice(const Layout& x, int first, int head_dim) {
  if (first < 0 || head_dim < 0 || first > std::int64_t{x.head_dim} - head_dim) {
    fail(Code::SHAPE, "slice",
         "elements must lie inside head_dim " + std::to_string(x.head_dim) + " but got " + std::to_string(first) +
             " to " + std::to_string(std::int64_t{first} + head_dim));
  }
}

std::int64_t checked_product(const char* operation, std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (a < 0 || b < 0)
    fail(Code::SHAPE, operation, "sizes must not be negative but got " + std::to_string(std::min(a, b)));
  if (multiply_overflows(a, b, &product)) {
    fail(Code::SHAPE, operation,
         "the elements must number less than 2^63 but got " + std::to_string(a) + " times " + std::to_string(b));
  }
  return product;
}

void check_inside(const Layout& l, std::size_t elements) {
  if (l.batch < 0 || l.tokens < 0 || l.heads < 0 || l.head_dim < 0) {
    fail(Code::SHAPE, "heads", "sizes must not be negative but got [batch, tokens, heads, head_dim] = " + shape(l));
  }
  if (!has_elements(l)) return;
  std::int64_t extent = l.head_dim;
  const std::int64_t counts[] = {l.batch, l.tokens, l.heads};
  const std::int64_t strides[] = {l.batch_stride, l.token_stride, l.head_stride};
  bool sound = true;
  for (int k = 0; k < 3 && sound; ++k) {
    sound = counts[k] == 1 || (strides[k] >= 0 && extend(extent, counts[k], strides[k]));
  }
  if (sound && static_cast<std::uint64_t>(extent) <= elements) return;
  fail(Code::SHAPE, "heads",
       "the layout must lie inside the memory of " + std::to_string(elements) + " elements but " +
           (sound ? "reaches " + std::to_string(extent)
                  : std::string("has a stride below 0 or spans 2^63 elements or more")));
}

}  // namespace rotary::detail
