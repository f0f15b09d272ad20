// The public verbs: check, then the chosen kernel over the caller's executor.
#include <algorithm>
#include <cstddef>

#include "checks.h"
#include "cpu/targets.h"
#include "float_state.h"

namespace rotary {
namespace {

constexpr std::int64_t grain_bytes = 64 * 1024;  // less is not worth a thread: a fork and join costs about as much

struct Work {
  const Job* job;
  cpu::RotateKernel kernel;
};

void run_rows(void* context, std::int64_t begin, std::int64_t end) {
  const FloatState ours;
  const Work& work = *static_cast<const Work*>(context);
  work.kernel(*work.job, begin, end);
}

void run(const Job& job, const Executor& executor) {
  if (job.rows() == 0) return;
  const std::int64_t row_elements = std::max<std::int64_t>(1, std::int64_t{2} * job.pairs + job.rest);
  const std::int64_t row_bytes = row_elements * static_cast<std::int64_t>(size_of(job.dtype));
  Work work{&job, cpu::chosen().rotate};
  executor.run(job.rows(), std::max<std::int64_t>(1, grain_bytes / row_bytes), run_rows, &work);
}

}  // namespace

void rotate(const Heads& x, const Table& table, const Executor& executor) {
  run(check_rotate("rotate", x, x, table, false), executor);
}
void rotate(const ConstHeads& x, const Heads& out, const Table& table, const Executor& executor) {
  run(check_rotate("rotate", x, out, table, false), executor);
}
void rotate_backward(const Heads& x, const Table& table, const Executor& executor) {
  run(check_rotate("rotate_backward", x, x, table, true), executor);
}
void rotate_backward(const ConstHeads& x, const Heads& out, const Table& table, const Executor& executor) {
  run(check_rotate("rotate_backward", x, out, table, true), executor);
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
