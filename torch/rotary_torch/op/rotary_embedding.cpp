#include "rotary_torch/op/rotary_embedding.h"

#include <ATen/ATen.h>

#include <ostream>
#include <string_view>
#include <vector>

#include "rotary_torch/op/refusal.h"

namespace rotary_torch {
namespace {

using at::Tensor;

std::int64_t tokens_of(const Tensor& x, Dims dims) {
  const std::string_view layout = name(dims);
  TORCH_CHECK(x.dim() == std::ssize(layout), "[rotary_embedding] layout ", layout, " takes ", layout.size(),
              " dimensions but x has shape ", x.sizes());
  return x.size(static_cast<std::int64_t>(layout.find('t')));
}

}  // namespace

RotaryEmbeddingImpl::RotaryEmbeddingImpl(rotary::Rope rope, RotaryEmbeddingOptions options)
    : torch::nn::Module("RotaryEmbedding"), rope_(std::move(rope)), options_(options) {
  if (rope_.rotary_dim == 0) rope_.rotary_dim = rope_.head_dim;
  // At the trained length if the scaling depends on the length. Throws if the rope is invalid.
  const rotary::Frequencies start = translated([&] { return rotary::frequencies(rope_, 0); });
  TORCH_CHECK(options_.first >= 0 && options_.first <= rope_.head_dim - rope_.rotary_dim, "[rotary_embedding] the ",
              rope_.rotary_dim, " elements that rotate must lie inside head_dim ", rope_.head_dim, " but begin at ",
              options_.first);
  if (!options_.learned) return;
  TORCH_CHECK(options_.angles == rotary::Angles::exact && options_.rounding == rotary::Rounding::f32,
              "[rotary_embedding] learned frequencies take exact angles and f32 rows but got other options");
  TORCH_CHECK(rope_.phase.empty() && rope_.xpos.scale == 0 && rope_.head_rows == 1 && rope_.summed_axes == 0,
              "[rotary_embedding] learned frequencies take a rope without phase, xPos, rows per head and sums of axes "
              "but got one with them");
  inv_freq = register_parameter("inv_freq", at::tensor(start.inv_freq, at::kDouble));
  attention_factor = register_parameter("attention_factor", at::scalar_tensor(start.attention_factor, at::kDouble));
}

RotaryEmbeddingImpl::RotaryEmbeddingImpl(const rotary::ModelRope& rope, RotaryEmbeddingOptions options)
    : RotaryEmbeddingImpl(rope.rope, (options.first = rope.first, options)) {}

TableTensors RotaryEmbeddingImpl::table(const Tensor& position_ids) const {
  if (options_.learned) {
    const std::vector<std::int64_t> axis(rope_.axis.begin(), rope_.axis.end());
    const auto [cos, sin] = rotary_torch::table(position_ids, inv_freq.to(at::kDouble), 1, axis);
    const Tensor factor = attention_factor.to(cos.device(), at::kFloat);
    return {cos * factor, rope_.clockwise ? -sin * factor : sin * factor, rope_.pairing};
  }
  return rotary_torch::table(rope_, position_ids, options_.angles, options_.rounding);
}

Tensor RotaryEmbeddingImpl::rotate(const Tensor& x, const TableTensors& table, Dims dims) const {
  TORCH_CHECK(x.dim() > 0 && (x.size(-1) == rope_.head_dim || x.size(-1) == rope_.rotary_dim),
              "[rotary_embedding] heads must have head_dim ", rope_.head_dim, " or the rotated block's ",
              rope_.rotary_dim, " elements but x has shape ", x.sizes());
  return rotary_torch::rotate(x, table, dims, x.size(-1) == rope_.head_dim ? options_.first : 0);
}

std::pair<Tensor, Tensor> RotaryEmbeddingImpl::forward(const Tensor& q, const Tensor& k,
                                                       const TokenPositions& positions, Dims dims) const {
  TORCH_CHECK(rope_.xpos.scale == 0, "[rotary_embedding] forward takes a rope without xPos, whose inverse keys take, ",
              "but got one with it: turn q and k by a module each (XPos::reciprocal)");
  const std::int64_t tokens = tokens_of(q, dims);
  const std::int64_t* offset = std::get_if<std::int64_t>(&positions);
  const TableTensors rows =
      table(offset ? at::arange(*offset, *offset + tokens, at::kLong) : std::get<Tensor>(positions));
  const auto rotated = [&](const Tensor& x) {
    const auto options = at::TensorOptions(x.device()).dtype(x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
    return rotate(x, {rows.cos.to(options), rows.sin.to(options), rows.pairing}, dims);
  };
  return {rotated(q), rotated(k)};
}

void RotaryEmbeddingImpl::pretty_print(std::ostream& stream) const {
  stream << "RotaryEmbedding(head_dim=" << rope_.head_dim << ", rotary_dim=" << rope_.rotary_dim
         << ", first=" << options_.first << ", base=" << rope_.base << ", pairing=" << rotary::name(rope_.pairing)
         << ", scaling=" << rotary::name(rope_.scaling) << (rope_.clockwise ? ", clockwise" : "")
         << (options_.learned ? ", learned)" : ")");
}

RotaryEmbedding rotary_embedding(const std::filesystem::path& config, int rope, RotaryEmbeddingOptions options,
                                 const rotary::ConfigOptions& config_options) {
  const rotary::Model model = translated([&] { return rotary::read_config(config, config_options); });
  TORCH_CHECK(rope >= 0 && static_cast<std::size_t>(rope) < model.ropes.size(),
              "[rotary_embedding] rope must be one of the model's ", model.ropes.size(), ", from 0, but got ", rope);
  return RotaryEmbedding(model.ropes[static_cast<std::size_t>(rope)], options);
}

}  // namespace rotary_torch
