#include <torch/torch.h>

#include <cstdio>

#include "rotary_torch/nn/attention.h"
#include "rotary_torch/op/rotary_embedding.h"

int main() {
  namespace rt = rotary_torch;
  torch::manual_seed(1);
  const torch::NoGradGuard no_grad;

  // 8 heads of q share 2 heads of k and v; the first 16 of each head's 32 elements rotate.
  rt::MultiHeadAttention attention(rt::AttentionOptions{.width = 256, .heads = 8, .kv_heads = 2});
  rt::RotaryEmbedding rope(
      rotary::Rope{.head_dim = 32, .rotary_dim = 16, .base = 10000, .pairing = rotary::Pairing::half});
  const auto x = torch::randn({1, 12, 256});  // batch, tokens, width

  // All tokens at once.
  const auto rows = rope->table(torch::arange(12));
  const auto whole = attention->forward(x, &rows, rt::score_mask({.causal = true}, 1, 12, 0, x.options()));

  // One token at a time, with a cache of rotated keys.
  rt::KVCache cache;
  double difference = 0;
  for (std::int64_t t = 0; t < 12; ++t) {
    const auto row = rope->table(torch::arange(t, t + 1));
    const auto one = attention->forward(x.narrow(1, t, 1), &row, {}, &cache);
    difference = std::max(difference, (one - whole.narrow(1, t, 1)).abs().max().item<double>());
  }
  std::printf("tokens in the cache                     %d\n", static_cast<int>(cache.tokens()));
  std::printf("step by step equals the whole, to 1e-6  %s\n", difference < 1e-6 ? "yes" : "no");
}
