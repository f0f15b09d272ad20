// Every call that the checks refuse breaks a rule that has a sentence: INTERNAL is never seen.
#include <gtest/gtest.h>

#include <map>

#include "tests/support/heads.h"
#include "tests/support/random_calls.h"

namespace rotary::tests {
namespace {

struct Dice {
  Random random;
  int below(int bound) { return tests::below(random, bound); }
};

using Judge = Outcome (*)(const RandomCall&);

// How often each code was given; "none": the call was let through.
std::map<std::string, int> counts(std::uint64_t seed, int calls, Judge judge) {
  std::vector<std::byte> memory(RandomCalls<Dice>::memory_bytes);
  Dice dice{Random(seed)};
  RandomCalls random(dice, memory.data());
  std::map<std::string, int> counted;
  for (int n = 0; n < calls; ++n) {
    const RandomCall call = random.next();
    const Outcome outcome = judge(call);
    ++counted[outcome.refused ? name(outcome.code) : "none"];
    if (!outcome.refused) continue;
    EXPECT_NE(outcome.code, Code::INTERNAL) << "call " << n << ": " << outcome.sentence;
    EXPECT_TRUE(outcome.sentence.starts_with("[" + call.name() + "] ")) << outcome.sentence;
    if (::testing::Test::HasFailure()) break;
  }
  return counted;
}

void expect_each(std::map<std::string, int> counted, int calls, std::initializer_list<const char*> codes) {
  EXPECT_GT(counted["none"], calls / 8) << "too few calls were sound";
  int seen = counted["none"];
  for (const char* code : codes) {
    EXPECT_GT(counted[code], calls / 2000) << code;
    seen += counted[code];
  }
  EXPECT_EQ(seen, calls) << "other codes than those";
}

TEST(Refusals, AnyCallIsMadeOrBreaksARuleThatIsNamed) {
  constexpr int calls = 100000;
  expect_each(counts(1, calls, made), calls, {"SHAPE", "DTYPE", "ALIAS", "VALUE"});
}

TEST(Refusals, AnyCallByRowsElsewhereIsLetThroughOrBreaksARuleThatIsNamed) {
  constexpr int calls = 100000;
  expect_each(counts(2, calls, checked), calls, {"SHAPE", "DTYPE", "ALIAS", "VALUE", "PAIRING"});
}

}  // namespace
}  // namespace rotary::tests
