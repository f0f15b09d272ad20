#include "rotary_torch/nn/layers.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/library.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <tuple>

#include "models/families.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {

using at::Tensor;
using rotary::Code;

namespace {

struct ActivationRow {
  std::string_view name, also;  // also: other spellings, separated by blanks
  Tensor (*apply)(const Tensor&);
};

// In the order of Activation.
constexpr ActivationRow activations[] = {
    {"relu", "", [](const Tensor& x) { return at::relu(x); }},
    {"gelu", "gelu_python", [](const Tensor& x) { return at::gelu(x); }},
    {"gelu_tanh", "gelu_new gelu_fast gelu_accurate gelu_pytorch_tanh gelu_python_tanh",
     [](const Tensor& x) { return at::gelu(x, "tanh"); }},
    {"silu", "swish", [](const Tensor& x) { return at::silu(x); }},
    {"quick_gelu", "", [](const Tensor& x) { return x * at::sigmoid(1.702 * x); }},
};

// empty.memory_format, which every factory function without a device calls, is overridden under this key. torch
// reserves the key for interposers and has no kernels for it; the dispatcher considers it only on threads that include
// it.
constexpr c10::DispatchKey interposer = c10::DispatchKey::TESTING_ONLY_GenericMode;

Tensor empty_on_meta(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                     std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::impl::ExcludeDispatchKeyGuard below(interposer);
  return at::empty_symint(size, dtype, layout, at::Device(at::kMeta), std::nullopt, format);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) { library.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, TESTING_ONLY_GenericMode, library) { library.impl("empty.memory_format", empty_on_meta); }

constexpr Refusal refuse_attention{"attention"};
constexpr Refusal refuse_mask{"score_mask"};
constexpr Refusal refuse_cache{"kv_cache"};

constexpr double unseen = -std::numeric_limits<double>::infinity();

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

// q [batch, heads, queries, head_dim], k and v [batch, kv_heads, keys, head_dim] to [batch, queries, heads, head_dim].
// The query heads that share a key head are the queries of that head where each has only one.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const ScoreMask& mask, double dropout) {
  const std::int64_t batch = q.size(0), heads = q.size(1), head_dim = q.size(3);
  const std::int64_t kv_heads = k.size(1), group = heads / kv_heads;
  std::optional<Tensor> bias = mask.bias.defined() ? std::optional(mask.bias) : std::nullopt;
  if (group > 1 && q.size(2) == 1) {
    if (bias && bias->size(1) > 1) bias = bias->view({bias->size(0), kv_heads, group, bias->size(3)});
    const Tensor y = at::scaled_dot_product_attention(q.reshape({batch, kv_heads, group, head_dim}), k, v, bias,
                                                      dropout, mask.causal);
    return y.reshape({batch, 1, heads, head_dim});
  }
  return at::scaled_dot_product_attention(q, k, v, bias, dropout, mask.causal, /*scale=*/std::nullopt,
                                          /*enable_gqa=*/group > 1)
      .transpose(1, 2);
}

}  // namespace

const char* name(Activation activation) noexcept {
  return activations[static_cast<std::size_t>(activation)].name.data();
}

std::optional<Activation> activation(std::string_view name) {
  for (std::size_t i = 0; i < std::size(activations); ++i) {
    const ActivationRow& row = activations[i];
    const std::vector<std::string_view> also = rotary::files::words(row.also);
    if (row.name == name || std::find(also.begin(), also.end(), name) != also.end()) return static_cast<Activation>(i);
  }
  return std::nullopt;
}

Tensor activate(Activation activation, const Tensor& x) {
  return activations[static_cast<std::size_t>(activation)].apply(x);
}

// ---- layers ----

NormLayerImpl::NormLayerImpl(Norm norm, std::int64_t size, double eps)
    : torch::nn::Module(norm == Norm::rms ? "RMSNorm" : "LayerNorm"), eps_(eps) {
  weight = register_parameter("weight", at::ones({size}));
  if (norm == Norm::layer) bias = register_parameter("bias", at::zeros({size}));
}

Tensor NormLayerImpl::forward(const Tensor& x) const {
  return bias.defined() ? at::layer_norm(x, weight.sizes(), weight, bias, eps_)
                        : at::rms_norm(x, weight.sizes(), weight, eps_);
}

torch::nn::Linear linear_layer(std::int64_t inputs, std::int64_t outputs, bool bias) {
  return torch::nn::Linear(torch::nn::LinearOptions(inputs, outputs).bias(bias));
}

