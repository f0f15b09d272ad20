// rms_norm, append and the fused operations: checks, then one launch of the step kernel.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "jobs.h"
#include "rotate/cache_checks.h"
#include "rotate/checks.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::gpu {
namespace {

// ---- rules ----

void check_norm(const char* operation, const char* what, const Norm& norm) {
  if (!rotary::detail::is_storage(norm.dtype)) {
    fail(Code::DTYPE, operation,
         std::string(what) + "'s weight must be " + rotary::detail::storage_names() + " but got value " +
             std::to_string(static_cast<int>(norm.dtype)));
  }
  // Checked here first, to make no string if it holds.
  if (reinterpret_cast<std::uintptr_t>(norm.weight) % size_of(norm.dtype) != 0) {
    check_aligned(operation, (std::string(what) + "'s weight").c_str(), norm.weight, size_of(norm.dtype));
  }
  if (!std::isfinite(norm.eps) || norm.eps < 0) {
    fail(Code::VALUE, operation,
         std::string(what) + "'s eps must be finite and not negative but got " + shortest(norm.eps));
  }
}

// Checks that v has no elements, or k's dtype and the shape that fits k and the cache.
void check_one_kv(const char* operation, const ConstHeads& k, const ConstHeads& v, const Cache& cache) {
  check_kv(operation, k, v, cache.v_head_dim);
  if (k.dtype == v.dtype || !has_elements(v.layout)) return;
  fail(Code::DTYPE, operation,
       std::string("k and v must have one dtype but got ") + name(k.dtype) + " and " + name(v.dtype));
}

// Checks q, which is written to q_out, and k, which is written to a cache.
void check_turned(const char* operation, const ConstHeads& q, const Heads& q_out, const ConstHeads& k,
                  const Rotation& by) {
  const TableShape rows = checked_shape(operation, by);
  if (rows.xpos) refuse_xpos(operation);
  check_heads({operation, "q", "q_out", " of q"}, q, q_out, rows);
  check_k_rows(operation, k.layout, rows.head_rows);
}

void check_q_and_k(const char* operation, const ConstHeads& q, const ConstHeads& k) {
  const Layout &a = q.layout, &b = k.layout;
  if (q.dtype != k.dtype) {
    fail(Code::DTYPE, operation,
         std::string("q and k must have one dtype but got ") + name(q.dtype) + " and " + name(k.dtype));
  }
  if (a.batch != b.batch || a.tokens != b.tokens || a.head_dim != b.head_dim) {
    fail(Code::SHAPE, operation,
         "q and k must have one batch, tokens and head_dim but got " + shape(a) + " and " + shape(b));
  }
}

// ---- caches ----

// Bytes of a cache element for heads of this dtype.
std::size_t element_bytes(const Cache& cache, DType dtype) noexcept {
  return cache.type == CacheType::f8_e4m3 ? 1 : static_cast<std::size_t>(rotary::detail::bytes_of(dtype));
}

// Checks that k and v fit the cache and that the elements of each do not overlap. Throws SHAPE, DTYPE, VALUE.
void check_cache(const char* operation, const Cache& cache, const ConstHeads& k, const ConstHeads& v) {
  if (cache.type > CacheType::f8_e4m3) {
    const std::string value = "value " + std::to_string(static_cast<int>(cache.type));
    fail(Code::DTYPE, operation,
         "the cache must be same or f8_e4m3 but got " + (cache.type <= CacheType::bf16 ? name(cache.type) : value));
  }
  const auto bytes = static_cast<std::int64_t>(element_bytes(cache, k.dtype));
  check_cache_sides(operation, k, bytes, v, bytes, cache);
  if (cache.type != CacheType::f8_e4m3) return;
  check_aligned(operation, "scales", cache.scales, sizeof(float));
  if (cache.scales != nullptr) return;
  check_scale(operation, "k_scale", cache.k_scale);
  check_scale(operation, "v_scale", cache.v_scale);
}

// ---- memory ----

// Collects the memory that a call writes and checks that it does not overlap other memory that the call reads or
// writes. q and q_out, which may be the same, are checked elsewhere.
void check_writes(const char* operation, const ConstHeads* q, const Heads* q_out, const ConstHeads& k,
                  const ConstHeads& v, const Cache& cache, const Slots& slots, Writes& written) {
  const bool with_q = q != nullptr && has_elements(q->layout);
  if (with_q) written.add(memory_of("q_out", *q_out));
  if (!has_elements(k.layout)) return;
  const auto each = static_cast<std::int64_t>(element_bytes(cache, k.dtype));
  check_cache_writes(operation, k, v, cache, each, each, slots, written);
  if (with_q) check_disjoint(operation, written.all().subspan(1), memory_of("q", *q));
}

// Checks that the weight of a norm of x does not overlap the written memory.
void check_weight(const char* operation, std::span<const NamedMemory> written, const char* name, const Norm& norm,
                  const Layout& x) {
  if (norm.weight == nullptr || !has_elements(x)) return;
  const std::int64_t count = norm.across_heads ? x.heads * x.head_dim : x.head_dim;
  const auto bytes = count * static_cast<std::int64_t>(size_of(norm.dtype));
  check_disjoint(operation, written, values(name, static_cast<const std::byte*>(norm.weight), bytes));
}

// ---- jobs ----

// The job of the keys, or of the values, whose elements have this many bytes; layout: theirs in the cache.
CacheJob cache_job(const Cache& cache, const Layout& layout, std::int64_t bytes, const Slots& slots) noexcept {
  CacheJob job;
  job.k = k_data(cache, bytes);
  job.v = cache.v;
  job.f8 = cache.type == CacheType::f8_e4m3;
  job.pages = cache.pages;
  job.page_size = cache.page_size;
  set_strides(job.stride, layout);
  job.k_scale = cache.k_scale;
  job.v_scale = cache.v_scale;
  job.scales = cache.scales;
  job.slots = slots;
  return job;
}

StepJob step_job(const ConstHeads& x, const Rotation* by) noexcept {
  StepJob job;
  job.dtype = x.dtype;
  job.head_dim = x.layout.head_dim;
  job.batch = x.layout.batch;
  job.tokens = x.layout.tokens;
  if (by != nullptr) set_rotation(job, *by, Direction::forward);
  return job;
}

void add_q(StepJob& job, const ConstHeads& q, const Heads& q_out) noexcept {
  if (has_elements(q.layout)) job.q = side(q, q_out.data, q_out.layout, job.head_dim - 2 * job.pairs);
}

// Adds k and v. v has a launch of its own where its strides in the cache are not k's.
void run_into(const Cache& cache, const Slots& slots, StepJob& job, const ConstHeads& k, const ConstHeads& v,
              Stream stream) {
  const auto bytes = static_cast<std::int64_t>(element_bytes(cache, k.dtype));
  const auto add_v = [&](StepJob& to) {
    if (has_elements(v.layout)) to.v = side(v, nullptr, Layout{}, 0);
  };
  if (has_elements(k.layout)) {
    job.k = side(k, nullptr, Layout{}, job.head_dim - 2 * job.pairs);
    job.cache = cache_job(cache, k_layout(cache), bytes, slots);
    if (cache.v_head_dim == 0) add_v(job);
  }
  if (job.q.heads > 0 || job.k.heads > 0) launch_step(job, stream);
  if (cache.v_head_dim == 0) return;
  StepJob values = step_job(v, nullptr);
  add_v(values);
  values.cache = cache_job(cache, v_layout(cache), bytes, slots);
  if (values.v.heads > 0) launch_step(values, stream);
}

void check_destination(const char* operation, const ConstHeads& k, const ConstHeads& v, const Cache& cache,
                       const Slots& slots) {
  if (!has_elements(k.layout)) return;
  check_cache(operation, cache, k, v);
  check_slots(operation, slots);
}

}  // namespace

