#include "rotary_torch/models/roformer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "files/text/io.h"
#include "files/text/json.h"
#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/nn/layers.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Code;
using rotary::files::in_quotes;
using rotary::files::Object;
using torch::nn::Linear;

constexpr Refusal refuse{"roformer"};

std::int64_t embedding_width(const RoFormerConfig& config) {
  return config.embedding_size == 0 ? config.width : config.embedding_size;
}

NormLayer layer_norm(std::int64_t size, const RoFormerConfig& config) {
  return NormLayer(Norm::layer, size, config.norm_eps);
}

AttentionOptions attention_options(const RoFormerConfig& config) {
  return {.width = config.width,
          .heads = config.heads,
          .dropout = config.attention_dropout,
          .value_rotation = config.rotary_value ? ValueRotation::rotated : ValueRotation::none};
}

RotaryEmbedding rotary_of(const RoFormerConfig& config) {
  const rotary::Rope rope{.head_dim = static_cast<int>(config.width / config.heads),
                          .base = config.base,
                          .pairing = rotary::Pairing::interleaved};
  return RotaryEmbedding(
      rope, RotaryEmbeddingOptions{.rounding = config.bf16_table ? rotary::Rounding::bf16 : rotary::Rounding::f32});
}

// Exact rows in the layout of Hugging Face's table: [positions, pairs] of sin, then of cos.
Tensor sin_cos_rows(const RotaryEmbeddingImpl& rotary, std::int64_t begin, std::int64_t end) {
  const TableTensors rows = rotary.table(at::arange(begin, end, at::kLong));
  return at::cat({rows.sin, rows.cos}, 1);
}

}  // namespace

RoFormerConfig notebook_roformer() {
  return {.vocabulary = 32000,
          .layers = 4,
          .heads = 4,
          .context = 1024,
          .token_types = 0,
          .base = 1e6,
          .tied = false,
          .notebook = true};
}

void check(const RoFormerConfig& config) {
  const std::tuple<const char*, std::int64_t, int> sizes[] = {
      {"vocabulary", config.vocabulary, 1}, {"embedding_size", config.embedding_size, 0},
      {"width", config.width, 1},           {"layers", config.layers, 0},
      {"heads", config.heads, 1},           {"feed_forward", config.feed_forward, 1},
      {"context", config.context, 1},       {"token_types", config.token_types, config.notebook ? 0 : 1}};
  for (const auto& [what, value, least] : sizes) {
    refuse.unless(value >= least, Code::SHAPE, what, " must be at least ", least, " but got ", value);
  }
  refuse.unless(config.width % (2 * config.heads) == 0, Code::SHAPE, "width must be a multiple of twice the ",
                config.heads, " heads but got ", config.width);
}

// ---- feed-forward, layer, head ----

RoFormerFeedForwardImpl::RoFormerFeedForwardImpl(const RoFormerConfig& config)
    : torch::nn::Module("RoFormerFeedForward"), activation_(config.activation), dropout_(config.dropout) {
  input = register_module("input", Linear(config.width, config.feed_forward));
  output = register_module("output", Linear(config.feed_forward, config.width));
  norm = register_module("norm", layer_norm(config.width, config));
}

Tensor RoFormerFeedForwardImpl::forward(const Tensor& x) {
  return norm(dropped(projected(output, activate(activation_, projected(input, x))), dropout_, is_training()) + x);
}

RoFormerLayerImpl::RoFormerLayerImpl(const RoFormerConfig& config)
    : torch::nn::Module("RoFormerLayer"), dropout_(config.dropout) {
  if (config.notebook) attention_norm = register_module("attention_norm", layer_norm(config.width, config));
  attention = register_module("attention", MultiHeadAttention(attention_options(config)));
  norm = register_module("norm", layer_norm(config.width, config));
  feed_forward = register_module("feed_forward", RoFormerFeedForward(config));
}

Tensor RoFormerLayerImpl::forward(const Tensor& x, const TableTensors& table, const ScoreMask& mask) {
  const bool notebook = !attention_norm.is_empty();
  const Tensor seen = attention(notebook ? attention_norm(x) : x, &table, mask);
  const Tensor h = x + dropped(seen, dropout_, is_training());
  return notebook ? h + feed_forward(norm(h)) : feed_forward(norm(h));
}

RoFormerHeadImpl::RoFormerHeadImpl(const RoFormerConfig& config)
    : torch::nn::Module("RoFormerHead"), activation_(config.activation) {
  const std::int64_t embedding = embedding_width(config);
  dense = register_module("dense", Linear(config.width, embedding));
  norm = register_module("norm", layer_norm(embedding, config));
  bias = register_parameter("bias", at::zeros({config.vocabulary}));
  if (!config.tied) decoder = register_parameter("decoder", at::zeros({config.vocabulary, embedding}));
}