Tensor projected(const torch::nn::Linear& layer, const Tensor& x) { return at::linear(x, layer->weight, layer->bias); }

Tensor dropped(const Tensor& x, double rate, bool training) {
  return training && rate > 0 ? at::dropout(x, rate, true) : x;
}

MetaDevice::MetaDevice() : guard_(interposer) {}

// ---- positions that are added instead of rotated ----

Tensor sinusoids(std::int64_t tokens, std::int64_t width) {
  // The angles of a rope as wide as the model.
  const rotary::Rope angles{.head_dim = static_cast<int>(width), .pairing = rotary::Pairing::interleaved};
  const TableTensors rows = tensors(rotary::Table(rotary::frequencies(angles), rotary::positions(0, tokens)));
  return at::stack({rows.sin, rows.cos}, -1).flatten(-2);
}

std::vector<double> alibi_slopes(std::int64_t heads) {
  std::int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  std::vector<double> slopes;
  for (std::int64_t i = 1; i <= power; ++i) {
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(power)));
  }
  for (std::int64_t i = 1; power + i <= heads; ++i) {
    slopes.push_back(std::exp2(-8.0 * static_cast<double>(2 * i - 1) / static_cast<double>(2 * power)));
  }
  return slopes;
}

Tensor alibi_bias(std::int64_t heads, std::int64_t queries, std::int64_t past, const at::TensorOptions& options) {
  const Tensor slopes = at::tensor(alibi_slopes(heads), at::kFloat).to(options.device()).view({1, heads, 1, 1});
  const at::TensorOptions floats = options.dtype(at::kFloat);
  const Tensor keys = at::arange(past + queries, floats), own = at::arange(past, past + queries, floats);
  return slopes * (keys - own.unsqueeze(-1));
}

// ---- attention: masks, the cache, the module -----------------------------------------------------

