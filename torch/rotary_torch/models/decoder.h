// A language model of rotary attention. One class covers the small decoders trained here (labml's and nanoGPT's
// experiments), the Llama family of Hugging Face checkpoints (llama, mistral, qwen2, qwen3, gpt_neox, gptj), and the
// RoFormer encoder (arXiv:2104.09864), Hugging Face's and a small notebook model.
#pragma once

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>

#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/op/rotary_embedding.h"

namespace rotary_torch {

enum class PositionEncoding : std::uint8_t { rope, learned, sinusoidal, none, alibi };
enum class Residual : std::uint8_t {
  sequential,       // x += attention(norm1(x)); x += feed(norm2(x))
  parallel,         // x += attention(norm1(x)) + feed(norm2(x)): GPT-NeoX
  parallel_shared,  // x += attention(norm1(x)) + feed(norm1(x)): GPT-J
  post,             // x = norm1(x + attention(x)); x = norm2(x + feed(x)): RoFormer
  notebook,         // x += attention(norm1(x)); n = norm(x); x += norm2(n + feed(n)): the RoFormer notebook
};
const char* name(PositionEncoding) noexcept;  // "rope", "learned", "sinusoidal", "none", "alibi"
const char* name(Norm) noexcept;
const char* name(Residual) noexcept;
std::optional<PositionEncoding> position_encoding(std::string_view name) noexcept;

struct DecoderConfig {
  std::string model_type = "rotary_decoder";
  std::int64_t vocabulary = 0;
  std::int64_t embedding_width = 0;  // 0: width; otherwise a linear layer projects it to width
  std::int64_t width = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // 0: heads
  std::int64_t head_dim = 0;  // 0: width / heads
  std::int64_t feed_forward = 0;
  std::int64_t context = 0;  // trained length; the rows of learned positions and of a stored table
  PositionEncoding position = PositionEncoding::rope;
  std::optional<rotary::ModelRope> rope = {};     // if position is rope
  rotary::Angles angles = rotary::Angles::exact;  // float32 for checkpoints of Hugging Face
  bool stored_table = false;  // cos and sin of the first `context` positions are a frozen parameter: RoFormer
  bool rotary_value = false;  // values rotate too: RoFormer's option
  Norm norm = Norm::layer;
  double norm_eps = 1e-5;
  Activation activation = Activation::gelu;
  bool gated = false;  // down(activation(gate(x)) * up(x)): SwiGLU
  bool qkv_bias = true;
  bool output_bias = true;
  bool feed_bias = true;
  bool head_bias = true;
  bool qk_norm = false;
  bool head = true;                         // false: a base model, without logits
  std::optional<bool> language_model = {};  // from `architectures` of config.json; empty if it names none
  bool tied = false;                        // the head shares the embedding's weight
  std::int64_t token_types = 0;  // rows of an embedding whose first is added to every token's, then a norm: RoFormer
  bool masked_head = false;      // the head follows norm(activation(dense(x))): RoFormer
  bool causal = true;
  Residual residual = Residual::sequential;
  std::vector<std::int64_t> windows = {};  // sliding window by layer, 0: none; empty: none anywhere
  double dropout = 0;                      // embedding, attention output, feed-forward output, attention probabilities
  std::int64_t padding_id = -1;            // unused in the arithmetic
  bool finite_mask = false;  // a query that sees no key yields the mean of all values (GPT-J, RoFormer), not 0
};

DecoderConfig completed(DecoderConfig);  // checks, fills in kv_heads and head_dim; throws SHAPE, CONFIG_VALUE
AttentionOptions attention_options(const DecoderConfig&);  // a layer's

DecoderConfig roformer_base();      // Hugging Face's defaults: 124,197,968 parameters, of which 98,304 are the table
DecoderConfig notebook_roformer();  // the notebook's model: 77,509,632 parameters

// Reads config.json of a folder: rotary_decoder (this library's own format) or one of the families above. Throws FILE,
// JSON, CONFIG_*, MODEL_TYPE.
DecoderConfig read_decoder_config(const std::filesystem::path& dir);
// The fields of a rotary_decoder from a JSON object, without a rope.
DecoderConfig decoder_fields(std::string_view json);
std::string decoder_config_json(const DecoderConfig&, std::int64_t parameters);  // in the library's own format

// Extending the context: the published scalings applied to a model that was trained without one.
const std::vector<std::string>& extensions();  // "none", "linear", "ntk", "ntk_fixed", "dynamic", "yarn", "llama3"
// The model's rope with this scaling and factor, from the trained length in its config (context); "none" returns the
// rope unchanged. Throws ROPE (no rope to scale), SCALING (unknown word, factor not above 1, a rope that is scaled
// already), CONFIG_MISSING (no trained length).
rotary::Rope extended_rope(const DecoderConfig&, std::string_view scaling, double factor);

// The state of step-by-step decoding: one KVCache per layer. With a window a text may have any length: a query sees
// the tokens in the window, and a scaling that depends on the length uses the window's. Throws VALUE (sinks that leave
// no room), ROPE (position is not rope), CONFIG_VALUE (a layer whose own sliding window is smaller).
struct DecoderCache {
  explicit DecoderCache(const DecoderConfig&, std::int64_t capacity = 0, const rotary::SlidingWindow& = {});
  std::int64_t tokens() const noexcept { return layers.empty() ? 0 : layers.front().tokens(); }
  rotary::SlidingWindow window;
  std::vector<KVCache> layers;
};

// down(activation(up(x))), or gated down(activation(gate(x)) * up(x)).
class FeedForwardImpl : public torch::nn::Module {
 public:
  explicit FeedForwardImpl(const DecoderConfig&);
  at::Tensor forward(const at::Tensor& x);

