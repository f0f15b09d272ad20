#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "rotary_torch/nn/attention.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Code;

constexpr Refusal refuse{"kv_cache"};

// Never an inference tensor, even under inference mode: those may not be written outside of it.
Tensor room_for(const Tensor& like, std::int64_t tokens) {
  const c10::InferenceMode normal(false);
  return at::empty({like.size(0), like.size(1), tokens, like.size(3)}, like.options());
}

}  // namespace

std::pair<Tensor, Tensor> KVCache::append(const Tensor& k, const Tensor& v) {
  if (k.dim() != 4 || k.sizes() != v.sizes()) {
    refuse(Code::SHAPE, "k and v must be [batch, kv_heads, tokens, head_dim] but got ", k.sizes(), " and ", v.sizes());
  }
  if (at::GradMode::is_enabled() && (k.requires_grad() || v.requires_grad())) {
    refuse(Code::VALUE, "append must run under no_grad or inference mode but got tensors with a gradient");
  }
  const at::NoGradGuard no_grad;
  const std::int64_t added = k.size(2);
  if (keys_.defined()) {
    if (k.size(0) != keys_.size(0) || k.size(1) != keys_.size(1) || k.size(3) != keys_.size(3)) {
      refuse(Code::SHAPE, "k and v must have the cache's batch, kv_heads and head_dim ",
             at::IntArrayRef({keys_.size(0), keys_.size(1), keys_.size(3)}), " but got ", k.sizes());
    }
    if (k.scalar_type() != keys_.scalar_type()) {
      refuse(Code::DTYPE, "k and v must have the cache's type ", keys_.scalar_type(), " but got ", k.scalar_type());
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

void KVCache::truncate(std::int64_t tokens) {
  if (tokens < 0 || tokens > tokens_) refuse(Code::SHAPE, "tokens must be from 0 to ", tokens_, " but got ", tokens);
  tokens_ = tokens;
}

}  // namespace rotary_torch