ScoreMask score_mask(const AttentionMask& mask, std::int64_t batch, std::int64_t queries, std::int64_t past,
                     const at::TensorOptions& options) {
  const std::int64_t keys = past + queries;
  refuse_mask.unless(mask.window >= 0, Code::SHAPE, "window must not be negative but got ", mask.window);
  refuse_mask.unless(!mask.padding.defined() || mask.padding.sizes() == at::IntArrayRef({batch, keys}), Code::SHAPE,
                     "padding must be [batch, keys] [", batch, ", ", keys, "] but is not");

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

std::pair<Tensor, Tensor> KVCache::append(const Tensor& k, const Tensor& v) {
  refuse_cache.unless(k.dim() == 4 && k.sizes() == v.sizes(), Code::SHAPE,
                      "k and v must be [batch, kv_heads, tokens, head_dim] but got ", k.sizes(), " and ", v.sizes());
  refuse_cache.unless(!at::GradMode::is_enabled() || !(k.requires_grad() || v.requires_grad()), Code::VALUE,
                      "append must run under no_grad or inference mode but got tensors with a gradient");
  const at::NoGradGuard no_grad;
  const std::int64_t added = k.size(2);
  if (keys_.defined()) {
    refuse_cache.unless(k.size(0) == keys_.size(0) && k.size(1) == keys_.size(1) && k.size(3) == keys_.size(3),
                        Code::SHAPE, "k and v must have the cache's batch, kv_heads and head_dim ",
                        at::IntArrayRef({keys_.size(0), keys_.size(1), keys_.size(3)}), " but got ", k.sizes());
    refuse_cache.unless(k.scalar_type() == keys_.scalar_type(), Code::DTYPE, "k and v must have the cache's type ",
                        keys_.scalar_type(), " but got ", k.scalar_type());
  }
  const std::int64_t slot = window_.slot(tokens_);
  refuse_cache.unless(added <= std::max<std::int64_t>(1, window_.tokens - tokens_), Code::SHAPE, "a window of ",
                      window_.tokens, " tokens takes one more at a time but got ", added, " behind ", tokens_);
  if (!keys_.defined() || slot + added > keys_.size(2)) {
    const std::int64_t room = std::min(std::max({capacity_, 2 * tokens_, slot + added}), window_.tokens);
    const Tensor keys = room_for(k, room), values = room_for(k, room);
    if (tokens_ > 0) {
      keys.narrow(2, 0, tokens_).copy_(keys_.narrow(2, 0, tokens_));
      values.narrow(2, 0, tokens_).copy_(values_.narrow(2, 0, tokens_));
    }
    keys_ = keys, values_ = values;
  }
  keys_.narrow(2, slot, added).copy_(k);
  values_.narrow(2, slot, added).copy_(v);
  tokens_ += added;
  const std::int64_t held = std::min(tokens_, window_.tokens);
  return {keys_.narrow(2, 0, held), values_.narrow(2, 0, held)};
}

void KVCache::turn_sinks(const TableTensors& rows, std::int64_t first) {
  const at::NoGradGuard no_grad;
  const Tensor sinks = keys_.narrow(2, 0, window_.sinks);
  if (!sinks_.defined()) sinks_ = sinks.clone();
  sinks.copy_(rotate(sinks_, rows, Dims::bhtd, first));
}

AttentionOptions completed(AttentionOptions o) {
  refuse_attention.unless(o.width > 0, Code::SHAPE, "width must be positive but got ", o.width);
  refuse_attention.unless(o.heads > 0, Code::SHAPE, "heads must be positive but got ", o.heads);
  if (o.kv_heads == 0) o.kv_heads = o.heads;
  refuse_attention.unless(o.kv_heads >= 0 && o.heads % o.kv_heads == 0, Code::SHAPE, "kv_heads must divide the ",
                          o.heads, " heads but got ", o.kv_heads);
  if (o.head_dim == 0) {
    refuse_attention.unless(o.width % o.heads == 0, Code::SHAPE, "heads must divide width ", o.width, " but got ",
                            o.heads);
    o.head_dim = o.width / o.heads;
  }
  refuse_attention.unless(o.head_dim >= 0, Code::SHAPE, "head_dim must be positive but got ", o.head_dim);
  refuse_attention.unless(o.dropout >= 0 && o.dropout < 1, Code::SHAPE, "dropout must be from 0 to below 1 but got ",
                          o.dropout);
  return o;
}

MultiHeadAttentionImpl::MultiHeadAttentionImpl(AttentionOptions options)
    : torch::nn::Module("MultiHeadAttention"), options_(completed(options)) {
  const AttentionOptions& o = options_;
  const std::int64_t all_heads = o.heads + 2 * o.kv_heads;
  qkv = register_module("qkv", linear_layer(o.width, all_heads * o.head_dim, o.qkv_bias));
  output = register_module("output", linear_layer(o.heads * o.head_dim, o.width, o.output_bias));
  if (o.qk_norm) {
    q_norm = register_module("q_norm", NormLayer(Norm::rms, o.head_dim, o.norm_eps));
    k_norm = register_module("k_norm", NormLayer(Norm::rms, o.head_dim, o.norm_eps));
  }
}

Tensor MultiHeadAttentionImpl::forward(const Tensor& x, const TableTensors* table, const ScoreMask& mask,
                                       KVCache* cache, std::int64_t first) {
  const AttentionOptions& o = options_;
  refuse_attention.unless(x.dim() == 3 && x.size(2) == o.width, Code::SHAPE, "x must be [batch, tokens, width ",
                          o.width, "] but got ", x.sizes());
  const std::int64_t batch = x.size(0), tokens = x.size(1), rotated = o.heads + o.kv_heads;  // q and k
  // q and k as one block of heads, and v. Without a gradient the block rotates in place. split and not narrow: its
  // gradient is one cat instead of padded sums.
  const Tensor all = projected(qkv, x).view({batch, tokens, rotated + o.kv_heads, o.head_dim});
  const std::vector<Tensor> parts = all.split_with_sizes({rotated, o.kv_heads}, 2);
  Tensor qk = parts[0], v = parts[1];
  const auto q_and_k = [&o](const Tensor& block) { return block.split_with_sizes({o.heads, o.kv_heads}, 2); };
  if (o.qk_norm) {
    const std::vector<Tensor> plain = q_and_k(qk);
    qk = at::cat({q_norm->forward(plain[0]), k_norm->forward(plain[1])}, 2);
  }
  const auto rotate_heads = [&](const Tensor& heads) {
    if (at::GradMode::is_enabled()) return rotate(heads, *table, Dims::bthd, first);
    rotate_(heads, *table, Dims::bthd, first);
    return heads;
  };
  if (table != nullptr) qk = rotate_heads(qk);
  if (table != nullptr && o.rotates_values) v = rotate_heads(v);

  const std::vector<Tensor> heads = q_and_k(qk);
  Tensor k = heads[1].transpose(1, 2);
  v = v.transpose(1, 2);
  if (cache != nullptr) std::tie(k, v) = cache->append(k, v);
  const Tensor y = attend(heads[0].transpose(1, 2), k, v, mask, is_training() ? o.dropout : 0);
  return projected(output, y.reshape({batch, tokens, o.heads * o.head_dim}));
}

}  // namespace rotary_torch
