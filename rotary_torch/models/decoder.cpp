#include "rotary_torch/models/decoder.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/nn/init.h>

#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include "rotary_torch/models/decoder_layers.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Code;

constexpr Refusal refuse{"decoder"};

// The number of rows to make when `tokens` are needed: more, because a decoder needs one more at every step.
std::int64_t rows_for(std::int64_t tokens) {
  std::int64_t rows = 64;
  while (rows < tokens) rows *= 2;
  return rows;
}

bool serve(const Tensor& rows, std::int64_t tokens, const Tensor& like) {
  return rows.defined() && rows.size(0) >= tokens && rows.device() == like.device() &&
         rows.scalar_type() == wide_type(like.scalar_type());
}

// Rows on the device of `like`, in f32, or f64 for a model in f64.
Tensor moved(const Tensor& rows, const Tensor& like) { return rows.to(like.device(), wide_type(like.scalar_type())); }

}  // namespace

// ---- building ------------------------------------------------------------------------------------

DecoderCache::DecoderCache(const DecoderConfig& config, std::int64_t capacity)
    : layers(static_cast<std::size_t>(config.layers), KVCache(capacity)) {}

DecoderImpl::DecoderImpl(DecoderConfig config) : torch::nn::Module("Decoder"), config_(completed(std::move(config))) {
  embedding = register_module("embedding", torch::nn::Embedding(config_.vocabulary, config_.width));
  if (config_.position == PositionEncoding::learned) {
    learned_positions = register_module("learned_positions", torch::nn::Embedding(config_.context, config_.width));
  }
  layers = register_module("layers", torch::nn::ModuleList());
  for (std::int64_t i = 0; i < config_.layers; ++i) layers->push_back(DecoderLayer(config_));
  final_norm.make(*this, "final_norm", config_);
  if (config_.head && !config_.tied) {
    const auto options = torch::nn::LinearOptions(config_.width, config_.vocabulary).bias(config_.head_bias);
    head = register_module("head", torch::nn::Linear(options));
  } else if (config_.head && config_.head_bias) {
    head_bias = register_parameter("head_bias", at::zeros({config_.vocabulary}));
  }
  if (config_.rope) set_rope(config_.rope->rope);
}

void DecoderImpl::initialise(double deviation) {
  const at::NoGradGuard no_grad;
  const double residual = deviation / std::sqrt(2.0 * static_cast<double>(config_.layers));
  for (const auto& item : named_parameters()) {
    const std::string& key = item.key();
    if (key.ends_with("bias")) {
      item.value().zero_();
    } else if (key.find("norm") == std::string::npos) {
      const bool into_stream = key.ends_with("attention.output.weight") || key.ends_with("feed.down.weight");
      item.value().normal_(0, into_stream ? residual : deviation);
    }
  }
}

void DecoderImpl::set_rope(const rotary::Rope& rope) {
  if (config_.position != PositionEncoding::rope) {
    refuse(Code::ROPE, "a rope takes a model with rope positions but this one has ",
           rotary_torch::name(config_.position));
  }
  rotary::ModelRope replaced = *config_.rope;
  replaced.rope = rope;
  if (replaced.rope.rotary_dim == 0) replaced.rope.rotary_dim = rope.head_dim;
  if (rope.head_dim != config_.head_dim || replaced.first + replaced.rope.rotary_dim > config_.head_dim) {
    refuse(Code::SHAPE, "a rope must fit the heads of ", config_.head_dim, " elements but has ", rope.head_dim,
           " and rotates ", replaced.rope.rotary_dim, " from ", replaced.first);
  }
  rotary_ = RotaryEmbedding(replaced, RotaryEmbeddingOptions{.angles = config_.angles});
  config_.rope = replaced;
  rope_rows_ = {};
}

std::int64_t parameter_count(const torch::nn::Module& module) {
  std::unordered_set<const void*> seen;
  std::int64_t count = 0;
  for (const Tensor& parameter : module.parameters()) {
    if (seen.insert(parameter.unsafeGetTensorImpl()).second) count += parameter.numel();
  }
  return count;
}

// ---- positions -----------------------------------------------------------------------------------

