#include "rotary_torch/nn/attention.h"

#include <ATen/ATen.h>

#include <cmath>
#include <optional>
#include <tuple>
#include <vector>

#include "rotary_torch/nn/fused_attention.h"
#include "rotary_torch/nn/projection.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Code;

constexpr Refusal refuse{"attention"};

AttentionOptions completed(AttentionOptions o) {
  if (o.width <= 0) refuse(Code::SHAPE, "width must be positive but got ", o.width);
  if (o.heads <= 0) refuse(Code::SHAPE, "heads must be positive but got ", o.heads);
  if (o.kv_heads == 0) o.kv_heads = o.heads;
  if (o.kv_heads < 0 || o.heads % o.kv_heads != 0) {
    refuse(Code::SHAPE, "kv_heads must divide the ", o.heads, " heads but got ", o.kv_heads);
  }
  if (o.head_dim == 0) {
    if (o.width % o.heads != 0) refuse(Code::SHAPE, "heads must divide width ", o.width, " but got ", o.heads);
    o.head_dim = o.width / o.heads;
  }
  if (o.head_dim < 0) refuse(Code::SHAPE, "head_dim must be positive but got ", o.head_dim);
  if (!(o.dropout >= 0 && o.dropout < 1)) refuse(Code::SHAPE, "dropout must be from 0 to below 1 but got ", o.dropout);
  return o;
}

void check_mask(const ScoreMask& mask, std::int64_t batch, std::int64_t heads, std::int64_t queries,
                std::int64_t keys) {
  if (mask.causal && queries != keys) {
    refuse(Code::SHAPE, "a mask that is causal and nothing else takes as many queries as keys but got ", queries,
           " and ", keys);
  }
  if (!mask.bias.defined()) return;
  const at::IntArrayRef sizes = mask.bias.sizes();
  const auto fits = [](std::int64_t size, std::int64_t whole) { return size == 1 || size == whole; };
  if (sizes.size() != 4 || !fits(sizes[0], batch) || !fits(sizes[1], heads) || sizes[2] != queries ||
      sizes[3] != keys) {
    refuse(Code::SHAPE, "mask must be [batch or 1, heads or 1, queries, keys] of ",
           at::IntArrayRef({batch, heads, queries, keys}), " but got ", sizes);
  }
}

// ---- attention on heads ----------------------------------------------------------------------------

struct Scores {
  Tensor bias;  // undefined: none
  double dropout;
  bool causal;
  double scale;
};

Tensor attend_each(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const Scores& s) {
  const std::optional<Tensor> mask = bias.defined() ? std::optional(bias) : std::nullopt;
  return at::scaled_dot_product_attention(q, k, v, mask, s.dropout, s.causal, s.scale);
}

// q [batch, heads, queries, head_dim], k and v [batch, kv_heads, keys, head_dim] to [batch, queries, heads, head_dim].
// Keys are never repeated: there is one call for each of the query heads that share a key head or, if each has only one
// query, one call in which they are the queries of that key head.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Scores& s) {
  const std::int64_t batch = q.size(0), heads = q.size(1), queries = q.size(2), head_dim = q.size(3);
  const std::int64_t kv_heads = k.size(1), group = heads / kv_heads;
  if (group == 1) return attend_each(q, k, v, s.bias, s).transpose(1, 2);
  const bool bias_by_head = s.bias.defined() && s.bias.size(1) > 1;
  if (queries == 1) {
    const Tensor bias = bias_by_head ? s.bias.view({s.bias.size(0), kv_heads, group, s.bias.size(3)}) : s.bias;
    return attend_each(q.view({batch, kv_heads, group, head_dim}), k, v, bias, s).reshape({batch, 1, heads, head_dim});
  }
  const Tensor members = q.unflatten(1, {kv_heads, group});
  const Tensor biases = bias_by_head ? s.bias.unflatten(1, {kv_heads, group}) : s.bias;
  std::vector<Tensor> parts;
  for (std::int64_t g = 0; g < group; ++g) {
    const Tensor part = attend_each(members.select(2, g), k, v, bias_by_head ? biases.select(2, g) : biases, s);
    parts.push_back(part.transpose(1, 2));
  }
  return at::stack(parts, 3).flatten(2, 3);
}

}  // namespace

