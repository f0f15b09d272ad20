// Random calls, valid and invalid: each succeeds, or is refused in one sentence that names the rule.
#include <numeric>

#include "core/tests/support/random_calls.h"
#include "fuzz.h"
#include "rotary/cache.h"

namespace rotary::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> texts;
  for (unsigned i = 1; i <= 24; ++i) {
    std::string text;
    unsigned state = i * 2654435761u;
    for (int n = 0; n < 96; ++n) text += static_cast<char>((state = state * 1664525u + 1013904223u) >> 24);
    texts.push_back(text);
  }
  return texts;
}

std::vector<std::string> words() { return {std::string(8, '\0'), "\x01\x02\x03", "\x0B\x03", "\xFF"}; }

// The same heads on their way to a cache, whose fields and slots may be anything.
tests::Outcome appended(const tests::RandomCall& call, Choices& choices, std::byte* memory) {
  using tests::RandomCall;
  const Heads &q = call.sides[RandomCall::q], &q_out = call.in_place ? q : call.sides[RandomCall::q_out];
  const Heads &k = call.sides[RandomCall::k], &v = call.sides[RandomCall::k_out];
  const Layout& l = k.layout;
  std::int64_t tokens = 0;
  if (__builtin_mul_overflow(l.batch, l.tokens, &tokens) || tokens > 64) return {};  // broadcast: too long
  const int page_size = choices.below(6);
  const std::int64_t pages = choices.below(5), inner = l.head_dim % 64 + choices.below(3);
  Cache cache;
  cache.k = memory + 4 * static_cast<std::size_t>(choices.below(64));
  cache.v = memory + (choices.below(8) == 0 ? 512 : 65536) + static_cast<std::size_t>(choices.below(4));
  cache.type = static_cast<CacheType>(choices.below(6));
  cache.pages = pages;
  cache.page_size = page_size;
  cache.heads = choices.below(8) == 0 ? choices.below(4) : l.heads;
  cache.head_dim = choices.below(8) == 0 ? choices.below(8) : l.head_dim;
  cache.head_stride = inner;
  cache.token_stride = inner * (l.heads % 64) + choices.below(3);
  cache.page_stride = cache.token_stride * page_size - (choices.below(8) == 0 ? choices.below(9) : 0);
  cache.k_scale = static_cast<float>(choices.below(8)) / 4;
  std::vector<std::int64_t> slots(64);
  std::iota(slots.begin(), slots.end(), choices.below(4) - 1);
  Slots by = choices.below(4) == 0 ? Slots::rows(choices.below(4) - 1) : Slots::flat(slots.data());
  if (choices.below(16) == 0) by = {};
  const Table table = tests::table_of(call.table);
  return tests::outcome_of([&] {
    call.operation == RandomCall::one ? append(k, v, cache, by)
                                      : rotate_append(q, q_out, k, v, table, cache, by, {.direction = call.direction});
  });
}

void one(const std::string& input) {
  using Calls = tests::RandomCalls<Choices>;
  static std::vector<std::byte> memory(Calls::memory_bytes);
  Choices choices(input);
  Calls calls(choices, memory.data());
  for (int n = 0; n < 8 && !choices.rest().empty(); ++n) {
    const tests::RandomCall call = calls.next();
    for (const tests::Outcome& outcome : {tests::make_call(call), tests::checked(call)}) {
      if (!outcome.refused) continue;
      require_refusal(outcome.code, outcome.sentence, "[" + call.name() + "] ",
                      {"SHAPE", "DTYPE", "ALIAS", "VALUE", "PAIRING"});
    }
    const tests::Outcome outcome = appended(call, choices, memory.data());
    const std::string operation = call.operation == tests::RandomCall::one ? "[append] " : "[rotate_append] ";
    if (outcome.refused) {
      require_refusal(outcome.code, outcome.sentence, operation, {"SHAPE", "DTYPE", "ALIAS", "VALUE", "PAIRING"});
    }
  }
}

}  // namespace rotary::fuzz
