// The loss of a decoder by the length of the window.
#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>

#include "rotary_torch/models/generate.h"
#include "rotary_torch/nn/layers.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Code;

constexpr Refusal refuse{"perplexity"};

// The number of logits computed at a time: 64 MB of f32 for any vocabulary and length.
constexpr std::int64_t max_values = 1 << 24;

// Cross-entropy of every token, f32 [tokens], from hidden states [tokens, width].
Tensor token_losses(Decoder& model, const Tensor& hidden, const Tensor& targets) {
  const Tensor losses = at::empty({targets.size(0)}, hidden.options().dtype(at::kFloat));
  const std::int64_t rows = std::max<std::int64_t>(1, max_values / model->config().vocabulary);
  for (std::int64_t first = 0; first < targets.size(0); first += rows) {
    const std::int64_t count = std::min(rows, targets.size(0) - first);
    const Tensor logits = model->logits(hidden.narrow(0, first, count)).to(at::kFloat);
    losses.narrow(0, first, count)
        .copy_(at::cross_entropy_loss(logits, targets.narrow(0, first, count), {}, at::Reduction::None));
  }
  return losses;
}

}  // namespace

Tensor measured_part(const Tensor& ids, std::int64_t longest, std::int64_t max_tokens) {
  if (ids.dim() != 2 || ids.size(0) == 0 || ids.size(1) <= longest) {
    refuse(Code::SHAPE, "a window of ", longest, " tokens and its target need ", longest + 1, " tokens but got ",
           ids.dim() == 2 && ids.size(0) > 0 ? ids.size(1) : 0);
  }
  std::int64_t windows = (ids.size(1) - 1) / longest;
  if (max_tokens > 0) windows = std::clamp<std::int64_t>(max_tokens / ids.size(0) / longest, 1, windows);
  const std::int64_t tokens = windows * longest + 1;
  return ids.narrow(1, ids.size(1) - tokens, tokens);
}

WindowLoss window_loss(Decoder& model, const Tensor& ids, std::int64_t length) {
  const DecoderConfig& config = model->config();
  if (config.position == PositionEncoding::learned && length > config.context) {
    refuse(Code::POSITION, "learned positions end at ", config.context, " tokens but got length ", length);
  }
  const std::int64_t windows = (ids.size(1) - 1) / length;
  const auto cut = [&](std::int64_t first) {
    return ids.narrow(1, first, windows * length).reshape({-1, length}).to(model->embedding->weight.device());
  };
  const c10::InferenceMode inference;
  const Evaluation evaluation(*model);
  const Tensor inputs = cut(0);
  const Tensor targets = cut(1);
  const std::int64_t batch = std::max<std::int64_t>(1, 4096 / length);  // windows of one forward pass
  const std::int64_t quarter = std::max<std::int64_t>(1, length / 4);
  double sum = 0;
  double last = 0;
  for (std::int64_t first = 0; first < inputs.size(0); first += batch) {
    const std::int64_t count = std::min(batch, inputs.size(0) - first);
    const Tensor hidden = model->hidden(inputs.narrow(0, first, count)).flatten(0, 1);
    const Tensor losses = token_losses(model, hidden, targets.narrow(0, first, count).flatten()).to(at::kDouble);
    sum += losses.sum().item<double>();
    last += losses.view({count, length}).narrow(1, length - quarter, quarter).sum().item<double>();
  }
  const auto mean = [&](double total, std::int64_t per_window) {
    return total / static_cast<double>(inputs.size(0) * per_window);
  };
  return {mean(sum, length), mean(last, quarter), inputs.numel()};
}

}  // namespace rotary_torch
