#include "rotary_torch/nn/small_heads.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "rotary/targets.h"

// Functions that take Vec are always inlined, so their ABI does not matter.
#pragma GCC diagnostic ignored "-Wpsabi"

#define ROTARY_INLINE [[gnu::always_inline]] inline
// Put before a loop over rows, so that its values stay in registers.
#if defined(__clang__)
#define ROTARY_UNROLL _Pragma("clang loop unroll(full)")
#else
#define ROTARY_UNROLL _Pragma("GCC unroll 8")
#endif

namespace rotary_torch {
namespace {

using at::Tensor;

constexpr int lanes = 8;
constexpr int rows = 8;  // queries computed together
constexpr float infinity = std::numeric_limits<float>::infinity();

using Vec = float __attribute__((vector_size(4 * lanes)));
using Bits = std::int32_t __attribute__((vector_size(4 * lanes)));

ROTARY_INLINE Vec load(const float* from) {
  Vec v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
ROTARY_INLINE void store(float* to, const Vec& v) { std::memcpy(to, &v, sizeof v); }
ROTARY_INLINE Vec all(float x) { return Vec{} + x; }

// e^x for x <= 0, to about 2 ulp; 0 below -87. x = n ln 2 + r, |r| <= ln 2 / 2, and the series of e^r.
ROTARY_INLINE Vec exp_of(const Vec& x) {
  constexpr float integer = 0x1.8p23F;  // when added, the low bits hold the nearest integer
  constexpr float ln2_high = 0x1.62ep-1F, ln2_low = 0x1.0bfbe8p-15F;
  const Vec shifted = x * 1.442695041F + integer;
  const Vec n = shifted - integer;
  const Vec r = (x - n * ln2_high) - n * ln2_low;
  const Vec tail = ((((r * (1 / 5040.F) + 1 / 720.F) * r + 1 / 120.F) * r + 1 / 24.F) * r + 1 / 6.F) * r + 0.5F;
  const Vec series = tail * r * r + r + 1.F;
  Bits bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + 0x3f800000;
  Vec power;
  std::memcpy(&power, &bits, sizeof power);
  const Vec value = series * power;
  return x < all(-87.F) ? Vec{} : value;
}

// ---- three products for a constant head_dim D ------------------------------------------------------

// out[r][j] = sum over d of a[r][d] bt[d][j], for j below count rounded up to lanes.
template <int D>
ROTARY_INLINE void rows_by_columns(const float* a, const float* bt, std::int64_t stride, std::int64_t count,
                                   float* out) {
  for (std::int64_t j = 0; j < count; j += lanes) {
    Vec sum[rows] = {};
    for (int d = 0; d < D; ++d) {
      const Vec b = load(bt + d * stride + j);
      ROTARY_UNROLL
      for (int r = 0; r < rows; ++r) sum[r] += a[r * D + d] * b;
    }
    ROTARY_UNROLL
    for (int r = 0; r < rows; ++r) store(out + r * stride + j, sum[r]);
  }
}

// out[r][d] = sum over j below count of p[r][j] b[j][d].
template <int D>
ROTARY_INLINE void rows_by_rows(const float* p, std::int64_t stride, const float* b, std::int64_t count, float* out) {
  for (int d = 0; d < D; d += lanes) {
    Vec sum[rows] = {};
    for (std::int64_t j = 0; j < count; ++j) {
      const Vec v = load(b + j * D + d);
      ROTARY_UNROLL
      for (int r = 0; r < rows; ++r) sum[r] += p[r * stride + j] * v;
    }
    ROTARY_UNROLL
    for (int r = 0; r < rows; ++r) store(out + r * D + d, sum[r]);
  }
}

// out[j][d] += sum over r of p[r][j] a[r][d], for j below count.
template <int D>
ROTARY_INLINE void columns_by_rows(const float* p, std::int64_t stride, const float* a, std::int64_t count,
                                   float* out) {
  for (int d = 0; d < D; d += lanes) {
    Vec part[rows];
    ROTARY_UNROLL
    for (int r = 0; r < rows; ++r) part[r] = load(a + r * D + d);
    for (std::int64_t j = 0; j < count; ++j) {
      Vec even = load(out + j * D + d), odd = {};
      ROTARY_UNROLL
      for (int r = 0; r < rows; r += 2) {
        even += p[r * stride + j] * part[r];
        odd += p[(r + 1) * stride + j] * part[r + 1];
      }
      store(out + j * D + d, even + odd);
    }
  }
}

// ---- one head of keys, and the query heads that read it --------------------------------------------

struct Strided {
  const float* data = nullptr;
  std::int64_t batch = 0, head = 0, token = 0;
};

struct Problem {
  std::int64_t tokens, heads, kv_heads, stride;  // stride of the columns and of the scores
  float scale;
  bool causal;
  Strided bias;  // additive [batch, heads, queries, keys]; data null: none
  const float* qkv;
  float* y;
  float* logsumexp;
  const float* grad_y;  // contiguous, as y
  float* grad_qkv;

  std::int64_t all_heads() const { return heads + 2 * kv_heads; }
};

struct Scratch {
  explicit Scratch(const Problem& p, std::int64_t head_dim)
      : values(static_cast<std::size_t>(2 * head_dim * p.stride + 4 * p.tokens * head_dim + 2 * rows * p.stride +
                                        4 * rows * head_dim)) {
    float* next = values.data();
    const auto take = [&](std::int64_t count) { return std::exchange(next, next + count); };
    k_columns = take(head_dim * p.stride), v_columns = take(head_dim * p.stride);
    k = take(p.tokens * head_dim), v = take(p.tokens * head_dim);
    grad_k = take(p.tokens * head_dim), grad_v = take(p.tokens * head_dim);
    scores = take(rows * p.stride), grad_scores = take(rows * p.stride);
    q = take(rows * head_dim), y = take(rows * head_dim), grad_y = take(rows * head_dim),
    grad_q = take(rows * head_dim);
  }
  std::vector<float> values;  // zero where nothing is written: columns beyond the tokens
  float *k_columns, *v_columns, *k, *v, *grad_k, *grad_v, *scores, *grad_scores, *q, *y, *grad_y, *grad_q;
};

template <int D>
ROTARY_INLINE void pack(const float* from, std::int64_t token_stride, std::int64_t tokens, std::int64_t stride,
                        float* by_token, float* by_column) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (int d = 0; d < D; ++d) by_column[d * stride + t] = by_token[t * D + d] = from[t * token_stride + d];
  }
}

// `count` rows of D, each times scale; the rest of the block 0.
template <int D>
ROTARY_INLINE void pack_rows(const float* from, std::int64_t token_stride, std::int64_t count, float scale, float* to) {
  ROTARY_UNROLL
  for (int r = 0; r < rows; ++r) {
    for (int d = 0; d < D; d += lanes) {
      store(to + r * D + d, r < count ? load(from + r * token_stride + d) * scale : Vec{});
    }
  }
}

// The masked scores of `count` queries from `query` on. Returns the number of keys that any of them may see; scores
// beyond it are -inf.
template <int D>
ROTARY_INLINE std::int64_t masked_scores(const Problem& p, Scratch& s, std::int64_t batch, std::int64_t head,
                                         std::int64_t query, std::int64_t count) {
  const std::int64_t seen = p.causal ? query + count : p.tokens;
  rows_by_columns<D>(s.q, s.k_columns, p.stride, seen, s.scores);
  for (std::int64_t r = 0; r < count; ++r) {
    float* row = s.scores + r * p.stride;
    if (p.bias.data != nullptr) {
      const float* bias = p.bias.data + batch * p.bias.batch + head * p.bias.head + (query + r) * p.bias.token;
      for (std::int64_t j = 0; j < seen; ++j) row[j] += bias[j];
    }
    const std::int64_t last = p.causal ? query + r + 1 : p.tokens;
    for (std::int64_t j = last; j % lanes != 0 || j < seen; ++j) row[j] = -infinity;
  }
  return seen;
}

// Replaces row by e^(row - largest), sets their sum and returns log sum exp.
ROTARY_INLINE float softmax_row(float* row, std::int64_t count, float& sum) {
  Vec highest = all(-infinity);
  for (std::int64_t j = 0; j < count; j += lanes) {
    const Vec x = load(row + j);
    highest = x > highest ? x : highest;
  }
  float largest = -infinity;
  for (int i = 0; i < lanes; ++i) largest = std::max(largest, highest[i]);
  sum = 0;
  if (largest == -infinity) {
    if (std::any_of(row, row + count, [](float x) { return std::isnan(x); })) {
      std::fill(row, row + count, std::numeric_limits<float>::quiet_NaN());
      return sum = std::numeric_limits<float>::quiet_NaN();
    }
    std::fill(row, row + count, 0.F);
    return infinity;
  }
  Vec sums = {};
  for (std::int64_t j = 0; j < count; j += lanes) {
    const Vec e = exp_of(load(row + j) - largest);
    store(row + j, e);
    sums += e;
  }
  for (int i = 0; i < lanes; ++i) sum += sums[i];
  return largest + std::log(sum);
}

template <int D>
ROTARY_INLINE void forward_head(const Problem& p, Scratch& s, std::int64_t batch, std::int64_t kv_head) {
  const std::int64_t width = p.all_heads() * D, group = p.heads / p.kv_heads;
  const float* qkv = p.qkv + batch * p.tokens * width;
  pack<D>(qkv + (p.heads + kv_head) * D, width, p.tokens, p.stride, s.k, s.k_columns);
  pack<D>(qkv + (p.heads + p.kv_heads + kv_head) * D, width, p.tokens, p.stride, s.v, s.v_columns);
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (std::int64_t query = 0; query < p.tokens; query += rows) {
      const std::int64_t count = std::min<std::int64_t>(rows, p.tokens - query);
      pack_rows<D>(qkv + query * width + head * D, width, count, p.scale, s.q);
      const std::int64_t seen = masked_scores<D>(p, s, batch, head, query, count);
      float sum[rows] = {};
      float* logsumexp = p.logsumexp + (batch * p.heads + head) * p.tokens + query;
      for (std::int64_t r = 0; r < count; ++r) logsumexp[r] = softmax_row(s.scores + r * p.stride, seen, sum[r]);
      rows_by_rows<D>(s.scores, p.stride, s.v, seen, s.y);
      for (std::int64_t r = 0; r < count; ++r) {
        float* y = p.y + ((batch * p.tokens + query + r) * p.heads + head) * D;
        const float weight = sum[r] == 0 ? 0.F : 1 / sum[r];
        for (int d = 0; d < D; d += lanes) store(y + d, load(s.y + r * D + d) * weight);
      }
    }
  }
}

