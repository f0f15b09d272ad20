#include "rotary_torch/models/decoder.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/nn/init.h>

#include <algorithm>
#include <cmath>

#include "rotary_torch/op/refusal.h"
#include "text/io.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Code;

constexpr Refusal refuse_decoder{"decoder"}, refuse_scaling{"extend"}, refuse_window{"window"},
    refuse_weights{"checkpoint"};

// On the device of x and in the type of its tables.
TableTensors beside(const Tensor& x, const TableTensors& rows) {
  const auto placed = [&x](const Tensor& t) { return t.to(x.device(), wide_type(x.scalar_type())); };
  return {placed(rows.cos), placed(rows.sin), rows.pairing};
}

}  // namespace

// ---- feed-forward --------------------------------------------------------------------------------

FeedForwardImpl::FeedForwardImpl(const DecoderConfig& config)
    : torch::nn::Module("FeedForward"), activation_(config.activation), gated_(config.gated) {
  const std::int64_t inner = gated_ ? 2 * config.feed_forward : config.feed_forward;
  up = register_module("up", linear_layer(config.width, inner, config.feed_bias));
  down = register_module("down", linear_layer(config.feed_forward, config.width, config.feed_bias));
}

Tensor FeedForwardImpl::forward(const Tensor& x) {
  const Tensor inner = projected(up, x);
  if (!gated_) return projected(down, activate(activation_, inner));
  const auto halves = inner.chunk(2, -1);
  return projected(down, activate(activation_, halves[0]) * halves[1]);
}

DecoderLayerImpl::DecoderLayerImpl(const DecoderConfig& config)
    : torch::nn::Module("DecoderLayer"), residual_(config.residual), dropout_(config.dropout) {
  const auto norm_layer = [&config] { return NormLayer(config.norm, config.width, config.norm_eps); };
  attention_norm = register_module("attention_norm", norm_layer());
  attention = register_module("attention", MultiHeadAttention(attention_options(config)));
  if (residual_ == Residual::notebook) norm = register_module("norm", norm_layer());
  if (residual_ != Residual::parallel_shared) feed_norm = register_module("feed_norm", norm_layer());
  feed = register_module("feed", FeedForward(config));
}

Tensor DecoderLayerImpl::forward(const Tensor& x, const TableTensors* table, const ScoreMask& mask, KVCache* cache,
                                 std::int64_t first) {
  const auto in_training = [this](const Tensor& part) { return dropped(part, dropout_, is_training()); };
  const Tensor seen = residual_ == Residual::post ? x : attention_norm(x);
  const Tensor attended = in_training(attention->forward(seen, table, mask, cache, first));
  const auto fed = [&](const Tensor& input) { return in_training(feed->forward(input)); };
  if (residual_ == Residual::post) {
    const Tensor normed = attention_norm(x + attended);
    return feed_norm(fed(normed) + normed);
  }
  if (residual_ == Residual::parallel) return attended + fed(feed_norm(x)) + x;
  if (residual_ == Residual::parallel_shared) return attended + fed(seen) + x;
  const Tensor between = x + attended;
  if (residual_ == Residual::sequential) return between + fed(feed_norm(between));
  const Tensor normed = norm(between);
  return between + feed_norm(fed(normed) + normed);
}

// ---- building ------------------------------------------------------------------------------------

DecoderCache::DecoderCache(const DecoderConfig& config, std::int64_t capacity, const rotary::SlidingWindow& slides)
    : window(slides), layers(static_cast<std::size_t>(config.layers), KVCache(capacity, slides)) {
  if (window == rotary::SlidingWindow{}) return;
  refuse_window.unless(window.sinks >= 0 && window.sinks < window.tokens, Code::VALUE,
                       "sinks must be from 0 to below the window's ", window.tokens, " tokens but got ", window.sinks);
  refuse_window.unless(config.position == PositionEncoding::rope, Code::ROPE,
                       "a window needs a model whose positions are a rope but they are ", name(config.position));
  for (const std::int64_t own : config.windows) {
    refuse_window.unless(own <= 0 || own >= window.tokens, Code::CONFIG_VALUE,
                         "a window must not be larger than the model's own sliding window of ", own, " but got ",
                         window.tokens);
  }
}

