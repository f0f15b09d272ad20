// The public verbs: check, then the chosen kernel over the caller's executor.
#include <algorithm>
#include <cstddef>

#include "checks.h"
#include "cpu/targets.h"
#include "runtime/float_state.h"

namespace rotary {
namespace {

using Index = std::int64_t;

constexpr Index grain_bytes = 64 * 1024;  // less is not worth a thread: a fork and join costs about as much
constexpr Index table_bytes = 128 * 1024;  // of the table at a time for q and k: an eighth of a second-level cache

// The items of so many bytes that are worth a thread.
Index grain(Index item_bytes) {
  if (item_bytes >= grain_bytes) return 1;
  const auto bytes = static_cast<std::uint32_t>(item_bytes);
  return (static_cast<std::uint32_t>(grain_bytes) + bytes - 1) / bytes;
}

// ---- one job ----

struct Work {
  const Job* job;
  cpu::RotateKernel kernel;
};

void turn_rows(void* context, Index begin, Index end) {
  const FloatState ours;
  const Work& work = *static_cast<const Work*>(context);
  work.kernel(*work.job, begin, end);
}

void run(const Job& job, const Executor& executor) {
  const Index rows = job.rows();
  if (rows == 0) return;
  Work work{&job, cpu::chosen().rotate};
  executor.run(rows, grain(job.row_bytes()), turn_rows, &work);
}

// ---- two jobs: one dispatch, one pass over the table ----

// How a job walks the table: the dimensions that change its row, and how many successive rows share one.
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
  Index q_group, k_group;  // rows that share a row of the table
  Index chunk;             // groups
};

// q's rows of a few rows of the table, then k's, and so on.
void turn_groups(void* context, Index begin, Index end) {
  const FloatState ours;
  const TwoWorks& work = *static_cast<const TwoWorks*>(context);
  for (Index next; begin < end; begin = next) {
    next = std::min(end, begin + work.chunk);
    work.kernel(work.jobs->q, begin * work.q_group, next * work.q_group);
    work.kernel(work.jobs->k, begin * work.k_group, next * work.k_group);
  }
}

// All rows of q, then all of k.
void turn_both(void* context, Index begin, Index end) {
  const FloatState ours;
  const TwoWorks& work = *static_cast<const TwoWorks*>(context);
  const Index q_rows = work.jobs->q.rows();
  if (begin < q_rows) work.kernel(work.jobs->q, begin, std::min(end, q_rows));
  if (end > q_rows) work.kernel(work.jobs->k, std::max(begin, q_rows) - q_rows, end - q_rows);
}

void run(const Jobs& jobs, const Executor& executor) {
  const Job &q = jobs.q, &k = jobs.k;
  const Index q_rows = q.rows(), k_rows = k.rows();
  if (k_rows == 0) return run(q, executor);
  if (q_rows == 0) return run(k, executor);
  TwoWorks work{&jobs, cpu::chosen().rotate, 0, 0, 0};
  const Index row_bytes = q.pairs * Index{2 * sizeof(float)};
  // Not for few tokens: their rows of the table stay near anyway, and heads go over threads. Nor for [B, H, S, D],
  // where every head walks the table.
  if (jobs.table_rows * row_bytes > table_bytes) {
    const Walk q_walk(q), k_walk(k);
    if (q_walk.same_as(k_walk)) {
      work.q_group = q_walk.group;
      work.k_group = k_walk.group;
      work.chunk = std::max<Index>(1, table_bytes / row_bytes);
      const Index group_bytes = q_walk.group * q.row_bytes() + k_walk.group * k.row_bytes();
      return executor.run(q_rows / q_walk.group, grain(group_bytes), turn_groups, &work);
    }
  }
  executor.run(q_rows + k_rows, grain(std::min(q.row_bytes(), k.row_bytes())), turn_both, &work);
}

}  // namespace

void rotate(const Heads& x, const Table& table, const Executor& executor) {
  run(check_rotate("rotate", x, table, false), executor);
}
void rotate(const ConstHeads& x, const Heads& out, const Table& table, const Executor& executor) {
  run(check_rotate("rotate", x, out, table, false), executor);
}
void rotate_backward(const Heads& x, const Table& table, const Executor& executor) {
  run(check_rotate("rotate_backward", x, table, true), executor);
}
void rotate_backward(const ConstHeads& x, const Heads& out, const Table& table, const Executor& executor) {
  run(check_rotate("rotate_backward", x, out, table, true), executor);
}