// ---- the module ------------------------------------------------------------------------------------

MultiHeadAttentionImpl::MultiHeadAttentionImpl(AttentionOptions options)
    : torch::nn::Module("MultiHeadAttention"), options_(completed(options)) {
  const AttentionOptions& o = options_;
  const std::int64_t all_heads = o.heads + 2 * o.kv_heads;
  qkv = register_module("qkv",
                        torch::nn::Linear(torch::nn::LinearOptions(o.width, all_heads * o.head_dim).bias(o.qkv_bias)));
  output = register_module(
      "output", torch::nn::Linear(torch::nn::LinearOptions(o.heads * o.head_dim, o.width).bias(o.output_bias)));
  if (o.qk_norm) {
    q_norm = register_module("q_norm", RMSNorm(o.head_dim, o.norm_eps));
    k_norm = register_module("k_norm", RMSNorm(o.head_dim, o.norm_eps));
  }
}

Tensor MultiHeadAttentionImpl::forward(const Tensor& x, const TableTensors* table, const ScoreMask& mask,
                                       KVCache* cache, std::int64_t first) {
  const AttentionOptions& o = options_;
  if (x.dim() != 3 || x.size(2) != o.width) {
    refuse(Code::SHAPE, "x must be [batch, tokens, width ", o.width, "] but got ", x.sizes());
  }
  const std::int64_t batch = x.size(0), tokens = x.size(1);
  check_mask(mask, batch, o.heads, tokens, tokens + (cache == nullptr ? 0 : cache->tokens()));
  Tensor y = heads_output(x, table, mask, cache, first);
  if (table != nullptr && o.value_rotation == ValueRotation::rotated_back) {
    y = rotate_backward(y, *table, Dims::bthd, first);
  }
  return projected(output, y.reshape({batch, tokens, o.heads * o.head_dim}));
}

Tensor MultiHeadAttentionImpl::heads_output(const Tensor& x, const TableTensors* table, const ScoreMask& mask,
                                            KVCache* cache, std::int64_t first) {
  const AttentionOptions& o = options_;
  const std::int64_t rotated = o.heads + o.kv_heads;  // q and k
  const std::int64_t all_heads = rotated + o.kv_heads;
  const bool values_rotate = o.value_rotation != ValueRotation::none;
  const double dropout = is_training() ? o.dropout : 0;
  const double scale = o.scale == 0 ? 1 / std::sqrt(static_cast<double>(o.head_dim)) : o.scale;
  const FusedAttention fused{o.heads, o.kv_heads, o.head_dim, values_rotate ? all_heads : rotated, first, scale};
  if (cache == nullptr && dropout == 0 && !o.qk_norm && fused_attention_fits(x, qkv->weight, table, mask, fused)) {
    return fused_attention(x, qkv->weight, qkv->bias, table, mask, fused);
  }

  // q and k as one block of heads, and v. Without a gradient the block rotates in place.
  const Tensor all = projected(qkv, x).view({x.size(0), x.size(1), all_heads, o.head_dim});
  Tensor qk = all.narrow(2, 0, rotated), v = all.narrow(2, rotated, o.kv_heads);
  if (o.qk_norm) {
    qk = at::cat({q_norm->forward(all.narrow(2, 0, o.heads)), k_norm->forward(all.narrow(2, o.heads, o.kv_heads))}, 2);
  }
  const auto rotate_heads = [&](const Tensor& heads) {
    if (at::GradMode::is_enabled()) return rotate(heads, *table, Dims::bthd, first);
    rotate_(heads, *table, Dims::bthd, first);
    return heads;
  };
  if (table != nullptr) {
    qk = rotate_heads(qk);
    if (values_rotate) v = rotate_heads(v);
  }

  const Tensor q = qk.narrow(2, 0, o.heads).transpose(1, 2);
  Tensor k = qk.narrow(2, o.heads, o.kv_heads).transpose(1, 2);
  v = v.transpose(1, 2);
  if (cache != nullptr) std::tie(k, v) = cache->append(k, v);
  return attend(q, k, v, {mask.bias, dropout, mask.causal, scale});
}

}  // namespace rotary_torch