void rms_norm(const ConstHeads& x, const Heads& out, const Norm& norm, Stream stream) {
  const char* const operation = "rms_norm";
  check_heads({operation, "x", "out", ""}, x, out, {Pairing::half, 0, 1, x.layout.tokens});
  check_norm(operation, "the norm", norm);
  if (!has_elements(x.layout)) return;
  const NamedMemory written = memory_of("out", out);
  check_weight(operation, {&written, 1}, "the norm's weight", norm, x.layout);
  StepJob job = step_job(x, nullptr);
  job.q_norm = {norm, true};
  add_q(job, x, out);
  launch_step(job, stream);
}

void append(const ConstHeads& k, const ConstHeads& v, const Cache& cache, const Slots& slots, Stream stream) {
  const char* const operation = "append";
  check_one_kv(operation, k, v, cache);
  check_destination(operation, k, v, cache, slots);
  Writes written;
  check_writes(operation, nullptr, nullptr, k, v, cache, slots, written);
  StepJob job = step_job(k, nullptr);
  run_into(cache, slots, job, k, v, stream);
}

void rotate_append(const ConstHeads& q, const Heads& q_out, const ConstHeads& k, const ConstHeads& v,
                   const Rotation& by, const Cache& cache, const Slots& slots, Stream stream) {
  const char* const operation = "rotate_append";
  check_turned(operation, q, q_out, k, by);
  check_one_kv(operation, k, v, cache);
  check_q_and_k(operation, q, k);
  // The step kernel cannot reorder a head in place.
  const bool reorders = by.pairing() == Pairing::interleaved_to_half && q.data == q_out.data && has_elements(q.layout);
  if (reorders) check_reordered(operation, 2 * by.pairs());
  check_destination(operation, k, v, cache, slots);
  Writes written;
  check_writes(operation, &q, &q_out, k, v, cache, slots, written);
  check_disjoint(operation, written.all(), by);
  StepJob job = step_job(k, &by);
  if (reorders) {
    rotate(q_out, by, stream);
  } else {
    add_q(job, q, q_out);
  }
  run_into(cache, slots, job, k, v, stream);
}

