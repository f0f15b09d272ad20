// For the tests of attention: attention written out in double precision (scores by matmul, keys repeated, masks by
// loops), and the masks and modules to try.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "rotary/rotary.h"
#include "rotary_torch/nn/attention.h"

namespace rotary_torch::attention_cases {

using at::Tensor;

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

inline TableTensors table_of(int rotary_dim, std::int64_t first_position, std::int64_t tokens,
                             rotary::Pairing pairing = rotary::Pairing::half) {
  rotary::Rope rope;
  rope.head_dim = rotary_dim;
  rope.base = 100;
  rope.pairing = pairing;
  return tensors(rotary::Table(rotary::frequencies(rope), rotary::positions(first_position, tokens)));
}

inline TableTensors as(const TableTensors& t, at::ScalarType dtype) {
  return {t.cos.to(dtype), t.sin.to(dtype), t.pairing};
}
inline TableTensors rows(const TableTensors& t, std::int64_t from, std::int64_t count) {
  return {t.cos.narrow(0, from, count), t.sin.narrow(0, from, count), t.pairing};
}

// ---- written out -----------------------------------------------------------------------------------

// x [batch, tokens, heads, head_dim]; sign -1 rotates back.
inline Tensor rotated(const Tensor& x, const TableTensors& t, std::int64_t first, double sign = 1) {
  const std::int64_t pairs = t.cos.size(-1);
  const Tensor c = t.cos.to(at::kDouble).unsqueeze(1), s = t.sin.to(at::kDouble).unsqueeze(1) * sign;
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

// [batch, heads, queries, keys] of 0 or the additive mask's value, -inf where the query may not see the key.
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
    if (o.value_rotation != ValueRotation::none) v = rotated(v, *table, first);
  }
  q = q.transpose(1, 2);
  k = k.transpose(1, 2).repeat_interleave(group, 1);
  v = v.transpose(1, 2).repeat_interleave(group, 1);
  const double scale = o.scale == 0 ? 1 / std::sqrt(static_cast<double>(o.head_dim)) : o.scale;
  const Tensor bias = written_out_mask(mask, batch, o.heads, tokens, 0);
  const Tensor unseen = bias == minus_infinity;
  const Tensor e =
      (at::matmul(q, k.transpose(2, 3)) * scale + bias.masked_fill(unseen, 0)).exp().masked_fill(unseen, 0);
  const Tensor sum = e.sum(-1, true);
  const Tensor probability = e / sum.masked_fill(sum == 0, 1);  // a query that sees no key gets 0
  Tensor y = at::matmul(probability, v).transpose(1, 2);
  if (table != nullptr && o.value_rotation == ValueRotation::rotated_back) y = rotated(y, *table, first, -1);
  return linear(y.reshape({batch, tokens, -1}), p.output, p.output_bias);
}

// ---- cases -----------------------------------------------------------------------------------------

constexpr std::int64_t batch_size = 2, length = 9, all_heads = 4;

inline Tensor left_padding() {
  const Tensor padding = at::ones({batch_size, length}, at::kLong);
  padding[1].narrow(0, 0, 3).zero_();
  return padding;
}
inline Tensor alibi(std::int64_t queries, std::int64_t keys) {  // [1, heads, queries, keys]
  const Tensor slope = at::pow(2, -at::arange(1, all_heads + 1, at::kFloat)).view({1, all_heads, 1, 1});
  const Tensor distance = at::arange(keys, at::kFloat) - at::arange(keys - queries, keys, at::kFloat).unsqueeze(1);
  return slope * distance;
}
struct NamedMask {
  std::string name;
  AttentionMask mask;
};
inline std::vector<NamedMask> every_mask() {
  at::manual_seed(11);
  std::vector<NamedMask> all;
  for (int bits = 0; bits < 16; ++bits) {
    AttentionMask mask;
    std::string name = "mask";
    if (bits & 1) mask.causal = true, name += " causal";
    if (bits & 2) mask.window = 3, name += " window";
    if (bits & 4) mask.padding = left_padding(), name += " padding";
    if (bits & 8) mask.additive = alibi(length, length), name += " additive";
    all.push_back({name, mask});
  }
  all.push_back({"additive for all", {false, 0, {}, at::randn({length, length})}});
  all.push_back(
      {"additive for each batch", {true, 0, left_padding().to(at::kBool), at::randn({batch_size, 1, 1, length})}});
  return all;
}

inline AttentionOptions options_of(std::int64_t kv_heads) {
  AttentionOptions o;
  o.width = 24;
  o.heads = all_heads;
  o.kv_heads = kv_heads;
  o.head_dim = 8;
  return o;
}

inline MultiHeadAttention made(const AttentionOptions& options) {
  MultiHeadAttention m(options);
  const at::NoGradGuard no_grad;
  for (Tensor& p : m->parameters()) p.copy_(at::randn_like(p) * 0.4);
  return m;
}

inline double difference(const Tensor& a, const Tensor& b) {
  const Tensor x = a.detach().to(at::kDouble), y = b.detach().to(at::kDouble);
  EXPECT_FALSE(x.isnan().any().item<bool>());
  return (x - y).abs().max().item<double>() / std::max(1.0, y.abs().max().item<double>());
}

template <class Call>
std::string sentence_of(Call call) {
  try {
    call();
  } catch (const rotary::Error& error) {
    return std::string(rotary::name(error.code())) + ": " + error.what();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "no error";
}

}  // namespace rotary_torch::attention_cases