DecoderImpl::DecoderImpl(DecoderConfig config)
    : torch::nn::Module(config.masked_head || config.residual == Residual::notebook ? "RoFormer" : "Decoder"),
      config_(completed(std::move(config))) {
  const DecoderConfig& c = config_;
  if (c.rope) set_rope(c.rope->rope);
  embedding = register_module("embedding", torch::nn::Embedding(c.vocabulary, c.embedding_width));
  if (c.token_types > 0) {
    token_types = register_module("token_types", torch::nn::Embedding(c.token_types, c.embedding_width));
    embedding_norm = register_module("embedding_norm", NormLayer(c.norm, c.embedding_width, c.norm_eps));
  }
  if (c.embedding_width != c.width)
    projection = register_module("projection", linear_layer(c.embedding_width, c.width, true));
  if (c.position == PositionEncoding::learned)
    learned_positions = register_module("learned_positions", torch::nn::Embedding(c.context, c.width));
  if (c.stored_table) {
    position_table = register_module("position_table", torch::nn::Embedding(c.context, c.head_dim));
    position_table->weight.set_requires_grad(false);
    if (!position_table->weight.is_meta()) {
      const TableTensors exact = rotary_->table(at::arange(c.context, at::kLong));
      position_table->weight.copy_(at::cat({exact.sin, exact.cos}, 1));
    }
  }
  layers = register_module("layers", torch::nn::ModuleList());
  for (std::int64_t i = 0; i < c.layers; ++i) layers->push_back(DecoderLayer(c));
  if (c.residual != Residual::post && c.residual != Residual::notebook)
    final_norm = register_module("final_norm", NormLayer(c.norm, c.width, c.norm_eps));
  if (!c.head) return;
  if (c.masked_head) {
    head_dense = register_module("head_dense", linear_layer(c.width, c.embedding_width, true));
    head_norm = register_module("head_norm", NormLayer(c.norm, c.embedding_width, c.norm_eps));
  }
  if (!c.tied) {
    const std::int64_t inner = c.masked_head ? c.embedding_width : c.width;
    head = register_module("head", linear_layer(inner, c.vocabulary, c.head_bias));
  } else if (c.head_bias) {
    head_bias = register_parameter("head_bias", at::zeros({c.vocabulary}));
  }
}

void DecoderImpl::initialise(double deviation) {
  const at::NoGradGuard no_grad;
  const double depth = final_norm.is_empty() ? 1 : std::sqrt(2.0 * static_cast<double>(config_.layers));
  for (const auto& item : named_parameters()) {
    const std::string& key = item.key();
    if (key.find("norm") != std::string::npos || !item.value().requires_grad()) continue;
    const bool into_stream = key.ends_with("attention.output.weight") || key.ends_with("feed.down.weight");
    item.value().dim() == 1 ? item.value().zero_()
                            : item.value().normal_(0, into_stream ? deviation / depth : deviation);
  }
}

void DecoderImpl::set_rope(const rotary::Rope& rope) {
  refuse_decoder.unless(config_.position == PositionEncoding::rope, Code::ROPE,
                        "a rope takes a model with rope positions but this one has ",
                        rotary_torch::name(config_.position));
  rotary::ModelRope replaced = *config_.rope;
  replaced.rope = rope;
  if (replaced.rope.rotary_dim == 0) replaced.rope.rotary_dim = rope.head_dim;
  refuse_decoder.unless(
      rope.head_dim == config_.head_dim && replaced.first + replaced.rope.rotary_dim <= config_.head_dim, Code::SHAPE,
      "a rope must fit the heads of ", config_.head_dim, " elements but has ", rope.head_dim, " and rotates ",
      replaced.rope.rotary_dim, " from ", replaced.first);
  rotary_ = RotaryEmbedding(replaced, RotaryEmbeddingOptions{.angles = config_.angles});
  config_.rope = replaced;
  rows_ = {};
}

