// The RoFormer encoder (arXiv:2104.09864) in two variants: Hugging Face's architecture, and a small notebook model with
// norms inside the layer.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "rotary_torch/models/checkpoint.h"
#include "rotary_torch/nn/attention.h"
#include "rotary_torch/op/rotary_embedding.h"

namespace rotary_torch {

// The defaults are Hugging Face's.
struct RoFormerConfig {
  std::int64_t vocabulary = 50000;
  std::int64_t embedding_size = 0;  // 0: width; otherwise a linear layer projects it to width
  std::int64_t width = 768;
  std::int64_t layers = 12;
  std::int64_t heads = 12;
  std::int64_t feed_forward = 3072;
  std::int64_t context = 1536;   // rows of the stored position table; longer texts use exact rows beyond it
  std::int64_t token_types = 2;  // the notebook: none
  Activation activation = Activation::gelu;
  double norm_eps = 1e-12;
  double dropout = 0.1;  // of the embeddings, and of the output of attention and feed-forward
  double attention_dropout = 0.1;
  double base = 10000;
  bool rotary_value = false;
  bool tied = true;         // the masked-language-model head's matrix is the word embeddings'
  bool is_decoder = false;  // causal
  bool notebook = false;    // the notebook variant, see RoFormerLayerImpl
  bool bf16_table = false;  // cos and sin rounded to bf16
};

// The notebook's model: vocabulary 32000, width D = 768, 4 layers of 4 heads, base 1e6, context 1024. Its parameters,
// with feed-forward F = 3072:
//   embedding 32000 D                                                      24,576,000
//   4 layers  LN 2D + attention (4 D^2 + 4 D) + LN 2D
//             + feed-forward (2 D F + F + D + LN 2D)                       4 x (1,536 + 2,362,368 + 1,536 + 4,723,968)
//   output    32000 D, no bias                                             24,576,000
//                                                                          = 77,509,632
RoFormerConfig notebook_roformer();

// Throws SHAPE for sizes that no model can have: heads that do not divide the width, an odd head.
void check(const RoFormerConfig&);
// Reads config.json of a folder, model_type "roformer". Throws FILE, JSON, CONFIG_KEY, CONFIG_VALUE, MODEL_TYPE, SHAPE.
RoFormerConfig read_roformer_config(const std::filesystem::path& dir);

// norm(output(activation(input(x))) + x), in both variants.
class RoFormerFeedForwardImpl : public torch::nn::Module {
 public:
  explicit RoFormerFeedForwardImpl(const RoFormerConfig& config);
  at::Tensor forward(const at::Tensor& x);

  torch::nn::Linear input{nullptr}, output{nullptr};
  NormLayer norm{nullptr};

 private:
  Activation activation_;
  double dropout_;
};
TORCH_MODULE(RoFormerFeedForward);

// Hugging Face: n = norm(x + attention(x)); out = feed_forward(n).
// The notebook: h = x + attention(attention_norm(x)); out = h + feed_forward(norm(h)).
class RoFormerLayerImpl : public torch::nn::Module {
 public:
  explicit RoFormerLayerImpl(const RoFormerConfig& config);
  at::Tensor forward(const at::Tensor& x, const TableTensors& table, const ScoreMask& mask);

  NormLayer attention_norm{nullptr};  // notebook only
  MultiHeadAttention attention{nullptr};
  NormLayer norm{nullptr};
  RoFormerFeedForward feed_forward{nullptr};

 private:
  double dropout_;
};
TORCH_MODULE(RoFormerLayer);

// norm(activation(dense(x))) decoder^T + bias.
class RoFormerHeadImpl : public torch::nn::Module {
 public:
  explicit RoFormerHeadImpl(const RoFormerConfig& config);
  at::Tensor forward(const at::Tensor& x, const at::Tensor& word_embeddings);

  torch::nn::Linear dense{nullptr};
  NormLayer norm{nullptr};
  at::Tensor decoder;  // [vocabulary, embedding_size]; undefined if tied
  at::Tensor bias;     // [vocabulary]

 private:
  Activation activation_;
};
TORCH_MODULE(RoFormerHead);

class RoFormerImpl : public torch::nn::Module {
 public:
  explicit RoFormerImpl(RoFormerConfig config, bool head = true);
  // ids int64 [batch, tokens]; padding [batch, tokens] 0 for padding, or undefined; token_types or undefined (zeros).
  // A query that sees no key attends to all of them, as in transformers: its hidden state is finite but meaningless.
  at::Tensor hidden(const at::Tensor& ids, const at::Tensor& padding = {}, const at::Tensor& token_types = {});
  at::Tensor logits(const at::Tensor& hidden);  // the masked-language-model head, or the notebook's output layer
  // Matrices and embeddings from N(0, deviation), zero biases; norms are unchanged.
  void initialise(double deviation = 0.02);
  const RoFormerConfig& config() const noexcept { return config_; }
  bool has_head() const noexcept { return head_; }

  torch::nn::Embedding word_embeddings{nullptr};
  torch::nn::Embedding token_type_embeddings{nullptr};  // this and the next three: Hugging Face only
  NormLayer embedding_norm{nullptr};
  torch::nn::Linear projection{nullptr};         // if embedding_size is not width
  torch::nn::Embedding position_table{nullptr};  // frozen [context, head_dim]: sin of all pairs, then cos
  torch::nn::ModuleList layers{nullptr};
  RoFormerHead prediction{nullptr};
  torch::nn::Linear output{nullptr};  // notebook only

 private:
  at::Tensor embed(const at::Tensor& ids, const at::Tensor& token_types);
  TableTensors table(const at::Tensor& x) const;

  RoFormerConfig config_;
  bool head_;
  RotaryEmbedding rotary_{nullptr};
};
TORCH_MODULE(RoFormer);

using LoadedRoFormer = Loaded<RoFormer>;
// Loads a Hugging Face checkpoint: RoFormerForMaskedLM, RoFormerForCausalLM, RoFormerModel, or a trunk with another
// head. Throws TENSOR for a tensor that is missing, has the wrong shape, or is unknown in the trunk or language-model
// head.
LoadedRoFormer load_roformer(const std::filesystem::path& dir);

}  // namespace rotary_torch