// With P the probabilities, dP = dY V^T: dS = P (dP - sum over d of dY Y), dV = P^T dY, dQ = scale dS K and
// dK = scale dS^T Q. FlashAttention-2, arXiv:2307.08691, section 3.1.2.
template <int D>
ROTARY_INLINE void backward_head(const Problem& p, Scratch& s, std::int64_t batch, std::int64_t kv_head) {
  const std::int64_t width = p.all_heads() * D, group = p.heads / p.kv_heads;
  const float* qkv = p.qkv + batch * p.tokens * width;
  float* grad_qkv = p.grad_qkv + batch * p.tokens * width;
  pack<D>(qkv + (p.heads + kv_head) * D, width, p.tokens, p.stride, s.k, s.k_columns);
  pack<D>(qkv + (p.heads + p.kv_heads + kv_head) * D, width, p.tokens, p.stride, s.v, s.v_columns);
  std::fill(s.grad_k, s.grad_k + p.tokens * D, 0.F);
  std::fill(s.grad_v, s.grad_v + p.tokens * D, 0.F);
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (std::int64_t query = 0; query < p.tokens; query += rows) {
      const std::int64_t count = std::min<std::int64_t>(rows, p.tokens - query);
      const std::int64_t out = ((batch * p.tokens + query) * p.heads + head) * D;
      pack_rows<D>(qkv + query * width + head * D, width, count, p.scale, s.q);
      pack_rows<D>(p.grad_y + out, p.heads * D, count, 1, s.grad_y);
      pack_rows<D>(p.y + out, p.heads * D, count, 1, s.y);
      const std::int64_t seen = masked_scores<D>(p, s, batch, head, query, count);
      rows_by_columns<D>(s.grad_y, s.v_columns, p.stride, seen, s.grad_scores);
      const float* logsumexp = p.logsumexp + (batch * p.heads + head) * p.tokens + query;
      for (std::int64_t r = 0; r < rows; ++r) {
        float delta = 0;
        for (int d = 0; d < D; ++d) delta += s.grad_y[r * D + d] * s.y[r * D + d];
        float *probability = s.scores + r * p.stride, *grad = s.grad_scores + r * p.stride;
        const float log_sum = r < count ? logsumexp[r] : infinity;
        for (std::int64_t j = 0; j < seen; j += lanes) {
          const Vec e = exp_of(load(probability + j) - log_sum);
          store(probability + j, e);
          store(grad + j, e * (load(grad + j) - delta));
        }
      }
      columns_by_rows<D>(s.scores, p.stride, s.grad_y, seen, s.grad_v);
      columns_by_rows<D>(s.grad_scores, p.stride, s.q, seen, s.grad_k);
      rows_by_rows<D>(s.grad_scores, p.stride, s.k, seen, s.grad_q);
      for (std::int64_t r = 0; r < count; ++r) {
        float* grad_q = grad_qkv + (query + r) * width + head * D;
        for (int d = 0; d < D; d += lanes) store(grad_q + d, load(s.grad_q + r * D + d) * p.scale);
      }
    }
  }
  for (std::int64_t t = 0; t < p.tokens; ++t) {
    float* to = grad_qkv + t * width + (p.heads + kv_head) * D;
    std::memcpy(to, s.grad_k + t * D, D * sizeof(float));
    std::memcpy(to + p.kv_heads * D, s.grad_v + t * D, D * sizeof(float));
  }
}

