// Random calls, valid and invalid: each succeeds, or is refused in one sentence that names the rule.
#include "fuzz.h"
#include "tests/support/random_calls.h"

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

void one(const std::string& input) {
  using Calls = tests::RandomCalls<Choices>;
  static std::vector<std::byte> memory(Calls::memory_bytes);
  Choices choices(input);
  Calls calls(choices, memory.data());
  for (int n = 0; n < 8 && !choices.rest().empty(); ++n) {
    const tests::RandomCall call = calls.next();
    for (const tests::Outcome& outcome : {tests::made(call), tests::checked(call)}) {
      if (!outcome.refused) continue;
      require_refusal(Error(outcome.code, outcome.sentence), "[" + call.name() + "] ",
                      {"SHAPE", "DTYPE", "ALIAS", "VALUE", "PAIRING"});
    }
  }
}

}  // namespace rotary::fuzz
