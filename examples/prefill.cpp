// A serving engine with a paged KV cache on the CPU: prompts of several sequences in one packed batch, then a step of
// each. q turns in place while k is rotated into its pages and v is copied there, in one pass; nothing is written to k.
//   g++ -std=c++20 prefill.cpp $(pkg-config --cflags --libs rotary) -o prefill
#include <rotary/cache.h>

#include <cstdio>
#include <vector>

namespace {

constexpr int head_dim = 64, page_size = 16;
constexpr std::int64_t q_heads = 4, kv_heads = 2, pages = 8;

// Pages of each sequence, in the order of its tokens, and how many tokens it has.
struct Sequence {
  std::vector<std::int64_t> pages;
  std::int64_t length = 0;
};

// Some tokens of some sequences: their positions, and the slots that they take.
struct Step {
  std::vector<std::int64_t> positions, slots;
  void add(Sequence& s, std::int64_t tokens) {
    for (; tokens > 0; --tokens, ++s.length) {
      positions.push_back(s.length);
      const auto page = static_cast<std::size_t>(s.length / page_size);
      slots.push_back(s.pages[page] * page_size + s.length % page_size);
    }
  }
};

std::vector<float> activations(std::size_t tokens, std::int64_t heads) {
  std::vector<float> x(tokens * static_cast<std::size_t>(heads * head_dim));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 89) / 64 - 0.5f;
  return x;
}

}  // namespace

int main() {
  const rotary::Rope rope{.head_dim = head_dim, .base = 500000, .pairing = rotary::Pairing::half};
  const rotary::Frequencies frequencies = rotary::frequencies(rope);
  // The activations are f32, the cache bf16: each key is rounded once, after its rotation.
  std::vector<rotary::bf16> keys(pages * page_size * kv_heads * head_dim), values(keys.size());
  const rotary::Cache cache =
      rotary::nhd(keys.data(), values.data(), pages, page_size, kv_heads, head_dim, rotary::CacheType::bf16);

  Sequence a{{5, 0, 2}}, b{{7}};
  Step prompts, one_each;
  prompts.add(a, 40);
  prompts.add(b, 9);
  one_each.add(a, 1);
  one_each.add(b, 1);
  std::size_t wrong = 0;
  for (const Step& step : {prompts, one_each}) {
    const auto tokens = static_cast<std::int64_t>(step.positions.size());
    const rotary::Table table(frequencies, step.positions);
    std::vector<float> q = activations(step.positions.size(), q_heads),
                       k = activations(step.positions.size(), kv_heads);
    const std::vector<float> v = k;
    rotary::rotate_append(rotary::heads(q, rotary::thd(tokens, q_heads, head_dim)),
                          rotary::heads(k, rotary::thd(tokens, kv_heads, head_dim)),
                          rotary::heads(v, rotary::thd(tokens, kv_heads, head_dim)), table, cache,
                          rotary::Slots::flat(step.slots.data()));

    // The same by hand: rotate k, then look at each token's place.
    rotary::rotate(rotary::heads(k, rotary::thd(tokens, kv_heads, head_dim)), table);
    for (std::size_t i = 0; i < k.size(); ++i) {
      constexpr std::size_t token = kv_heads * head_dim;
      const std::size_t at = static_cast<std::size_t>(step.slots[i / token]) * token + i % token;
      wrong += keys[at] == rotary::to_bf16(k[i]) && values[at] == rotary::to_bf16(v[i]) ? 0 : 1;
    }
  }
  std::printf("%lld and %lld tokens in pages; elements that differ: %zu\n", static_cast<long long>(a.length),
              static_cast<long long>(b.length), wrong);
  return wrong == 0 ? 0 : 1;
}