template <int D>
ROTARY_INLINE void head_of(const Problem& p, Scratch& s, std::int64_t batch, std::int64_t kv_head, bool backward) {
  backward ? backward_head<D>(p, s, batch, kv_head) : forward_head<D>(p, s, batch, kv_head);
}

ROTARY_INLINE void any_head(const Problem& p, Scratch& s, std::int64_t head_dim, std::int64_t batch,
                            std::int64_t kv_head, bool backward) {
  switch (head_dim) {
    case 8:
      return head_of<8>(p, s, batch, kv_head, backward);
    case 16:
      return head_of<16>(p, s, batch, kv_head, backward);
    case 32:
      return head_of<32>(p, s, batch, kv_head, backward);
    default:
      return head_of<64>(p, s, batch, kv_head, backward);
  }
}

// The same code for each instruction set; the core's target selects one.
using Head = void (*)(const Problem&, Scratch&, std::int64_t head_dim, std::int64_t batch, std::int64_t kv_head,
                      bool backward);
void head_plain(const Problem& p, Scratch& s, std::int64_t head_dim, std::int64_t batch, std::int64_t kv_head,
                bool backward) {
  any_head(p, s, head_dim, batch, kv_head, backward);
}
#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void head_avx2(const Problem& p, Scratch& s, std::int64_t head_dim, std::int64_t batch,
                                           std::int64_t kv_head, bool backward) {
  any_head(p, s, head_dim, batch, kv_head, backward);
}
[[gnu::target("avx512f,avx512vl,fma")]] void head_avx512(const Problem& p, Scratch& s, std::int64_t head_dim,
                                                         std::int64_t batch, std::int64_t kv_head, bool backward) {
  any_head(p, s, head_dim, batch, kv_head, backward);
}
#endif
Head head_for(std::string_view target) {
#if defined(__x86_64__)
  if (target.starts_with("avx512")) return head_avx512;
  if (target == "avx2") return head_avx2;
#endif
  return head_plain;
}

