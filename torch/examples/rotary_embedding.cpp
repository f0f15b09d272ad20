#include <torch/torch.h>

#include <cstdio>

#include "rotary_torch/op/rotary_embedding.h"

int main() {
  torch::manual_seed(1);
  rotary_torch::RotaryEmbedding rope(rotary::Rope{.head_dim = 64, .base = 10000, .pairing = rotary::Pairing::half});

  const auto q = torch::randn({1, 8, 16, 64}).requires_grad_();  // batch, heads, tokens, head_dim
  const auto k = torch::randn({1, 2, 16, 64});                   // grouped queries: fewer heads of k
  const auto [near_q, near_k] = rope(q, k, 0, rotary_torch::Dims::bhtd);
  const auto [far_q, far_k] = rope(q, k, 1000000, rotary_torch::Dims::bhtd);

  // The score of token 9 against token 4 in head 0. It depends only on their distance.
  const auto near = (near_q[0][0][9] * near_k[0][0][4]).sum(), far = (far_q[0][0][9] * far_k[0][0][4]).sum();
  std::printf("score of token 9 against token 4             %.4f\n", near.item<double>());
  std::printf("the same two tokens a million positions on   %.4f\n", far.item<double>());

  near.backward();
  const auto ratio = q.grad()[0][0][9].norm() / near_k[0][0][4].norm();  // the gradient of q is the key, rotated back
  std::printf("length of that gradient over the key's       %.4f\n", ratio.item<double>());
}
