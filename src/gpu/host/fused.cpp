// What saves a pass: norm, rotation and cache write, checked here, then one launch of the step kernel.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "apart.h"
#include "cache.h"
#include "call.h"
#include "pointers.h"
#include "rotate/checks.h"

namespace rotary::gpu {
namespace {

// ---- rules ----

void check_norm(const char* verb, const char* what, const Norm& norm) {
  if (norm.dtype > DType::bf16) {
    fail("DTYPE", verb,
         std::string(what) + "'s weight must be f32, f16 or bf16 but got value " + text(static_cast<int>(norm.dtype)));
  }
  if (reinterpret_cast<std::uintptr_t>(norm.weight) % size_of(norm.dtype) != 0) {  // no strings where all is well
    check_aligned(verb, (std::string(what) + "'s weight").c_str(), norm.weight, size_of(norm.dtype));
  }
  if (!std::isfinite(norm.eps) || norm.eps < 0) {
    fail("VALUE", verb, std::string(what) + "'s eps must be finite and not negative but is " + number(norm.eps));
  }
}

// k and v as they come, of one kind.
void check_kv(const char* verb, const ConstHeads& k, const ConstHeads& v) {
  check_readable(verb, "k", k);
  check_readable(verb, "v", v);
  if (k.dtype != v.dtype) {
    fail("DTYPE", verb, std::string("k and v must have one dtype but got ") + name(k.dtype) + " and " + name(v.dtype));
  }
  if (!same_shape(k.layout, v.layout)) {
    fail("SHAPE", verb, "v must have the shape of k, " + shape(k.layout) + ", but got " + shape(v.layout));
  }
}

void check_q_and_k(const char* verb, const ConstHeads& q, const ConstHeads& k) {
  const Layout &a = q.layout, &b = k.layout;
  if (q.dtype != k.dtype) {
    fail("DTYPE", verb, std::string("q and k must have one dtype but got ") + name(q.dtype) + " and " + name(k.dtype));
  }
  if (a.batch != b.batch || a.tokens != b.tokens || a.head_dim != b.head_dim) {
    fail("SHAPE", verb, "q and k must have one batch, tokens and head_dim but got " + shape(a) + " and " + shape(b));
  }
}

// ---- memory ----

Part part_of(const char* name, const ConstHeads& x) noexcept {
  return part(name, x.data, static_cast<std::int64_t>(size_of(x.dtype)), x.layout);
}
Part part_of(const char* name, const Heads& x) noexcept {
  return part(name, x.data, static_cast<std::int64_t>(size_of(x.dtype)), x.layout);
}

// What a call writes. Nothing of it is read or written as another's heads; but q_out may be q, as the door has seen to.
void check_writes(const char* verb, const ConstHeads* q, const Heads* q_out, const ConstHeads& k, const ConstHeads& v,
                  const Cache& cache, Writes& written) {
  const bool with_q = q != nullptr && has_elements(q->layout);
  if (with_q) written.add(part_of("q_out", *q_out));
  if (!has_elements(k.layout)) return;
  const auto each = static_cast<std::int64_t>(element_bytes(cache, k.dtype));
  written.cache = layout_of(cache);
  const Part k_cache = part("the cache's k", cache.k, each, written.cache);
  const Part v_cache = part("the cache's v", cache.v, each, written.cache);
  check_apart(verb, k_cache, v_cache);
  check_apart(verb, written.all(), k_cache);
  check_apart(verb, written.all(), v_cache);
  written.add(k_cache);
  written.add(v_cache);
  check_apart(verb, written.all(), part_of("k", k));
  check_apart(verb, written.all(), part_of("v", v));
  if (with_q) check_apart(verb, written.all().subspan(1), part_of("q", *q));
}

// From the weight of a norm of x.
void check_weight(const char* verb, std::span<const Part> written, const char* name, const Norm& norm,
                  const Layout& x) {
  if (norm.weight == nullptr || !has_elements(x)) return;
  const std::int64_t count = norm.across_heads ? x.heads * x.head_dim : x.head_dim;
  const auto bytes = count * static_cast<std::int64_t>(size_of(norm.dtype));
  check_apart(verb, written, values(name, static_cast<const std::byte*>(norm.weight), bytes));
}

// From where k and v are told to go.
void check_places(const char* verb, std::span<const Part> written, const ConstHeads& k, const Cache& cache,
                  const Slots& slots) {
  if (!has_elements(k.layout)) return;
  check_apart(verb, written, cache, slots, product(k.layout.batch, k.layout.tokens));
}

// ---- jobs ----

NormJob norm_job(const Norm& norm) noexcept {
  NormJob job;
  job.on = true;
  job.one_plus = norm.one_plus;
  job.round_before = norm.round_before;
  job.across_heads = norm.across_heads;
  job.dtype = norm.dtype;
  job.eps = norm.eps;
  job.weight = norm.weight;
  return job;
}

StepJob step_job(const ConstHeads& x, const Rotation* by) noexcept {
  StepJob job;
  job.dtype = x.dtype;
  job.head_dim = x.layout.head_dim;
  job.batch = x.layout.batch;
  job.tokens = x.layout.tokens;
  if (by != nullptr) {
    job.by = turning(*by);
    job.pairs = by->pairs();
    job.read_interleaved = by->pairing() != Pairing::half;
    job.write_interleaved = by->pairing() == Pairing::interleaved;
  }
  return job;
}

void add_q(StepJob& job, const ConstHeads& q, const Heads& q_out) noexcept {
  if (has_elements(q.layout)) job.q = side(q, q_out.data, q_out.layout, job.head_dim - 2 * job.pairs);
}

void add_kv(StepJob& job, const ConstHeads& k, const ConstHeads& v, const Cache& cache, const Slots& slots) noexcept {
  if (!has_elements(k.layout)) return;
  job.k = side(k, nullptr, Layout{}, job.head_dim - 2 * job.pairs);
  job.v = side(v, nullptr, Layout{}, 0);
  job.cache = cache_job(cache, slots);
}

void run(const StepJob& job, Stream stream) {
  if (job.q.heads > 0 || job.k.heads > 0) launch_step(job, stream);
}

void check_destination(const char* verb, const ConstHeads& k, const Cache& cache, const Slots& slots) {
  if (!has_elements(k.layout)) return;
  check_cache(verb, cache, k);
  check_slots(verb, slots);
}

// Heads [first, first + count) of a packed tensor.
ConstHeads heads_of(const ConstHeads& x, std::int64_t first, std::int64_t count) noexcept {
  ConstHeads part = x;
  part.layout.heads = count;
  if (x.data != nullptr && count > 0) {
    part.data = static_cast<const std::byte*>(x.data) +
                first * x.layout.head_stride * static_cast<std::int64_t>(size_of(x.dtype));
  }
  return part;
}

}  // namespace

void rms_norm(const ConstHeads& x, const Heads& out, const Norm& norm, Stream stream) {
  const char* const verb = "rms_norm";
  check_heads({verb, "x", "out", ""}, x, out, {Pairing::half, 0, 1, x.layout.tokens});
  check_norm(verb, "the norm", norm);
  if (!has_elements(x.layout)) return;
  const Part written = part_of("out", out);
  check_weight(verb, {&written, 1}, "the norm's weight", norm, x.layout);
  StepJob job = step_job(x, nullptr);
  job.q_norm = norm_job(norm);
  add_q(job, x, out);
  run(job, stream);
}

void append(const ConstHeads& k, const ConstHeads& v, const Cache& cache, const Slots& slots, Stream stream) {
  const char* const verb = "append";
  check_kv(verb, k, v);
  check_destination(verb, k, cache, slots);
  Writes written;
  check_writes(verb, nullptr, nullptr, k, v, cache, written);
  check_places(verb, written.all(), k, cache, slots);
  StepJob job = step_job(k, nullptr);
  add_kv(job, k, v, cache, slots);
  run(job, stream);
}

void rotate_append(const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const ConstHeads& v,
                   const Rotation& by, const Cache& cache, const Slots& slots, Stream stream) {
  const char* const verb = "rotate_append";
  check_heads({verb, "q", "q_out", " of q"}, q, q_out, checked_shape(verb, by));
  check_kv(verb, k, v);
  check_q_and_k(verb, q, k);
  // The step kernel cannot change the order of a head in place.
  const bool reorders = by.pairing() == Pairing::interleaved_to_half && q.data == q_out.data && has_elements(q.layout);
  if (reorders) check_reordered(verb, 2 * by.pairs());
  check_destination(verb, k, cache, slots);
  Writes written;
  check_writes(verb, &q, &q_out, k, v, cache, written);
  check_apart(verb, written.all(), by);
  check_places(verb, written.all(), k, cache, slots);
  StepJob job = step_job(k, &by);
  add_kv(job, k, v, cache, slots);
  if (reorders) {
    rotate(q_out, by, stream);
  } else {
    add_q(job, q, q_out);
  }
  run(job, stream);
}

void norm_rotate_append(const ConstHeads& qkv, std::int64_t kv_heads, const Heads& q_out, const Norm& q_norm,
                        const Norm& k_norm, const Rotation& by, const Cache& cache, const Slots& slots, Stream stream) {
  const char* const verb = "norm_rotate_append";
  const Layout& l = qkv.layout;
  check_readable(verb, "qkv", qkv);
  check_kv_heads(verb, l.heads, kv_heads);
  const std::int64_t q_heads = l.heads - 2 * kv_heads;
  const ConstHeads q = heads_of(qkv, 0, q_heads), k = heads_of(qkv, q_heads, kv_heads);
  const ConstHeads v = heads_of(qkv, q_heads + kv_heads, kv_heads);
  check_heads({verb, "q", "q_out", " of q"}, q, q_out, checked_shape(verb, by));
  check_norm(verb, "q_norm", q_norm);
  check_norm(verb, "k_norm", k_norm);
  if (by.pairing() == Pairing::interleaved_to_half && q.data == q_out.data && has_elements(q.layout)) {
    fail("ALIAS", verb, "interleaved_to_half must turn q apart from qkv but q_out is q's part of it");
  }
  check_destination(verb, k, cache, slots);
  Writes written;
  check_writes(verb, &q, &q_out, k, v, cache, written);
  check_apart(verb, written.all(), by);
  check_weight(verb, written.all(), "q_norm's weight", q_norm, q.layout);
  check_weight(verb, written.all(), "k_norm's weight", k_norm, k.layout);
  check_places(verb, written.all(), k, cache, slots);
  StepJob job = step_job(qkv, &by);
  job.q_norm = norm_job(q_norm);
  job.k_norm = norm_job(k_norm);
  add_q(job, q, q_out);
  add_kv(job, k, v, cache, slots);
  run(job, stream);
}

}  // namespace rotary::gpu