  torch::nn::Linear up{nullptr};  // gated: rows of the gate, then of up
  torch::nn::Linear down{nullptr};

 private:
  Activation activation_;
  bool gated_;
};
TORCH_MODULE(FeedForward);

class DecoderLayerImpl : public torch::nn::Module {
 public:
  explicit DecoderLayerImpl(const DecoderConfig&);
  at::Tensor forward(const at::Tensor& x, const TableTensors* table, const ScoreMask& mask, KVCache* cache,
                     std::int64_t first);

  NormLayer attention_norm{nullptr};
  MultiHeadAttention attention{nullptr};
  NormLayer norm{nullptr};  // the notebook's
  FeedForward feed{nullptr};
  NormLayer feed_norm{nullptr};  // unset if the residual is parallel_shared

 private:
  Residual residual_;
  double dropout_;
};
TORCH_MODULE(DecoderLayer);

// Keeps the rows of cos and sin until a longer text needs more, so two threads must not use it at once.
class DecoderImpl : public torch::nn::Module {
 public:
  explicit DecoderImpl(DecoderConfig config);

  // ids int64 [batch, tokens]; padding [batch, cached + tokens], 0 where a token is padding, or undefined. Positions
  // continue after the cache: cache->tokens(), ... (also with left padding, as in transformers' forward). Tokens
  // beyond the room in a cache's window are computed one by one, and padding is then refused (VALUE).
  // Returns transformers' last_hidden_state: [batch, tokens, width], after the final norm, if there is one.
  at::Tensor hidden(const at::Tensor& ids, const at::Tensor& padding = {}, DecoderCache* cache = nullptr);
  // Logits [..., vocabulary] for hidden states [..., width].
  at::Tensor logits(const at::Tensor& hidden);
  at::Tensor forward(const at::Tensor& ids) { return logits(hidden(ids)); }

  // One decoding step: logits [batch, vocabulary] after the last token of ids. Call it under inference mode.
  at::Tensor next_logits(const at::Tensor& ids, DecoderCache& cache);

  // Weights from N(0, deviation), those into the residual stream over sqrt(2 layers) (GPT-2), zero biases.
  void initialise(double deviation = 0.02);

  const DecoderConfig& config() const noexcept { return config_; }
  // Replaces the rope, for example to extend the context. For inference only; the weights are unchanged.
  void set_rope(const rotary::Rope& rope);

  torch::nn::Embedding embedding{nullptr};
  torch::nn::Embedding token_types{nullptr};
  NormLayer embedding_norm{nullptr};  // with token types
  torch::nn::Linear projection{nullptr};
  torch::nn::Embedding learned_positions{nullptr};  // position learned: [context, width]
  torch::nn::Embedding position_table{nullptr};     // a stored table: [context, head_dim], sin of all pairs, then cos
  torch::nn::ModuleList layers{nullptr};
  NormLayer final_norm{nullptr};          // unset if the residual is post or notebook
  torch::nn::Linear head_dense{nullptr};  // this and the next: of a masked head
  NormLayer head_norm{nullptr};
  torch::nn::Linear head{nullptr};  // none if tied
  at::Tensor head_bias;             // a tied head's that has one (GPT-J, RoFormer)

 private:
  at::Tensor embed(const at::Tensor& ids, std::int64_t past);
  // The rows of these tokens, of the rope or (sin) of the sinusoids, in f32, or f64 for a model in f64; made once and
  // kept unless the scaling depends on the length.
  TableTensors rows(std::int64_t past, std::int64_t tokens, const at::Tensor& like);
  // The rows of these tokens after a cache with a window, whose sinks are moved for the last token.
  TableTensors slide(DecoderCache& cache, std::int64_t tokens, const at::Tensor& like);
  ScoreMask mask(std::int64_t window, const at::Tensor& padding, const at::Tensor& x, std::int64_t past) const;

  DecoderConfig config_;
  RotaryEmbedding rotary_{nullptr};
  TableTensors rows_;
};
TORCH_MODULE(Decoder);

std::int64_t parameter_count(const torch::nn::Module&);

// A decoder with the weights of its folder: config.json and model.safetensors or its shards. Another kind of head next
// to the trunk gives a warning. Throws TENSOR for a tensor that is missing, has the wrong shape or is unknown in the
// trunk.
struct LoadedDecoder {
  Decoder model{nullptr};
  bool has_head = false;
  std::vector<std::string> warnings;  // one sentence each
};
LoadedDecoder load_decoder(const std::filesystem::path& dir);
// Writes model.safetensors, with the names of named_parameters(), and config.json, each atomically.
void save_decoder(const DecoderImpl&, const std::filesystem::path& dir);

}  // namespace rotary_torch
