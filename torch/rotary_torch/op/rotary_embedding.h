// RotaryEmbedding: a module made from a Rope or from a model's config.json.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <filesystem>
#include <iosfwd>
#include <variant>

#include "rotary/config.h"
#include "rotary_torch/op/op.h"

namespace rotary_torch {

struct RotaryEmbeddingOptions {
  std::int64_t first = 0;  // element of the head where the rotated block begins
  rotary::Angles angles = rotary::Angles::exact;
  rotary::Rounding rounding = rotary::Rounding::f32;  // rounds cos and sin
  bool learned = false;  // inv_freq and attention_factor become parameters (f64; exact angles, f32 rows; of a rope
                         // without phase, xPos, rows per head and sums of axes)
};

// The positions of the tokens: an offset (offset, offset + 1, ...), or position_ids, integers or float64 [tokens] or
// [batch, tokens]; for a rope of several axes [tokens], [axes, tokens] or [axes, batch, tokens].
using TokenPositions = std::variant<std::int64_t, at::Tensor>;

// The module has no hidden state: the table depends only on the positions of a call. Any position works, also past the
// trained length; dynamic scaling and LongRoPE take the largest position + 1 as the length. Make one table per step and
// share it between layers: table(), then rotate(). Without learned frequencies the state dict is empty, and casting the
// module changes nothing.
class RotaryEmbeddingImpl : public torch::nn::Module {
 public:
  explicit RotaryEmbeddingImpl(rotary::Rope rope, RotaryEmbeddingOptions options = {});
  explicit RotaryEmbeddingImpl(const rotary::ModelRope& rope, RotaryEmbeddingOptions options = {});  // takes rope.first

  // Returns q and k rotated. They may differ in heads and dtype. Refuses a rope with xPos, whose inverse keys take.
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& q, const at::Tensor& k, const TokenPositions& positions,
                                            Dims dims) const;

  // The table is on the device of position_ids.
  TableTensors table(const at::Tensor& position_ids) const;
  // x has heads of rope().head_dim elements, or only the rotated block (rope().rotary_dim elements).
  at::Tensor rotate(const at::Tensor& x, const TableTensors& table, Dims dims) const;

  const rotary::Rope& rope() const noexcept { return rope_; }
  void pretty_print(std::ostream&) const override;

  at::Tensor inv_freq;          // learned: f64 [pairs], from the frequencies at the trained length
  at::Tensor attention_factor;  // learned: f64, one value

 private:
  rotary::Rope rope_;
  RotaryEmbeddingOptions options_;
};
TORCH_MODULE(RotaryEmbedding);

// Rope number `rope` (counted from 0, as `rotary inspect` prints them) of a config.json, params.json or their folder.
RotaryEmbedding rotary_embedding(const std::filesystem::path& config, int rope = 0, RotaryEmbeddingOptions options = {},
                                 const rotary::ConfigOptions& = {});

}  // namespace rotary_torch