Tensor RoFormerHeadImpl::forward(const Tensor& x, const Tensor& word_embeddings) {
  return at::linear(norm(activate(activation_, projected(dense, x))), decoder.defined() ? decoder : word_embeddings,
                    bias);
}

// ---- the model ----

RoFormerImpl::RoFormerImpl(RoFormerConfig config, bool head)
    : torch::nn::Module("RoFormer"), config_(std::move(config)), head_(head) {
  check(config_);
  rotary_ = rotary_of(config_);  // not registered: it has no tensors
  const std::int64_t embedding = config_.notebook ? config_.width : embedding_width(config_);
  word_embeddings = register_module("word_embeddings", torch::nn::Embedding(config_.vocabulary, embedding));
  if (!config_.notebook) {
    token_type_embeddings =
        register_module("token_type_embeddings", torch::nn::Embedding(config_.token_types, embedding));
    embedding_norm = register_module("embedding_norm", layer_norm(embedding, config_));
    if (embedding != config_.width) projection = register_module("projection", Linear(embedding, config_.width));
    position_table =
        register_module("position_table", torch::nn::Embedding(config_.context, config_.width / config_.heads));
    position_table->weight.set_requires_grad(false);
    if (!position_table->weight.is_meta()) position_table->weight.copy_(sin_cos_rows(*rotary_, 0, config_.context));
  }
  layers = register_module("layers", torch::nn::ModuleList());
  for (std::int64_t i = 0; i < config_.layers; ++i) layers->push_back(RoFormerLayer(config_));
  if (!head_) return;
  if (config_.notebook) {
    output = register_module("output", linear_layer(config_.width, config_.vocabulary, false));
  } else {
    prediction = register_module("prediction", RoFormerHead(config_));
  }
}

TableTensors RoFormerImpl::table(const Tensor& x) const {
  const std::int64_t tokens = x.size(1), stored = config_.notebook ? 0 : std::min(tokens, config_.context);
  const auto rows = at::TensorOptions(x.device()).dtype(wide_type(x.scalar_type()));
  std::vector<Tensor> parts;
  if (stored > 0) parts.push_back(position_table->weight.narrow(0, 0, stored).to(rows));
  if (stored < tokens) parts.push_back(sin_cos_rows(*rotary_, stored, tokens).to(rows));
  const std::vector<Tensor> halves = at::cat(parts).chunk(2, 1);
  return {halves[1].contiguous(), halves[0].contiguous(), rotary::Pairing::interleaved};
}

Tensor RoFormerImpl::embed(const Tensor& ids, const Tensor& token_types) {
  Tensor x = word_embeddings(ids);
  if (!config_.notebook) {
    x = x + token_type_embeddings(token_types.defined() ? token_types : at::zeros_like(ids));
    x = embedding_norm(x);
  }
  x = dropped(x, config_.dropout, is_training());
  return projection.is_empty() ? x : projected(projection, x);
}

Tensor RoFormerImpl::hidden(const Tensor& ids, const Tensor& padding, const Tensor& token_types) {
  refuse.unless(ids.dim() == 2 && ids.numel() > 0, Code::SHAPE, "ids must be [batch, tokens], not empty, but got ",
                ids.sizes());
  for (const Tensor& other : {padding, token_types}) {
    if (!other.defined() || other.sizes() == ids.sizes()) continue;
    refuse(Code::SHAPE, "padding and token types must have the ids' shape ", ids.sizes(), " but got ", other.sizes());
  }
  refuse.unless(!(config_.notebook && token_types.defined()), Code::SHAPE,
                "the notebook model has no token types but got some");
  Tensor x = embed(ids, token_types);
  const TableTensors rows = table(x);
  // As eager transformers, which adds the lowest f32 to the scores of keys that are not seen.
  const AttentionMask seen{.causal = config_.is_decoder, .padding = padding, .finite = true};
  const ScoreMask mask = score_mask(seen, x.size(0), x.size(1), 0, x.options());
  for (const std::shared_ptr<torch::nn::Module>& layer : *layers) {
    x = layer->as<RoFormerLayerImpl>()->forward(x, rows, mask);
  }
  return x;
}

Tensor RoFormerImpl::logits(const Tensor& hidden) {
  refuse.unless(head_, Code::TENSOR, "logits need a language-model head but the model has none");
  return config_.notebook ? projected(output, hidden) : prediction(hidden, word_embeddings->weight);
}

void RoFormerImpl::initialise(double deviation) { initialise_weights(*this, deviation, deviation); }

// ---- from Hugging Face's files -------------------------------------------------------------------

