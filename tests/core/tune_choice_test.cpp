// What bench/tune.cpp says of its measurements.
#include "bench/tune_choice.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

using namespace rotary::measured;

namespace {

// Nine rounds of one case whose times are `seconds`, and every second round `slow` times as much.
Rounds rounds_of(const std::vector<double>& seconds, double slow) {
  Rounds rounds(9, seconds);
  for (std::size_t round = 0; round < rounds.size(); round += 2) {
    for (double& each : rounds[round]) each *= slow;
  }
  return rounds;
}

TEST(TuneChoice, ASlowMomentThatHitsAllValuesChangesNothing) {
  const Choice choice = choose("c", "bytes", {0, 1024, 4096}, 1024, {rounds_of({3.0, 2.0, 1.5}, 10)});
  EXPECT_EQ(choice.values[choice.best], 4096);
  EXPECT_NEAR(choice.percent[0], 50, 1e-9);
  EXPECT_NEAR(choice.gain_percent(), 25, 1e-9);
  EXPECT_FALSE(choice.within_noise());
  EXPECT_EQ(sentence(choice), "c                  built in 1 KiB, best 4 KiB, 25.0 % faster: more than noise (1.0 %)");
  EXPECT_EQ(details(choice), "  0 +50.0 %, 1 KiB built in, 4 KiB -25.0 %");
}

TEST(TuneChoice, CasesCountAlike) {  // 2 times slower in one and 2 times faster in the other: no gain
  const Choice choice = choose("c", "heads", {1, 4}, 4, {rounds_of({2, 1}, 1), rounds_of({50, 100}, 1)});
  EXPECT_NEAR(choice.percent[0], 0, 1e-9);
  EXPECT_TRUE(choice.within_noise());
}

TEST(TuneChoice, TheBuiltInValueWinsATie) {
  const Choice choice = choose("c", "heads", {1, 2, 4}, 4, {rounds_of({1, 1, 1}, 3)});
  EXPECT_EQ(choice.best, choice.built_in);
  EXPECT_EQ(sentence(choice), "c                  built in 4, which is the best");
}

TEST(TuneChoice, AGainSmallerThanItsSpreadIsNoise) {
  Rounds rounds(9, {1.0, 1.0});
  for (std::size_t round = 0; round < 9; ++round)
    rounds[round][0] = 0.90 + 0.02 * static_cast<double>(round);  // to 1.06
  const Choice choice = choose("c", "bytes", {0, INT64_MAX}, INT64_MAX, {rounds});
  EXPECT_NEAR(choice.gain_percent(), 2, 1e-6);
  EXPECT_NEAR(choice.noise_percent, 8, 1e-6);
  EXPECT_TRUE(choice.within_noise());
  EXPECT_EQ(json_of(choice),
            "{\"constant\":\"c\",\"unit\":\"bytes\",\"built_in\":null,\"best\":0,\"gain_percent\":2.000,"
            "\"noise_percent\":8.000,\"within_noise\":true,\"values\":[[0,-2.000],[null,0.000]]}");
}

TEST(TuneChoice, Words) {
  EXPECT_EQ(text_of(1179648, "bytes"), "1.125 MiB");
  EXPECT_EQ(text_of(512, "bytes"), "0.5 KiB");
  EXPECT_EQ(text_of(INT64_MAX, "bytes"), "never");
  EXPECT_EQ(text_of(8, "heads"), "8");
}

}  // namespace
