// Grouped-query attention in one fused buffer, as a projection writes it: per token 8 heads of q, 2 of k, 2 of v.
// One call rotates q and k, two views of the buffer, and leaves v alone. One table serves every layer of the model.
//   g++ -std=c++20 fused_qkv.cpp $(pkg-config --cflags --libs rotary) -o fused_qkv
#include <rotary/rotary.h>

#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

int main() {
  constexpr int head_dim = 64, q_heads = 8, k_heads = 2, v_heads = 2;
  constexpr std::int64_t batch = 2, tokens = 5, all_heads = q_heads + k_heads + v_heads;
  std::vector<float> qkv(batch * tokens * all_heads * head_dim);
  std::iota(qkv.begin(), qkv.end(), 1.0f);
  const std::vector<float> before = qkv;

  const rotary::Rope rope{.head_dim = head_dim, .base = 10000, .pairing = rotary::Pairing::half};
  // The second batch row is padded on the left by two tokens: positions per row, row-major [batch, tokens].
  const std::vector<std::int64_t> positions = {0, 1, 2, 3, 4, 0, 0, 0, 1, 2};
  const rotary::Table table(rotary::frequencies(rope), rotary::Positions(positions, 1, batch));

  const rotary::ThreadPool pool(2);  // or an Executor of your own: own_threads.cpp
  // Views of q and k: the buffer's strides; they differ in where they begin and how many heads they have.
  const auto view = [&](std::vector<float>& memory, std::size_t first_head, std::int64_t heads) {
    rotary::Layout some = rotary::bthd(batch, tokens, all_heads, head_dim);
    some.heads = heads;
    return rotary::heads(std::span(memory).subspan(first_head * head_dim), some);
  };
  rotary::rotate_qk(view(qkv, 0, q_heads), view(qkv, q_heads, k_heads), table, {.executor = &pool});

  // The same in two calls.
  std::vector<float> one_by_one = before;
  rotary::rotate(view(one_by_one, 0, q_heads), table);
  rotary::rotate(view(one_by_one, q_heads, k_heads), table);

  std::size_t changed_v = 0, changed_q_and_k = 0;
  for (std::size_t i = 0; i < qkv.size(); ++i) {
    const bool is_v = i / head_dim % all_heads >= q_heads + k_heads;
    if (qkv[i] != before[i]) ++(is_v ? changed_v : changed_q_and_k);
  }
  std::printf("changed: %zu elements of q and k, %zu of v; in two calls: %s\n", changed_q_and_k, changed_v,
              qkv == one_by_one ? "the same bits" : "DIFFERENT");
  return changed_v == 0 && changed_q_and_k > 0 && qkv == one_by_one ? 0 : 1;
}