namespace {

// ---- config.json ----

constexpr std::int64_t max_value = std::numeric_limits<std::int32_t>::max();

double rate(const Object& keys, const char* key, double otherwise) {
  const double value = keys.number(key).value_or(otherwise);
  if (!(value >= 0 && value < 1)) keys.refuse(key, "must be from 0 to below 1");
  return value;
}

// Refuses options that transformers supports and this model does not.
void refuse_unsupported(const Object& keys) {
  if (keys.boolean("add_cross_attention", false)) {
    keys.refuse("add_cross_attention", "must be false, there is no cross-attention here,");
  }
  if (keys.has("quantization_config")) keys.refuse("quantization_config", "must not be there");
}

// RoFormer's own pairing; weights that rotary convert brought to the other one say so in their metadata.
void expect_interleaved(const std::filesystem::path& dir) {
  rotary::Model model = rotary::read_config(dir);
  rotary::apply_weights(model, dir);
  for (const rotary::ModelRope& used : model.ropes) {
    if (used.rope.pairing == rotary::Pairing::interleaved) continue;
    refuse(Code::PAIRING, "the weights must be interleaved but their metadata say ", rotary::name(used.rope.pairing),
           ": rotary convert --to interleaved");
  }
}

}  // namespace

RoFormerConfig read_roformer_config(const std::filesystem::path& dir) {
  const rotary::Model known = rotary::read_config(dir);  // refuses an invalid rope
  refuse.unless(known.model_type == "roformer", Code::MODEL_TYPE, "model_type must be roformer but got ",
                in_quotes(known.model_type));
  const rotary::files::Json json =
      rotary::files::parse_json(rotary::files::json_file_text("roformer", dir / "config.json"));
  rotary::files::Ledger ledger;
  const Object keys(json, "", ledger);
  refuse_unsupported(keys);
  // max_rows: of the position table, which is allocated whole.
  constexpr std::int64_t max_layers = 10000, max_rows = std::int64_t{1} << 24;
  RoFormerConfig config;
  const auto size = [&](const char* key, std::int64_t& value, std::int64_t least = 1, std::int64_t most = max_value) {
    value = keys.integer(key, least, most).value_or(value);
  };
  size("vocab_size", config.vocabulary);
  size("embedding_size", config.embedding_size);
  size("hidden_size", config.width);
  size("num_hidden_layers", config.layers, 0, max_layers);
  size("num_attention_heads", config.heads);
  size("intermediate_size", config.feed_forward);
  size("max_position_embeddings", config.context, 1, max_rows);
  size("type_vocab_size", config.token_types);
  if (const std::optional<std::string> word = keys.text("hidden_act")) {
    const std::optional<Activation> found = activation(*word);
    if (!found) keys.refuse("hidden_act", "must be an activation that is known here");
    config.activation = *found;
  }
  config.norm_eps = keys.number("layer_norm_eps").value_or(config.norm_eps);
  if (!(config.norm_eps >= 0)) keys.refuse("layer_norm_eps", "must not be negative");
  config.dropout = rate(keys, "hidden_dropout_prob", config.dropout);
  config.attention_dropout = rate(keys, "attention_probs_dropout_prob", config.attention_dropout);
  config.rotary_value = keys.boolean("rotary_value", false);
  config.is_decoder = keys.boolean("is_decoder", false);
  config.tied = keys.boolean("tie_word_embeddings", true);
  check(config);
  return config;
}

LoadedRoFormer load_roformer(const std::filesystem::path& dir) {
  RoFormerConfig config = read_roformer_config(dir);
  expect_interleaved(dir);
  Checkpoint file(dir, tensor_names("roformer", config.heads, config.width / config.heads));
  const std::string words = file.name_of("word_embeddings.weight"), decoder = file.name_of("prediction.decoder");
  const std::vector<std::int64_t> matrix{config.vocabulary, embedding_width(config)};
  LoadedRoFormer loaded;
  loaded.has_head = file.has_head();
  if (!loaded.has_head) file.expect_no_head(dir, "prediction.dense.weight");
  if (loaded.has_head && config.tied && !file.has(words) && file.has(decoder)) file.share("word_embeddings", decoder);
  // The tensors that bound the vocabulary, the width and the number of layers, before as many layers are made.
  file.expect(file.name_of("word_embeddings.weight"), matrix);
  if (config.layers > 0)
    file.expect(file.name_of("layers." + std::to_string(config.layers - 1) + ".norm.weight"), {config.width});
  if (loaded.has_head && config.tied && file.unties("prediction.decoder", "word_embeddings.weight", matrix))
    config.tied = false;
  loaded.model = file.load([&] { return RoFormer(config, loaded.has_head); });
  loaded.warnings = file.foreign();
  return loaded;
}

}  // namespace rotary_torch
