#include "rotary_torch/models/generate.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "rotary_torch/op/refusal.h"

namespace rotary_torch {
namespace {

using at::Tensor;
using rotary::Code;

constexpr Refusal refuse_generate{"generate"}, refuse_perplexity{"perplexity"};

void check(const DecoderConfig& config, const Tensor& prompt, const GenerateOptions& options) {
  refuse_generate.unless(prompt.scalar_type() == at::kLong && prompt.dim() == 2 && prompt.numel() > 0, Code::SHAPE,
                         "the prompt must be int64 [batch, tokens] with at least one token but got ", prompt.sizes());
  const std::int64_t least = prompt.min().item<std::int64_t>(), most = prompt.max().item<std::int64_t>();
  refuse_generate.unless(least >= 0 && most < config.vocabulary, Code::VALUE, "ids must be from 0 to ",
                         config.vocabulary - 1, " but got ", least < 0 ? least : most);
  refuse_generate.unless(options.tokens >= 0 && options.top_k >= 0, Code::VALUE,
                         "tokens and top_k must be at least 0 but got ", options.tokens, " and ", options.top_k);
  refuse_generate.unless(options.temperature >= 0 && std::isfinite(options.temperature), Code::VALUE,
                         "temperature must be at least 0 but got ", options.temperature);
}

Tensor on_cpu(const Tensor& logits) { return logits.to(at::kCPU, at::kFloat).contiguous(); }

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

std::int64_t sample(std::span<const float> logits, const GenerateOptions& options, std::mt19937_64& random) {
  const auto best = static_cast<std::int64_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
  const auto at = [logits](std::int64_t id) { return static_cast<double>(logits[static_cast<std::size_t>(id)]); };
  const bool whole = std::none_of(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); });
  refuse_generate.unless(whole && std::isfinite(at(best)), Code::VALUE,
                         "logits must be finite but got NaN or infinity: the weights are broken");
  if (options.temperature == 0 || options.top_k == 1) return best;
  std::vector<std::int64_t> kept(logits.size());
  std::iota(kept.begin(), kept.end(), 0);
  if (options.top_k > 0 && options.top_k < std::ssize(kept)) {
    std::nth_element(kept.begin(), kept.begin() + options.top_k - 1, kept.end(),
                     [&at](std::int64_t a, std::int64_t b) { return at(a) != at(b) ? at(a) > at(b) : a < b; });
    kept.resize(static_cast<std::size_t>(options.top_k));
    std::sort(kept.begin(), kept.end());
  }
  std::vector<double> sums;  // the sums of the weights of kept
  for (double sum = 0; const std::int64_t id : kept)
    sums.push_back(sum += std::exp((at(id) - at(best)) / options.temperature));
  const double draw = static_cast<double>(random() >> 11) * 0x1p-53 * sums.back();  // below the last sum
  const auto chosen = std::upper_bound(sums.begin(), sums.end(), draw);
  return chosen == sums.end() ? best : kept[static_cast<std::size_t>(chosen - sums.begin())];
}

Tensor generate(Decoder& model, const Tensor& prompt, const GenerateOptions& options,
                const std::function<bool(const Tensor&)>& on_token) {
  const DecoderConfig& config = model->config();
  check(config, prompt, options);
  const std::int64_t batch = prompt.size(0);
  const std::int64_t read = prompt.size(1);
  std::vector<std::mt19937_64> random;  // each row has its own
  for (std::uint64_t row = 0; row < static_cast<std::uint64_t>(batch); ++row) {
    std::seed_seq words{options.seed, options.seed >> 32, row, row >> 32};  // it takes the low 32 bits of each
    random.emplace_back(words);
  }
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
      chosen[row * ids.size(1) + end] = sample({of_row, vocabulary}, options, random[static_cast<std::size_t>(row)]);
    }
    if (on_token && !on_token(ids.select(1, end))) return ids.narrow(1, 0, end + 1);
  }
  return ids;
}

Tensor measured_part(const Tensor& ids, std::int64_t longest, std::int64_t max_tokens) {
  if (ids.dim() != 2 || ids.size(0) == 0 || ids.size(1) <= longest) {
    refuse_perplexity(Code::SHAPE, "a window of ", longest, " tokens and its target need ", longest + 1,
                      " tokens but got ", ids.dim() == 2 && ids.size(0) > 0 ? ids.size(1) : 0);
  }
  std::int64_t windows = (ids.size(1) - 1) / longest;
  if (max_tokens > 0) windows = std::clamp<std::int64_t>(max_tokens / ids.size(0) / longest, 1, windows);
  const std::int64_t tokens = windows * longest + 1;
  return ids.narrow(1, ids.size(1) - tokens, tokens);
}

WindowLoss window_loss(Decoder& model, const Tensor& ids, std::int64_t length, const rotary::SlidingWindow& slides) {
  const DecoderConfig& config = model->config();
  refuse_perplexity.unless(config.position != PositionEncoding::learned || length <= config.context, Code::POSITION,
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