std::int64_t parameter_count(const torch::nn::Module& module) {
  std::int64_t count = 0;
  for (const Tensor& parameter : module.parameters()) count += parameter.numel();
  return count;
}

// ---- positions -----------------------------------------------------------------------------------

TableTensors DecoderImpl::rows(std::int64_t past, std::int64_t tokens, const Tensor& like) {
  // The rows outlive this call and must not be inference tensors, which a later training step could not save.
  const c10::InferenceMode normal(false);
  const at::NoGradGuard no_grad;
  const bool rope = config_.position == PositionEncoding::rope;
  const bool scaled = rope && !std::holds_alternative<rotary::Unscaled>(config_.rope->rope.scaling);
  if (!position_table.is_empty() && !scaled && past + tokens <= config_.context) {
    const std::vector<Tensor> halves = position_table->weight.narrow(0, past, tokens).chunk(2, 1);
    return beside(like, {halves[1].contiguous(), halves[0].contiguous(), config_.rope->rope.pairing});
  }
  const auto table_of = [&](std::int64_t begin, std::int64_t end) {
    TableTensors rows;
    if (rope) {
      rows = rotary_->table(at::arange(begin, end, at::kLong));
    } else {
      rows.sin = rows.cos = sinusoids(end, config_.width);
    }
    return beside(like, rows);
  };
  if (rope && rotary::depends_on_length(config_.rope->rope.scaling)) return table_of(past, past + tokens);
  const Tensor& kept = rows_.sin;
  if (!kept.defined() || kept.size(0) < past + tokens || kept.device() != like.device() ||
      kept.scalar_type() != wide_type(like.scalar_type())) {
    std::int64_t count = 64;  // more than these: a decoder needs one more at every step
    while (count < past + tokens) count *= 2;
    rows_ = table_of(0, count);
  }
  return {rows_.cos.narrow(0, past, tokens), rows_.sin.narrow(0, past, tokens), rows_.pairing};
}

TableTensors DecoderImpl::slide(DecoderCache& cache, std::int64_t tokens, const Tensor& like) {
  const rotary::Frequencies frequencies = rotary::frequencies(config_.rope->rope, cache.window.tokens);
  const std::int64_t past = cache.tokens(), sinks = cache.window.sinks;
  const std::int64_t moved = cache.window.moved(past + tokens - 1);
  if (moved > 0 && sinks > 0) {
    const TableTensors turn = beside(like, tensors(rotary::between(frequencies, rotary::positions(0, sinks),
                                                                   frequencies, rotary::positions(moved, sinks))));
    for (KVCache& layer : cache.layers) layer.turn_sinks(turn, config_.rope->first);
  }
  return beside(like, tensors(rotary::Table(frequencies, rotary::positions(past, tokens))));
}

Tensor DecoderImpl::embed(const Tensor& ids, std::int64_t past) {
  const std::int64_t tokens = ids.size(1);
  Tensor x = at::embedding(embedding->weight, ids);
  if (!token_types.is_empty()) x = embedding_norm(x + token_types->weight[0]);
  if (config_.position == PositionEncoding::learned) {
    refuse_decoder.unless(past + tokens <= config_.context, Code::POSITION, "learned positions end at ",
                          config_.context, " but token ", past + tokens, " was asked for");
    x = x + learned_positions->weight.narrow(0, past, tokens);
  } else if (config_.position == PositionEncoding::sinusoidal) {
    x = x + rows(past, tokens, x).sin.to(x.scalar_type());
  }
  x = dropped(x, config_.dropout, is_training());
  return projection.is_empty() ? x : projected(projection, x);
}