// Whole vectors and an odd number of cache lines, so that rows do not compete for the same cache sets.
std::int64_t stride_for(std::int64_t tokens) {
  constexpr std::int64_t line = 16;
  return ((tokens + line - 1) / line | 1) * line;
}

Problem problem_of(const Tensor& qkv, std::int64_t heads, const ScoreMask& mask, double scale) {
  Problem p{};
  p.tokens = qkv.size(1), p.heads = heads, p.kv_heads = (qkv.size(2) - heads) / 2;
  p.stride = stride_for(p.tokens);
  p.scale = static_cast<float>(scale), p.causal = mask.causal;
  p.qkv = qkv.const_data_ptr<float>();
  if (mask.bias.defined()) {
    const Tensor& b = mask.bias;
    const auto step = [&](std::int64_t d) { return b.size(d) == 1 ? 0 : b.stride(d); };
    p.bias = {b.const_data_ptr<float>(), step(0), step(1), step(2)};
  }
  return p;
}

void run(const Problem& p, std::int64_t batch, std::int64_t head_dim, bool backward) {
  const Head one_head = head_for(rotary::chosen_target());
  at::parallel_for(0, batch * p.kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    Scratch scratch(p, head_dim);
    for (std::int64_t i = begin; i < end; ++i) {
      one_head(p, scratch, head_dim, i / p.kv_heads, i % p.kv_heads, backward);
    }
  });
}

}  // namespace

bool small_heads_fit(std::int64_t head_dim) {
  return head_dim == 8 || head_dim == 16 || head_dim == 32 || head_dim == 64;
}

std::pair<Tensor, Tensor> small_heads_forward(const Tensor& qkv, std::int64_t heads, const ScoreMask& mask,
                                              double scale) {
  const Tensor y = at::empty({qkv.size(0), qkv.size(1), heads, qkv.size(3)}, qkv.options());
  const Tensor logsumexp = at::empty({qkv.size(0), heads, qkv.size(1)}, qkv.options());
  Problem p = problem_of(qkv, heads, mask, scale);
  p.y = y.mutable_data_ptr<float>(), p.logsumexp = logsumexp.mutable_data_ptr<float>();
  run(p, qkv.size(0), qkv.size(3), false);
  return {y, logsumexp};
}

Tensor small_heads_backward(const Tensor& grad, const Tensor& qkv, const Tensor& y, const Tensor& logsumexp,
                            std::int64_t heads, const ScoreMask& mask, double scale) {
  const Tensor grad_y = grad.contiguous(), grad_qkv = at::empty_like(qkv);
  Problem p = problem_of(qkv, heads, mask, scale);
  p.y = y.mutable_data_ptr<float>(), p.logsumexp = logsumexp.mutable_data_ptr<float>();
  p.grad_y = grad_y.const_data_ptr<float>(), p.grad_qkv = grad_qkv.mutable_data_ptr<float>();
  run(p, qkv.size(0), qkv.size(3), true);
  return grad_qkv;
}

}  // namespace rotary_torch
