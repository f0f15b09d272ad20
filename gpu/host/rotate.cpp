// rotate and rotate_qk on a stream: the same checks as on the CPU, then one launch.
#include "jobs.h"
#include "rotate/checks.h"

namespace rotary::gpu {
namespace {

// One tensor of a call whose shapes, dtypes and pointers have been checked.
struct Operand {
  InOut x;
  const char* name;  // the name of the written tensor

  bool empty() const noexcept { return !has_elements(x.in.layout); }
  bool in_place() const noexcept { return x.in.data == x.out.data; }
  Side side(int rotary_dim) const noexcept {
    return gpu::side(x.in, x.out.data, x.out.layout, in_place() ? 0 : x.in.layout.head_dim - rotary_dim);
  }
};

void check_rotation(const char* operation, const Operand& x, const Rotation& by) {
  if (x.empty()) return;
  Heads written = x.x.out;
  if (x.in_place()) {
    written.layout.head_dim = 2 * by.pairs();
    if (by.pairing() == Pairing::interleaved_to_half) check_reordered(operation, written.layout.head_dim);
  }
  const NamedMemory out = memory_of(x.name, written);
  check_disjoint(operation, {&out, 1}, by);
}

// Rotates x, and k unless it is null.
void launch(const Operand& x, const Operand* k, const Rotation& by, const RotateOptions& options) {
  RotateJob job;
  set_rotation(job, by, options.direction);
  job.backward = options.direction == Direction::backward;
  job.dtype = x.x.in.dtype;
  job.batch = x.x.in.layout.batch;
  job.tokens = x.x.in.layout.tokens;
  job.q = x.side(2 * job.pairs);
  if (k != nullptr) job.k = k->side(2 * job.pairs);
  launch_rotate(job, options.stream);
}

void run(const Operand& x, const Rotation& by, const RotateOptions& options) {
  check_rotation("rotate", x, by);
  if (!x.empty()) launch(x, nullptr, by, options);
}

void run(const Operand& q, const Operand& k, const Rotation& by, const RotateOptions& options) {
  check_rotation("rotate_qk", q, by);
  check_rotation("rotate_qk", k, by);
  if (!q.empty() && !k.empty() && q.x.in.dtype == k.x.in.dtype) return launch(q, &k, by, options);
  if (!q.empty()) launch(q, nullptr, by, options);
  if (!k.empty()) launch(k, nullptr, by, options);
}

}  // namespace

void rotate(const Heads& x, const Rotation& by, const RotateOptions& options) {
  check_heads({"rotate", "x", "x", ""}, x, x, checked_shape("rotate", by), options.direction);
  run({{x, x}, "x"}, by, options);
}
void rotate(const ConstHeads& x, const Heads& out, const Rotation& by, const RotateOptions& options) {
  check_heads({"rotate", "x", "out", ""}, x, out, checked_shape("rotate", by), options.direction);
  run({{x, out}, "out"}, by, options);
}

void rotate_qk(const Heads& q, const Heads& k, const Rotation& by, const RotateOptions& options) {
  check_heads("rotate_qk", {q, q}, {k, k}, checked_shape("rotate_qk", by), options.direction);
  run({{q, q}, "q"}, {{k, k}, "k"}, by, options);
}
void rotate_qk(const InOut& q, const InOut& k, const Rotation& by, const RotateOptions& options) {
  check_heads("rotate_qk", q, k, checked_shape("rotate_qk", by), options.direction);
  run({q, "q_out"}, {k, "k_out"}, by, options);
}

}  // namespace rotary::gpu