ScoreMask DecoderImpl::mask(std::int64_t window, const Tensor& padding, const Tensor& x, std::int64_t past) const {
  AttentionMask wanted{.causal = config_.causal, .window = window, .padding = padding, .finite = config_.finite_mask};
  if (config_.position == PositionEncoding::alibi) {
    wanted.additive = alibi_bias(config_.heads, x.size(1), past, x.options());
  }
  return score_mask(wanted, x.size(0), x.size(1), past, x.options());
}

// ---- running -------------------------------------------------------------------------------------

Tensor DecoderImpl::hidden(const Tensor& ids, const Tensor& padding, DecoderCache* cache) {
  refuse_decoder.unless(ids.dim() == 2 && ids.numel() > 0, Code::SHAPE,
                        "ids must be [batch, tokens], not empty, but got ", ids.sizes());
  const std::int64_t tokens = ids.size(1), past = cache != nullptr ? cache->tokens() : 0;
  if (cache != nullptr && cache->layers.size() != layers->size()) {
    refuse_decoder(Code::SHAPE, "a cache must have one entry for each of the ", layers->size(), " layers but has ",
                   cache->layers.size());
  }
  const bool windowed = cache != nullptr && cache->window != rotary::SlidingWindow{};
  if (windowed && padding.defined()) refuse_window(Code::VALUE, "padding must not be given with a window but it is");
  if (windowed && tokens > 1 && past + tokens > cache->window.tokens) {
    std::vector<Tensor> parts;  // as many as there is room for, then one by one
    for (std::int64_t begin = 0, count = 0; begin < tokens; begin += count) {
      count = std::clamp<std::int64_t>(cache->window.tokens - past - begin, 1, tokens - begin);
      parts.push_back(hidden(ids.narrow(1, begin, count), padding, cache));
    }
    return at::cat(parts, 1);
  }
  Tensor x = embed(ids, past);
  std::optional<TableTensors> table;
  if (config_.position == PositionEncoding::rope) table = windowed ? slide(*cache, tokens, x) : rows(past, tokens, x);
  const std::int64_t first = table ? config_.rope->first : 0;
  const std::int64_t held = windowed ? std::min(past, cache->window.tokens - tokens) : past;
  std::vector<std::pair<std::int64_t, ScoreMask>> masks;  // by window: one or two
  for (std::size_t i = 0; i < layers->size(); ++i) {
    const std::int64_t window = config_.windows.empty() ? 0 : config_.windows[i];
    auto found = std::find_if(masks.begin(), masks.end(), [=](const auto& known) { return known.first == window; });
    if (found == masks.end()) found = masks.insert(masks.end(), {window, mask(window, padding, x, held)});
    x = layers->at<DecoderLayerImpl>(i).forward(x, table ? &*table : nullptr, found->second,
                                                cache != nullptr ? &cache->layers[i] : nullptr, first);
  }
  return final_norm.is_empty() ? x : final_norm(x);
}

Tensor DecoderImpl::logits(const Tensor& hidden) {
  refuse_decoder.unless(config_.head, Code::SHAPE,
                        "logits take a model with a language-model head but this one has none");
  const Tensor x =
      head_dense.is_empty() ? hidden : head_norm(activate(config_.activation, projected(head_dense, hidden)));
  return config_.tied ? at::linear(x, embedding->weight, head_bias) : at::linear(x, head->weight, head->bias);
}

Tensor DecoderImpl::next_logits(const Tensor& ids, DecoderCache& cache) {
  const c10::InferenceMode inference;
  const Tensor all = hidden(ids, {}, &cache);
  return logits(all.select(1, all.size(1) - 1));
}

// ---- a longer context ----------------------------------------------------------------------------

