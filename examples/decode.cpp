// A decoder with a KV cache: the prompt at once, then token by token, each at its own position. A table is a value made
// per step, shared by all layers and thrown away; nothing grows, and no position is too far.
//   g++ -std=c++20 decode.cpp $(pkg-config --cflags --libs rotary) -o decode
#include <rotary/rotary.h>

#include <cstdio>
#include <span>
#include <vector>

namespace {

constexpr int head_dim = 128, heads = 4;
constexpr std::int64_t prompt = 12, steps = 4, row = heads * head_dim;
using rotary::bf16;  // as the model stores it

// Rotates the k of tokens [first, first + count) on its way into the cache.
void append(std::vector<bf16>& cache, const std::vector<bf16>& k, const rotary::Rope& rope, std::int64_t first,
            std::int64_t count) {
  const rotary::Table table(rotary::frequencies(rope, first + count), rotary::positions(first, count));
  const rotary::Layout layout = rotary::thd(count, heads, head_dim);
  const auto begin = static_cast<std::size_t>(first * row);
  rotary::rotate(rotary::heads(std::span(k).subspan(begin), layout),
                 rotary::heads(std::span(cache).subspan(begin), layout), table);
}

}  // namespace

int main() {
  const rotary::Rope rope{.head_dim = head_dim,
                          .base = 1000000,
                          .pairing = rotary::Pairing::half,
                          .scaling = rotary::Yarn{.factor = 4, .trained_length = 32768}};
  std::vector<bf16> k((prompt + steps) * row);
  for (std::size_t i = 0; i < k.size(); ++i) k[i] = {static_cast<std::uint16_t>(0x3f80 + i % 97)};  // 1 to 1.75

  std::vector<bf16> cache(k.size());
  append(cache, k, rope, 0, prompt);
  for (std::int64_t step = 0; step < steps; ++step) append(cache, k, rope, prompt + step, 1);

  std::vector<bf16> at_once(k.size());
  append(at_once, k, rope, 0, prompt + steps);
  std::printf("token by token and all at once: %s\n", cache == at_once ? "the same bits" : "DIFFERENT");
  return cache == at_once ? 0 : 1;
}