TableTensors DecoderImpl::rope_rows(std::int64_t past, std::int64_t tokens, const Tensor& like) {
  // The rows outlive this call and must not be inference tensors, which a later training step could not save.
  const c10::InferenceMode normal(false);
  const at::NoGradGuard no_grad;
  const auto made = [&](std::int64_t begin, std::int64_t end) {
    const TableTensors rows = rotary_->table(at::arange(begin, end, at::kLong));
    return TableTensors{moved(rows.cos, like), moved(rows.sin, like), rows.pairing};
  };
  if (rotary::depends_on_length(config_.rope->rope.scaling)) return made(past, past + tokens);
  if (!serve(rope_rows_.cos, past + tokens, like)) rope_rows_ = made(0, rows_for(past + tokens));
  return {rope_rows_.cos.narrow(0, past, tokens), rope_rows_.sin.narrow(0, past, tokens), rope_rows_.pairing};
}

Tensor DecoderImpl::sinusoid_rows(std::int64_t past, std::int64_t tokens, const Tensor& like) {
  const c10::InferenceMode normal(false);
  const at::NoGradGuard no_grad;
  if (!serve(sinusoid_rows_, past + tokens, like)) {
    sinusoid_rows_ = moved(sinusoids(rows_for(past + tokens), config_.width), like);
  }
  return sinusoid_rows_.narrow(0, past, tokens).to(like.scalar_type());
}

Tensor DecoderImpl::embed(const Tensor& ids, std::int64_t past) {
  const std::int64_t tokens = ids.size(1);
  Tensor x = at::embedding(embedding->weight, ids);
  if (config_.position == PositionEncoding::learned) {
    if (past + tokens > config_.context) {
      refuse(Code::POSITION, "learned positions end at ", config_.context, " but token ", past + tokens,
             " was asked for");
    }
    x = x + learned_positions->weight.narrow(0, past, tokens);
  } else if (config_.position == PositionEncoding::sinusoidal) {
    x = x + sinusoid_rows(past, tokens, x);
  }
  return dropped(x, config_.dropout, is_training());
}

ScoreMask DecoderImpl::mask(std::int64_t window, const Tensor& padding, const Tensor& x, std::int64_t past) const {
  AttentionMask wanted{.causal = true, .window = window, .padding = padding, .finite = config_.finite_mask};
  if (config_.position == PositionEncoding::alibi) {
    wanted.additive = alibi_bias(config_.heads, x.size(1), past, x.options());
  }
  return score_mask(wanted, x.size(0), x.size(1), past, x.options());
}

// ---- running -------------------------------------------------------------------------------------

Tensor DecoderImpl::hidden(const Tensor& ids, const Tensor& padding, DecoderCache* cache) {
  if (ids.dim() != 2 || ids.numel() == 0)
    refuse(Code::SHAPE, "ids must be [batch, tokens], not empty, but got ", ids.sizes());
  const std::int64_t tokens = ids.size(1), past = cache != nullptr ? cache->tokens() : 0;
  if (cache != nullptr && cache->layers.size() != layers->size()) {
    refuse(Code::SHAPE, "a cache must have one entry for each of the ", layers->size(), " layers but has ",
           cache->layers.size());
  }
  Tensor x = embed(ids, past);
  std::optional<TableTensors> table;
  if (config_.position == PositionEncoding::rope) table = rope_rows(past, tokens, x);
  const std::int64_t first = table ? config_.rope->first : 0;
  std::vector<std::pair<std::int64_t, ScoreMask>> masks;  // by window: one or two
  for (std::size_t i = 0; i < layers->size(); ++i) {
    const std::int64_t window = config_.windows.empty() ? 0 : config_.windows[i];
    auto found = std::find_if(masks.begin(), masks.end(), [=](const auto& made) { return made.first == window; });
    if (found == masks.end()) found = masks.insert(masks.end(), {window, mask(window, padding, x, past)});
    x = layers->at<DecoderLayerImpl>(i).forward(x, table ? &*table : nullptr, found->second,
                                                cache != nullptr ? &cache->layers[i] : nullptr, first);
  }
  return final_norm(x);
}

Tensor DecoderImpl::logits(const Tensor& hidden) {
  if (!config_.head) refuse(Code::SHAPE, "logits take a model with a language-model head but this one has none");
  return config_.tied ? at::linear(hidden, embedding->weight, head_bias) : at::linear(hidden, head->weight, head->bias);
}

Tensor DecoderImpl::next_logits(const Tensor& ids, DecoderCache& cache) {
  const c10::InferenceMode inference;
  const Tensor all = hidden(ids, {}, &cache);
  return logits(all.select(1, all.size(1) - 1));
}

}  // namespace rotary_torch