void norm_rotate_append(const ConstHeads& qkv, std::int64_t kv_heads, const Heads& q_out, const Norm& q_norm,
                        const Norm& k_norm, const Rotation& by, const Cache& cache, const Slots& slots, Stream stream) {
  const char* const operation = "norm_rotate_append";
  const Layout& l = qkv.layout;
  check_readable(operation, "qkv", qkv);
  if (kv_heads < 0) fail(Code::SHAPE, operation, "kv_heads must not be negative but got ", kv_heads);
  if (kv_heads > l.heads / 2)
    fail(Code::SHAPE, operation, "heads must be at least twice kv_heads but got ", l.heads, " heads and ", kv_heads,
         " kv_heads");
  const std::int64_t q_heads = l.heads - 2 * kv_heads;
  const ConstHeads q = heads_of(qkv, 0, q_heads), k = heads_of(qkv, q_heads, kv_heads);
  const ConstHeads v = heads_of(qkv, q_heads + kv_heads, kv_heads);
  check_turned(operation, q, q_out, k, by);
  check_norm(operation, "q_norm", q_norm);
  check_norm(operation, "k_norm", k_norm);
  if (by.pairing() == Pairing::interleaved_to_half && q.data == q_out.data && has_elements(q.layout)) {
    fail(Code::ALIAS, operation, "interleaved_to_half must rotate q out of place but q_out is q's part of qkv");
  }
  check_kv(operation, k, v, cache.v_head_dim);
  check_destination(operation, k, v, cache, slots);
  Writes written;
  check_writes(operation, &q, &q_out, k, v, cache, slots, written);
  check_disjoint(operation, written.all(), by);
  check_weight(operation, written.all(), "q_norm's weight", q_norm, q.layout);
  check_weight(operation, written.all(), "k_norm's weight", k_norm, k.layout);
  StepJob job = step_job(qkv, &by);
  job.q_norm = {q_norm, true};
  job.k_norm = {k_norm, true};
  add_q(job, q, q_out);
  run_into(cache, slots, job, k, v, stream);
}

}  // namespace rotary::gpu
