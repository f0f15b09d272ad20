// Built against an installed rotary_torch: the op, and attention on top of it.
#include <torch/torch.h>

#include <cstdio>

#include <rotary_torch/nn/layers.h>
#include <rotary_torch/op/rotary_embedding.h>

int main() {
  const torch::NoGradGuard no_grad;
  rotary_torch::RotaryEmbedding rope(rotary::Rope{.head_dim = 16, .pairing = rotary::Pairing::half});
  const auto table = rope->table(torch::full({1}, 3, torch::kLong));
  const auto q = rope->rotate(torch::ones({1, 1, 1, 16}), table, rotary_torch::Dims::bthd);
  rotary_torch::MultiHeadAttention attention(rotary_torch::AttentionOptions{.width = 32, .heads = 2});
  const auto y = attention->forward(torch::ones({1, 1, 32}), &table, {});
  std::printf("q[0] = %.7g, attention gives %d values\n", q[0][0][0][0].item<double>(), static_cast<int>(y.numel()));
}
