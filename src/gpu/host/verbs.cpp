// rotate and its kin on a stream: the host's door, then one launch.
#include "apart.h"
#include "call.h"
#include "rotate/checks.h"

namespace rotary::gpu {
namespace {

// One side of a call whose rules hold.
struct Turned {
  const ConstHeads& x;
  const Heads& out;
  const char* name;  // of out

  bool empty() const noexcept { return !has_elements(x.layout); }
  bool in_place() const noexcept { return x.data == out.data; }
  Side side(int rotary_dim) const noexcept {
    return gpu::side(x, out.data, out.layout, in_place() ? 0 : x.layout.head_dim - rotary_dim);
  }
};

void check_turned(const char* verb, const Turned& x, const Rotation& by) {
  if (x.empty()) return;
  Layout written = x.out.layout;
  if (x.in_place()) {
    written.head_dim = 2 * by.pairs();
    if (by.pairing() == Pairing::interleaved_to_half) check_reordered(verb, written.head_dim);
  }
  const Part out = part(x.name, x.out.data, static_cast<std::int64_t>(size_of(x.out.dtype)), written);
  check_apart(verb, {&out, 1}, by);
}

// x, and k where there is one.
void launch(const Turned& x, const Turned* k, const Rotation& by, bool backward, Stream stream) {
  const Pairing pairing = by.pairing();
  RotateJob job;
  job.by = turning(by);
  job.dtype = x.x.dtype;
  job.read_interleaved = backward ? pairing == Pairing::interleaved : pairing != Pairing::half;
  job.write_interleaved = backward ? pairing != Pairing::half : pairing == Pairing::interleaved;
  job.backward = backward;
  job.pairs = by.pairs();
  job.batch = x.x.layout.batch;
  job.tokens = x.x.layout.tokens;
  job.q = x.side(2 * job.pairs);
  if (k != nullptr) job.k = k->side(2 * job.pairs);
  launch_rotate(job, stream);
}

void run(const char* verb, const Turned& x, const Rotation& by, bool backward, Stream stream) {
  check_turned(verb, x, by);
  if (!x.empty()) launch(x, nullptr, by, backward, stream);
}

void run(const char* verb, const Turned& q, const Turned& k, const Rotation& by, bool backward, Stream stream) {
  check_turned(verb, q, by);
  check_turned(verb, k, by);
  if (!q.empty() && !k.empty() && q.x.dtype == k.x.dtype) return launch(q, &k, by, backward, stream);
  if (!q.empty()) launch(q, nullptr, by, backward, stream);
  if (!k.empty()) launch(k, nullptr, by, backward, stream);
}

void in_place(const char* verb, const Heads& x, const Rotation& by, bool backward, Stream stream) {
  check_rotate(verb, x, checked_shape(verb, by), backward);
  run(verb, {x, x, "x"}, by, backward, stream);
}

void apart(const char* verb, const ConstHeads& x, const Heads& out, const Rotation& by, bool backward, Stream stream) {
  check_rotate(verb, x, out, checked_shape(verb, by), backward);
  run(verb, {x, out, "out"}, by, backward, stream);
}

void in_place(const char* verb, const Heads& q, const Heads& k, const Rotation& by, bool backward, Stream stream) {
  check_rotate_qk(verb, q, k, checked_shape(verb, by), backward);
  run(verb, {q, q, "q"}, {k, k, "k"}, by, backward, stream);
}

void apart(const char* verb, const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const Heads& k_out,
           const Rotation& by, bool backward, Stream stream) {
  check_rotate_qk(verb, q, q_out, k, k_out, checked_shape(verb, by), backward);
  run(verb, {q, q_out, "q_out"}, {k, k_out, "k_out"}, by, backward, stream);
}

}  // namespace

void rotate(const Heads& x, const Rotation& by, Stream stream) { in_place("rotate", x, by, false, stream); }
void rotate(const ConstHeads& x, const Heads& out, const Rotation& by, Stream stream) {
  apart("rotate", x, out, by, false, stream);
}
void rotate_backward(const Heads& x, const Rotation& by, Stream stream) {
  in_place("rotate_backward", x, by, true, stream);
}
void rotate_backward(const ConstHeads& x, const Heads& out, const Rotation& by, Stream stream) {
  apart("rotate_backward", x, out, by, true, stream);
}

void rotate_qk(const Heads& q, const Heads& k, const Rotation& by, Stream stream) {
  in_place("rotate_qk", q, k, by, false, stream);
}
void rotate_qk(const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const Heads& k_out, const Rotation& by,
               Stream stream) {
  apart("rotate_qk", q, q_out, k, k_out, by, false, stream);
}
void rotate_qk_backward(const Heads& q, const Heads& k, const Rotation& by, Stream stream) {
  in_place("rotate_qk_backward", q, k, by, true, stream);
}
void rotate_qk_backward(const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const Heads& k_out,
                        const Rotation& by, Stream stream) {
  apart("rotate_qk_backward", q, q_out, k, k_out, by, true, stream);
}

}  // namespace rotary::gpu
