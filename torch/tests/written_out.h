// Attention written out in double precision, for the tests of attention and of the models: scores by matmul, keys
// repeated, masks by loops.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <vector>

#include "rotary/rotary.h"
#include "rotary_torch/nn/layers.h"

namespace rotary_torch {

using at::Tensor;

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

// Rows of base^(-2i / rotary_dim) at these positions, in f64.
inline TableTensors table_of(int rotary_dim, std::int64_t first_position, std::int64_t tokens,
                             rotary::Pairing pairing = rotary::Pairing::half, double base = 100) {
  const Tensor speeds = at::pow(base, -2 * at::arange(rotary_dim / 2, at::kDouble) / rotary_dim);
  const Tensor angles = at::arange(first_position, first_position + tokens, at::kDouble).unsqueeze(1) * speeds;
  return {angles.cos(), angles.sin(), pairing};
}
inline TableTensors as(const TableTensors& t, at::ScalarType dtype) {
  return {t.cos.to(dtype), t.sin.to(dtype), t.pairing};
}

// x [batch, tokens, heads, head_dim].
inline Tensor rotated(const Tensor& x, const TableTensors& t, std::int64_t first) {
  const std::int64_t pairs = t.cos.size(-1);
  const Tensor c = t.cos.to(at::kDouble).unsqueeze(1), s = t.sin.to(at::kDouble).unsqueeze(1);
  std::vector<Tensor> element = x.unbind(-1);
  for (std::int64_t i = 0; i < pairs; ++i) {
    const bool half = t.pairing == rotary::Pairing::half;
    const auto a = static_cast<std::size_t>(first + (half ? i : 2 * i));
    const auto b = static_cast<std::size_t>(first + (half ? i + pairs : 2 * i + 1));
    const Tensor u = element[a], w = element[b];
    element[a] = u * c.select(-1, i) - w * s.select(-1, i);
    element[b] = w * c.select(-1, i) + u * s.select(-1, i);
  }
  return at::stack(element, -1);
}

inline Tensor normed(const Tensor& x, const Tensor& weight, double eps) {
  return x / (x.square().mean(-1, true) + eps).sqrt() * weight;
}

// A mask [batch, heads, queries, keys]: 0 or the additive mask's value, and -inf where the query may not see the key.
inline Tensor written_out_mask(const AttentionMask& mask, std::int64_t batch, std::int64_t heads, std::int64_t queries,
                               std::int64_t past) {
  const std::int64_t keys = past + queries;
  Tensor bias = at::zeros({batch, heads, queries, keys}, at::kDouble);
  if (mask.additive.defined()) bias = bias + mask.additive.to(at::kDouble);
  bias = bias.contiguous();
  for (std::int64_t b = 0; b < batch; ++b) {
    for (std::int64_t i = 0; i < queries; ++i) {
      for (std::int64_t j = 0; j < keys; ++j) {
        bool seen = true;
        if (mask.causal && j > past + i) seen = false;
        if (mask.window > 0 && !(past + i - mask.window < j)) seen = false;
        if (mask.padding.defined() && mask.padding[b][j].item<double>() == 0) seen = false;
        if (!seen) bias.select(0, b).select(1, i).select(1, j).fill_(minus_infinity);
      }
    }
  }
  return bias;
}

struct Parameters {
  Tensor qkv, qkv_bias, output, output_bias, q_norm, k_norm;
  std::vector<Tensor> all() const {
    std::vector<Tensor> defined;
    for (const Tensor& t : {qkv, qkv_bias, output, output_bias, q_norm, k_norm}) {
      if (t.defined()) defined.push_back(t);
    }
    return defined;
  }
};
inline Parameters parameters_of(const MultiHeadAttention& m) {
  Parameters p{m->qkv->weight, m->qkv->bias, m->output->weight, m->output->bias, {}, {}};
  if (!m->q_norm.is_empty()) p.q_norm = m->q_norm->weight, p.k_norm = m->k_norm->weight;
  return p;
}
inline Parameters in_double(const Parameters& p) {
  const auto copy = [](const Tensor& t) {
    return t.defined() ? t.detach().to(at::kDouble).clone().requires_grad_() : Tensor();
  };
  return {copy(p.qkv), copy(p.qkv_bias), copy(p.output), copy(p.output_bias), copy(p.q_norm), copy(p.k_norm)};
}

inline Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const Tensor y = at::matmul(x, weight.t());
  return bias.defined() ? y + bias : y;
}

inline Tensor written_out(const Parameters& p, const AttentionOptions& o, const Tensor& x, const TableTensors* table,
                          const AttentionMask& mask, std::int64_t first = 0) {
  const std::int64_t batch = x.size(0), tokens = x.size(1), group = o.heads / o.kv_heads;
  const Tensor all = linear(x, p.qkv, p.qkv_bias).view({batch, tokens, -1, o.head_dim});
  Tensor q = all.slice(2, 0, o.heads), k = all.slice(2, o.heads, o.heads + o.kv_heads);
  Tensor v = all.slice(2, o.heads + o.kv_heads);
  if (o.qk_norm) q = normed(q, p.q_norm, o.norm_eps), k = normed(k, p.k_norm, o.norm_eps);
  if (table != nullptr) {
    q = rotated(q, *table, first), k = rotated(k, *table, first);
    if (o.rotates_values) v = rotated(v, *table, first);
  }
  q = q.transpose(1, 2);
  k = k.transpose(1, 2).repeat_interleave(group, 1);
  v = v.transpose(1, 2).repeat_interleave(group, 1);
  const double scale = 1 / std::sqrt(static_cast<double>(o.head_dim));
  const Tensor bias = written_out_mask(mask, batch, o.heads, tokens, 0);
  const Tensor unseen = bias == minus_infinity;
  const Tensor e =
      (at::matmul(q, k.transpose(2, 3)) * scale + bias.masked_fill(unseen, 0)).exp().masked_fill(unseen, 0);
  const Tensor sum = e.sum(-1, true);
  const Tensor probability = e / sum.masked_fill(sum == 0, 1);  // a query that sees no key gets 0
  const Tensor y = at::matmul(probability, v).transpose(1, 2);
  return linear(y.reshape({batch, tokens, -1}), p.output, p.output_bias);
}

}  // namespace rotary_torch
