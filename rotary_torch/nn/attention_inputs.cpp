// What attention is given: the mask of a step and the keys so far.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <limits>

#include "rotary_torch/nn/attention.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Code;

constexpr Refusal refuse_mask{"score_mask"};
constexpr Refusal refuse_cache{"kv_cache"};

constexpr double unseen = -std::numeric_limits<double>::infinity();

void check_padding(const Tensor& padding, std::int64_t batch, std::int64_t keys) {
  if (padding.dim() != 2 || padding.size(0) != batch || padding.size(1) != keys) {
    refuse_mask(Code::SHAPE, "padding must be [batch, keys] [", batch, ", ", keys, "] but got ", padding.sizes());
  }
  if (!at::isIntegralType(padding.scalar_type(), /*includeBool=*/true)) {
    refuse_mask(Code::DTYPE, "padding must be bool or integers but got ", padding.scalar_type());
  }
}

void check_additive(const Tensor& additive, std::int64_t batch, std::int64_t queries, std::int64_t keys) {
  const auto fits = [&](std::int64_t from_the_end, std::int64_t size) {
    return additive.dim() < from_the_end || additive.size(-from_the_end) == 1 || additive.size(-from_the_end) == size;
  };
  if (additive.dim() > 4 || !fits(1, keys) || !fits(2, queries) || !fits(4, batch)) {
    refuse_mask(Code::SHAPE, "additive must be broadcast to [batch, heads, queries, keys] [", batch, ", heads, ",
                queries, ", ", keys, "] but got ", additive.sizes());
  }
  if (!additive.is_floating_point())
    refuse_mask(Code::DTYPE, "additive must be floating but got ", additive.scalar_type());
}

// [queries, keys]: whether the key is seen as far as positions decide it; undefined if all keys are.
Tensor seen_by_place(bool causal, std::int64_t window, std::int64_t queries, std::int64_t past, at::Device device) {
  const Tensor key = at::arange(past + queries, at::TensorOptions(device).dtype(at::kLong));
  const Tensor query = key.narrow(0, past, queries).unsqueeze(1);
  Tensor seen;
  if (causal) seen = key <= query;
  if (window > 0) {
    const Tensor near = key > query - window;
    seen = seen.defined() ? seen & near : near;
  }
  return seen;
}

// Never an inference tensor, even under inference mode: those may not be written outside of it.
Tensor room_for(const Tensor& like, std::int64_t tokens) {
  const c10::InferenceMode normal(false);
  return at::empty({like.size(0), like.size(1), tokens, like.size(3)}, like.options());
}

}  // namespace

// ---- masks ----

ScoreMask score_mask(const AttentionMask& mask, std::int64_t batch, std::int64_t queries, std::int64_t past,
                     const at::TensorOptions& options) {
  const std::int64_t keys = past + queries;
  if (mask.window < 0) refuse_mask(Code::SHAPE, "window must not be negative but got ", mask.window);
  if (mask.padding.defined()) check_padding(mask.padding, batch, keys);
  if (mask.additive.defined()) check_additive(mask.additive, batch, queries, keys);

  // Parts that hide nothing need no mask: causal for a single query, a window as large as all keys, padding without 0.
  const bool causal = mask.causal && queries > 1;
  const std::int64_t window = mask.window < keys ? mask.window : 0;
  Tensor padding = mask.padding;
  if (padding.defined() && padding.is_cpu() && padding.all().item<bool>()) padding = Tensor();
  if (!padding.defined() && window == 0 && !mask.additive.defined() && (!causal || past == 0)) return {causal, {}};

  const at::ScalarType dtype = wide_type(c10::typeMetaToScalarType(options.dtype()));
  Tensor seen = seen_by_place(causal, window, queries, past, options.device());
  if (padding.defined()) {
    const Tensor tokens = padding.to(options.device(), at::kBool).view({batch, 1, 1, keys});
    seen = seen.defined() ? seen & tokens : tokens.expand({batch, 1, queries, keys});
  }
  Tensor bias = mask.additive.defined() ? mask.additive.to(options.device(), dtype)
                                        : at::zeros({}, at::TensorOptions(options.device()).dtype(dtype));
  if (seen.defined()) bias = bias.masked_fill(seen.logical_not(), unseen);
  if (mask.finite) bias = bias.clamp_min(std::numeric_limits<float>::lowest());
  while (bias.dim() < 4) bias = bias.unsqueeze(0);
  return {false, bias.expand({bias.size(0), bias.size(1), queries, keys}).contiguous()};
}

// ---- the cache ----

std::pair<Tensor, Tensor> KVCache::append(const Tensor& k, const Tensor& v) {
  if (k.dim() != 4 || k.sizes() != v.sizes()) {
    refuse_cache(Code::SHAPE, "k and v must be [batch, kv_heads, tokens, head_dim] but got ", k.sizes(), " and ",
                 v.sizes());
  }
  if (at::GradMode::is_enabled() && (k.requires_grad() || v.requires_grad())) {
    refuse_cache(Code::VALUE, "append must run under no_grad or inference mode but got tensors with a gradient");
  }
  const at::NoGradGuard no_grad;
  const std::int64_t added = k.size(2);
  if (keys_.defined()) {
    if (k.size(0) != keys_.size(0) || k.size(1) != keys_.size(1) || k.size(3) != keys_.size(3)) {
      refuse_cache(Code::SHAPE, "k and v must have the cache's batch, kv_heads and head_dim ",
                   at::IntArrayRef({keys_.size(0), keys_.size(1), keys_.size(3)}), " but got ", k.sizes());
    }
    if (k.scalar_type() != keys_.scalar_type()) {
      refuse_cache(Code::DTYPE, "k and v must have the cache's type ", keys_.scalar_type(), " but got ",
                   k.scalar_type());
    }
  }
  if (!keys_.defined() || tokens_ + added > keys_.size(2)) {
    const std::int64_t room = std::max({capacity_, 2 * tokens_, tokens_ + added});
    const Tensor keys = room_for(k, room), values = room_for(k, room);
    if (tokens_ > 0) {
      keys.narrow(2, 0, tokens_).copy_(keys_.narrow(2, 0, tokens_));
      values.narrow(2, 0, tokens_).copy_(values_.narrow(2, 0, tokens_));
    }
    keys_ = keys, values_ = values;
  }
  keys_.narrow(2, tokens_, added).copy_(k);
  values_.narrow(2, tokens_, added).copy_(v);
  tokens_ += added;
  return {keys_.narrow(2, 0, tokens_), values_.narrow(2, 0, tokens_)};
}

}  // namespace rotary_torch