void rotate_qk(const Heads& q, const Heads& k, const Table& table, const Executor& executor) {
  run(check_rotate_qk("rotate_qk", q, k, table, false), executor);
}
void rotate_qk(const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const Heads& k_out, const Table& table,
               const Executor& executor) {
  run(check_rotate_qk("rotate_qk", q, q_out, k, k_out, table, false), executor);
}
void rotate_qk_backward(const Heads& q, const Heads& k, const Table& table, const Executor& executor) {
  run(check_rotate_qk("rotate_qk_backward", q, k, table, true), executor);
}
void rotate_qk_backward(const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const Heads& k_out,
                        const Table& table, const Executor& executor) {
  run(check_rotate_qk("rotate_qk_backward", q, q_out, k, k_out, table, true), executor);
}

void rotate_qkv(const Heads& qkv, std::int64_t kv_heads, const Table& table, const Executor& executor) {
  run(check_rotate_qkv("rotate_qkv", qkv, qkv, kv_heads, table, false), executor);
}
void rotate_qkv(const ConstHeads& qkv, const Heads& out, std::int64_t kv_heads, const Table& table,
                const Executor& executor) {
  run(check_rotate_qkv("rotate_qkv", qkv, out, kv_heads, table, false), executor);
}
void rotate_qkv_backward(const Heads& qkv, std::int64_t kv_heads, const Table& table, const Executor& executor) {
  run(check_rotate_qkv("rotate_qkv_backward", qkv, qkv, kv_heads, table, true), executor);
}
void rotate_qkv_backward(const ConstHeads& qkv, const Heads& out, std::int64_t kv_heads, const Table& table,
                         const Executor& executor) {
  run(check_rotate_qkv("rotate_qkv_backward", qkv, out, kv_heads, table, true), executor);
}

// ---- layouts ----

Layout bthd(std::int64_t batch, std::int64_t tokens, std::int64_t heads, int head_dim) {
  const std::int64_t token = checked_product("bthd", heads, head_dim);
  const std::int64_t row = checked_product("bthd", tokens, token);
  checked_product("bthd", batch, row);
  return {batch, tokens, heads, head_dim, row, token, head_dim};
}

Layout bhtd(std::int64_t batch, std::int64_t heads, std::int64_t tokens, int head_dim) {
  const std::int64_t head = checked_product("bhtd", tokens, head_dim);
  const std::int64_t row = checked_product("bhtd", heads, head);
  checked_product("bhtd", batch, row);
  return {batch, tokens, heads, head_dim, row, head_dim, head};
}

Layout tbhd(std::int64_t tokens, std::int64_t batch, std::int64_t heads, int head_dim) {
  const std::int64_t row = checked_product("tbhd", heads, head_dim);
  const std::int64_t token = checked_product("tbhd", batch, row);
  checked_product("tbhd", tokens, token);
  return {batch, tokens, heads, head_dim, row, token, head_dim};
}

Layout thd(std::int64_t tokens, std::int64_t heads, int head_dim) { return bthd(1, tokens, heads, head_dim); }

ConstHeads slice(const ConstHeads& x, int first, int head_dim) {
  check_slice(x.layout, first, head_dim);
  ConstHeads part = x;
  if (x.data != nullptr) {
    part.data = static_cast<const std::byte*>(x.data) + static_cast<std::size_t>(first) * size_of(x.dtype);
  }
  part.layout.head_dim = head_dim;
  return part;
}

Heads slice(const Heads& x, int first, int head_dim) {
  const ConstHeads part = slice(ConstHeads(x), first, head_dim);
  return {const_cast<void*>(part.data), part.dtype, part.layout};
}

// ---- names ----

std::size_t size_of(DType dtype) noexcept { return dtype == DType::f32 ? 4 : 2; }

const char* name(DType dtype) noexcept {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
  }
  return "unknown";
}

const char* name(Pairing pairing) noexcept {
  switch (pairing) {
    case Pairing::half:
      return "half";
    case Pairing::interleaved:
      return "interleaved";
    case Pairing::interleaved_to_half:
      return "interleaved_to_half";
  }
  return "unknown";
}

}  // namespace rotary
