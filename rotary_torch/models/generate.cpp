#include "rotary_torch/models/generate.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "rotary_torch/nn/layers.h"
#include "rotary_torch/op/refusal.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Code;

constexpr Refusal refuse{"generate"}, refuse_window{"perplexity"};

void check_prompt(const DecoderConfig& config, const Tensor& prompt, const GenerateOptions& options) {
  refuse.unless(prompt.scalar_type() == at::kLong, Code::DTYPE, "the prompt must be int64 but got ",
                toString(prompt.scalar_type()));
  refuse.unless(prompt.dim() == 2 && prompt.numel() > 0, Code::SHAPE,
                "the prompt must be [batch, tokens] with at least one token but got ", prompt.sizes());
  const std::int64_t min = prompt.min().item<std::int64_t>();
  const std::int64_t max = prompt.max().item<std::int64_t>();
  refuse.unless(min >= 0 && max < config.vocabulary, Code::VALUE, "ids must be from 0 to ", config.vocabulary - 1,
                " but got ", min < 0 ? min : max);
  refuse.unless(options.tokens >= 0, Code::VALUE, "tokens must be at least 0 but got ", options.tokens);
}

std::size_t largest(std::span<const float> logits) {
  std::size_t best = 0;
  bool whole = true;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    whole = whole && !std::isnan(logits[i]);
    if (logits[i] > logits[best]) best = i;
  }
  refuse.unless(whole && std::isfinite(logits[best]), Code::VALUE,
                "logits must be finite but got NaN or infinity: the weights are broken");
  return best;
}

Tensor on_cpu(const Tensor& logits) { return logits.to(at::kCPU, at::kFloat).contiguous(); }

}  // namespace

Sampler::Sampler(double temperature, std::int64_t top_k, std::uint64_t seed, std::int64_t rows)
    : temperature_(temperature), top_k_(static_cast<std::size_t>(top_k)) {
  refuse.unless(temperature >= 0 && std::isfinite(temperature), Code::VALUE, "temperature must be at least 0 but got ",
                std::to_string(temperature));
  refuse.unless(top_k >= 0, Code::VALUE, "top_k must be at least 0 but got ", top_k);
  for (std::uint64_t row = 0; row < static_cast<std::uint64_t>(rows); ++row) {
    std::seed_seq words{seed, seed >> 32, row, row >> 32};  // it takes the low 32 bits of each
    random_.emplace_back(words);
  }
}

void Sampler::keep_top(std::span<const float> logits) {
  kept_.resize(logits.size());
  std::iota(kept_.begin(), kept_.end(), 0);
  if (top_k_ == 0 || top_k_ >= kept_.size()) return;
  const auto at = [logits](std::int64_t id) { return logits[static_cast<std::size_t>(id)]; };
  const auto last = kept_.begin() + static_cast<std::ptrdiff_t>(top_k_);
  std::nth_element(kept_.begin(), last - 1, kept_.end(),
                   [&at](std::int64_t a, std::int64_t b) { return at(a) != at(b) ? at(a) > at(b) : a < b; });
  kept_.erase(last, kept_.end());
  std::sort(kept_.begin(), kept_.end());
}

std::int64_t Sampler::choose(std::span<const float> logits, std::int64_t row) {
  const std::size_t best = largest(logits);
  if (temperature_ == 0 || top_k_ == 1) return static_cast<std::int64_t>(best);
  keep_top(logits);
  sums_.clear();
  double sum = 0;
  for (const std::int64_t id : kept_) {
    const double below = static_cast<double>(logits[static_cast<std::size_t>(id)]) - static_cast<double>(logits[best]);
    sums_.push_back(sum += std::exp(below / temperature_));
  }
  const double draw = static_cast<double>(random_[static_cast<std::size_t>(row)]() >> 11) * 0x1p-53 * sum;  // < sum
  const auto chosen = std::upper_bound(sums_.begin(), sums_.end(), draw);
  return chosen == sums_.end() ? static_cast<std::int64_t>(best)
                               : kept_[static_cast<std::size_t>(chosen - sums_.begin())];
}

Tensor generate(Decoder& model, const Tensor& prompt, const GenerateOptions& options,
                const std::function<bool(const Tensor&)>& on_token) {
  const DecoderConfig& config = model->config();
  check_prompt(config, prompt, options);
  const std::int64_t batch = prompt.size(0);
  const std::int64_t read = prompt.size(1);
  Sampler sampler(options.temperature, options.top_k, options.seed, batch);
  const Tensor ids = at::empty({batch, read + options.tokens}, at::kLong);
  ids.narrow(1, 0, read).copy_(prompt);
  std::int64_t* const chosen = ids.data_ptr<std::int64_t>();

  const c10::InferenceMode inference;
  const Evaluation evaluation(*model);
  const at::Device device = model->embedding->weight.device();
  const bool learned = config.position == PositionEncoding::learned;
  const std::int64_t longest = learned ? std::min(config.context, ids.size(1)) : ids.size(1);
  DecoderCache cache(config, longest, options.window);
  const auto next = [&](std::int64_t end) {
    if (end > longest) {  // the last tokens are read anew, from position 0: no cached key fits their new positions
      DecoderCache window(config, longest);
      return on_cpu(model->next_logits(ids.slice(1, end - longest, end).to(device), window));
    }
    return on_cpu(model->next_logits(ids.slice(1, cache.tokens(), end).to(device), cache));
  };
  for (std::int64_t end = read; end < ids.size(1); ++end) {  // end: the number of tokens so far
    const Tensor logits = next(end);
    const std::size_t vocabulary = static_cast<std::size_t>(logits.size(1));
    for (std::int64_t row = 0; row < batch; ++row) {
      const float* const of_row = logits.const_data_ptr<float>() + row * logits.size(1);
      chosen[row * ids.size(1) + end] = sampler.choose({of_row, vocabulary}, row);
    }
    if (on_token && !on_token(ids.select(1, end))) return ids.narrow(1, 0, end + 1);
  }
  return ids;
}

// ---- the loss by the length of the window ----

namespace {

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
    refuse_window(Code::SHAPE, "a window of ", longest, " tokens and its target need ", longest + 1, " tokens but got ",
                  ids.dim() == 2 && ids.size(0) > 0 ? ids.size(1) : 0);
  }
  std::int64_t windows = (ids.size(1) - 1) / longest;
  if (max_tokens > 0) windows = std::clamp<std::int64_t>(max_tokens / ids.size(0) / longest, 1, windows);
  const std::int64_t tokens = windows * longest + 1;
  return ids.narrow(1, ids.size(1) - tokens, tokens);
}

WindowLoss window_loss(Decoder& model, const Tensor& ids, std::int64_t length, const rotary::SlidingWindow& slides) {
  const DecoderConfig& config = model->config();
  refuse_window.unless(config.position != PositionEncoding::learned || length <= config.context, Code::POSITION,
                       "learned positions end at ", config.context, " tokens but got length ", length);
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
    DecoderCache cache(config, length, slides);
    DecoderCache* const sliding = slides == rotary::SlidingWindow{} ? nullptr : &cache;
    const Tensor hidden = model->hidden(inputs.narrow(0, first, count), {}, sliding).flatten(0, 1);
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