const std::vector<std::string>& extensions() {
  static const std::vector<std::string> words = {"none", "linear", "ntk", "ntk_fixed", "dynamic", "yarn", "llama3"};
  return words;
}

rotary::Rope extended_rope(const DecoderConfig& config, std::string_view scaling, double factor) {
  refuse_scaling.unless(config.rope.has_value(), Code::ROPE, "a scaling needs a model whose positions are a rope but ",
                        "they are ", name(config.position));
  rotary::Rope rope = config.rope->rope;
  if (scaling == "none") return rope;
  const auto& words = extensions();
  refuse_scaling.unless(std::find(words.begin(), words.end(), scaling) != words.end(), Code::SCALING,
                        "scaling must be none, linear, ntk, ntk_fixed, dynamic, yarn or llama3 but got '", scaling,
                        "'");
  refuse_scaling.unless(std::holds_alternative<rotary::Unscaled>(rope.scaling) && rope.inv_freq.empty(), Code::SCALING,
                        "the model's rope must be unscaled, by its base, but it is ", rotary::name(rope.scaling),
                        " already: scaling none keeps it");
  refuse_scaling.unless(factor > 1 && std::isfinite(factor), Code::SCALING, "factor must be above 1 but got ", factor);
  rope.scaling = rotary::parse_scaling(scaling);
  std::visit(
      [&]([[maybe_unused]] auto& held) {
        if constexpr (requires { held.factor = 1.0; }) held.factor = factor;
        if constexpr (requires { held.trained_length; }) held.trained_length = config.context;
      },
      rope.scaling);
  return rope;
}

// ---- files ---------------------------------------------------------------------------------------

LoadedDecoder load_decoder(const std::filesystem::path& dir) {
  DecoderConfig config = completed(read_decoder_config(dir));
  const TensorNames names = tensor_names(config.model_type, config.heads, config.head_dim);
  Checkpoint file(dir, names);
  if (config.rope) {  // weights that rotary convert brought to another pairing say so in their metadata
    rotary::Model model = rotary::read_config(dir);
    rotary::apply_weights(model, dir);
    config.rope->rope.pairing = model.ropes.front().rope.pairing;
  }
  // The tensors that bound the vocabulary, the width and the number of layers, before as many layers are made.
  const std::vector<std::int64_t> matrix{config.vocabulary, config.embedding_width};
  file.expect(file.name_of("embedding.weight"), matrix);
  file.expect(file.name_of("layers." + std::to_string(config.layers - 1) + ".attention_norm.weight"), {config.width});
  LoadedDecoder loaded;
  if (!names.trunk.empty()) {  // a family's: the file says whether there is a head
    const std::optional<bool> says = config.language_model;
    config.head = file.has_head() || (config.tied && !config.masked_head && !file.is_base() && says.value_or(true));
    if (!config.head && !file.is_base() && says.value_or(false)) {
      refuse_weights(Code::TENSOR, "architectures in config.json names a language model but the file has no head ",
                     rotary::files::in_quotes(file.name_of("head.weight")));
    }
    if (config.head && config.tied && file.unties("head.weight", "embedding.weight", matrix)) {
      config.tied = false;
      loaded.warnings.emplace_back(
          "tie_word_embeddings is true but the head in the file is another matrix: it is used");
    }
  }
  loaded.model = file.load([&] { return Decoder(config); });
  loaded.has_head = config.head;
  for (std::string& warning : file.foreign()) loaded.warnings.push_back(std::move(warning));
  return loaded;
}

void save_decoder(const DecoderImpl& model, const std::filesystem::path& dir) {
  const std::string config = decoder_config_json(model.config(), parameter_count(model));  // throws before any write
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (const auto& item : model.named_parameters()) tensors.emplace_back(item.key(), item.value());
  write_tensors(dir / "model.safetensors", tensors, {{"format", "pt"}});
  rotary::files::write_whole("save_decoder", dir / "config.json", config);
}

}  // namespace rotary_torch
