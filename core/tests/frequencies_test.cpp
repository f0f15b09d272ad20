// frequencies(): laws and errors. The values: frequencies_exact_test.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/tests/support/checks.h"

namespace rotary {
namespace {

Rope rope_of(int head_dim, double base, const Scaling& scaling = Unscaled{}) {
  return {.head_dim = head_dim, .base = base, .pairing = Pairing::half, .scaling = scaling};
}

Yarn yarn(double factor, std::int64_t trained_length, bool truncate = true) {
  return {.factor = factor, .trained_length = trained_length, .truncate = truncate};
}

std::vector<double> inv_freq(const Rope& rope, std::int64_t length = 0) { return frequencies(rope, length).inv_freq; }

Rope given(std::vector<double> inv_freq, std::vector<double> multiplier = {}) {
  const int pairs = static_cast<int>(std::max(inv_freq.size(), multiplier.size()));
  return {.head_dim = 2 * pairs,
          .pairing = Pairing::half,
          .inv_freq = std::move(inv_freq),
          .multiplier = std::move(multiplier)};
}

// ---- laws ----

// The factor and the factor minus one are then the same float32, and the resulting base of 0 is no base.
TEST(FrequencyLaws, AFactorOrBaseBeyondFloat32HasNoFrameworksValues) {
  for (const double factor : {3.6e7, 0x1p31, 1e15}) {
    const Rope rope = rope_of(64, 1e4, Dynamic{factor, 1024});
    EXPECT_EQ(inv_freq(rope, 1024), inv_freq(rope_of(64, 1e4)));
    EXPECT_EQ(frequencies(rope, 1024).inv_freq_float32, frequencies(rope_of(64, 1e4)).inv_freq_float32);
    EXPECT_LT(inv_freq(rope, 1025)[31], inv_freq(rope, 1024)[31]);
  }
  EXPECT_TRUE(frequencies(rope_of(8, 1e4, Dynamic{0x1p60, 1 << 24}), (1 << 24) + 1).inv_freq_float32.empty());
  EXPECT_TRUE(frequencies(rope_of(8, 1e40)).inv_freq_float32.empty());
  EXPECT_EQ(inv_freq(rope_of(8, 1e40)).size(), 4u);
}

TEST(FrequencyLaws, TheCallersRoundingModeHasNoEffect) {
  const Rope rope = rope_of(128, 1e6, yarn(3, 32768));
  const Frequencies expected = frequencies(rope);
  for (const int mode : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    const Frequencies f = frequencies(rope);
    EXPECT_EQ(std::fegetround(), mode);
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(f.inv_freq, expected.inv_freq);
    EXPECT_EQ(f.inv_freq_float32, expected.inv_freq_float32);
    EXPECT_EQ(f.attention_factor, expected.attention_factor);
  }
}

TEST(FrequencyLaws, NamesAreThePublishedOnesAndUnique) {
  const std::pair<Scaling, const char*> names[] = {
      {Unscaled{}, "default"},   {Linear{}, "linear"},         {Ntk{}, "ntk"},
      {NtkFixed{}, "ntk_fixed"}, {Dynamic{}, "dynamic"},       {Yarn{}, "yarn"},
      {LongRope{}, "longrope"},  {Llama3{}, "llama3"},         {Proportional{}, "proportional"},
      {YarnLog{}, "yarn_log"},   {ThetaScale{}, "theta_scale"}};
  std::set<std::string> unique;
  for (const auto& [scaling, expected] : names) {
    EXPECT_STREQ(name(scaling), expected);
    EXPECT_EQ(parse_scaling(expected), scaling);  // with its default values
    unique.insert(name(scaling));
  }
  EXPECT_EQ(unique.size(), std::variant_size_v<Scaling>);
}

TEST(FrequencyLaws, ValuesOfAScalingAreReadAndSetByNameAndMakeItEqual) {
  Scaling scaling = Llama3{.factor = 8, .trained_length = 8192};
  std::string names;
  for (const ScalingValue& one : values_of(scaling)) {
    names += std::string(one.name) + " ";
    if (std::string_view(one.name) == "trained_length") *std::get<std::int64_t*>(one.value) = 4096;
    if (std::string_view(one.name) == "high") {
      EXPECT_EQ(*std::get<double*>(one.value), 4);
    }
  }
  EXPECT_EQ(names, "factor trained_length low high ");
  EXPECT_EQ(scaling, Scaling(Llama3{.factor = 8, .trained_length = 4096}));
  Scaling unscaled;
  EXPECT_TRUE(values_of(unscaled).empty());
  EXPECT_EQ(rope_of(4, 1e4, yarn(4, 4096)), rope_of(4, 1e4, yarn(4, 4096)));
  EXPECT_NE(Scaling(yarn(4, 4096)), Scaling(yarn(4, 8192)));
  EXPECT_NE(Scaling(Linear{2}), Scaling(Ntk{2}));
  EXPECT_NE(given({1, 2}), given({1, 3}));
}

TEST(FrequencyLaws, Llama3DividesAWavelengthAtBothOfItsLimits) {
  const double limit = 1 / static_cast<double>(static_cast<float>(2 * std::numbers::pi));
  EXPECT_EQ(frequencies(rope_of(4, 1e4, Llama3{8, 1, limit, limit})).inv_freq_float32[0], 0.125F);
}

TEST(FrequencyLaws, ValuesThatNobodyCheckedHaveACountOfPairs) {
  EXPECT_EQ((Frequencies{.inv_freq = {1, 2}, .head_rows = 0}.pairs()), 2);
}

// ---- frequencies and multipliers that the rope gives ----

TEST(GivenFrequencies, StandForBaseAndScalingOfWhichTheAttentionFactorStays) {
  Rope rope = given({0.5, 0, -0.25, 0.0078125});
  rope.scaling = yarn(8, 4096);
  const Frequencies f = frequencies(rope);
  EXPECT_EQ(f.inv_freq, rope.inv_freq);
  EXPECT_EQ(f.inv_freq_float32, (std::vector<float>{0.5F, 0, -0.25F, 0.0078125F}));
  EXPECT_EQ(f.attention_factor, 1.2079441541679836);  // 0.1 ln 8 + 1
  rope.base = 77;
  EXPECT_EQ(inv_freq(rope), rope.inv_freq);
}

TEST(GivenFrequencies, OutsideFloat32AreExactOnly) {
  const Frequencies f = frequencies(given({1e300, 1}));
  EXPECT_TRUE(f.inv_freq_float32.empty());
  EXPECT_NO_THROW(Table(f, 1));
  tests::expect_error_with("SCALING", "finite in float32", [&] { Table(f, 1, Angles::float32); });
}

TEST(Multiplier, MultipliesWhatBaseAndScalingGive) {
  const std::vector<double> multiplier = {1.25, 0.75, -0.5, 0};
  Rope rope = given({}, multiplier);
  rope.base = 500000;
  rope.scaling = Linear{4};
  const Frequencies f = frequencies(rope);
  EXPECT_EQ(f.inv_freq, (std::vector<double>{0x1.4p-2, 0x1.ce1a582f0f768p-8, -0x1.72ba43fff3717p-13, 0}));
  rope.multiplier.clear();
  const Frequencies plain = frequencies(rope);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(f.inv_freq_float32.at(i), plain.inv_freq_float32.at(i) * static_cast<float>(multiplier[i]));
  EXPECT_EQ(inv_freq(given({0.5, 3}, {4, 0.25})), (std::vector<double>{2, 0.75}));
}

// ---- errors ----

std::string error_of(const Rope& rope, std::int64_t length = 0) {
  return tests::outcome_of([&] { frequencies(rope, length); }).text();
}

constexpr double infinity = std::numeric_limits<double>::infinity();

TEST(FrequencyErrors, BasesOfOneOrLessSayWhatTheyWouldDo) {
  EXPECT_EQ(error_of(rope_of(64, 1)),
            "SCALING: [frequencies] base must be finite and above 1 (at 1 all pairs would turn at the same speed, "
            "below 1 ever faster along the head) but got 1");
  for (const double base : {0.5, 0.0, -10000.0, infinity, std::nan("")}) {
    EXPECT_TRUE(error_of(rope_of(64, base)).starts_with("SCALING: [frequencies] base")) << base;
  }
}

TEST(FrequencyErrors, FactorsBelowOneSayWhatTheyWouldDo) {
  EXPECT_EQ(error_of(rope_of(64, 1e4, Linear{0.5})),
            "SCALING: [frequencies] linear factor must be finite and at least 1 (below 1 it would turn the pairs "
            "faster, which shortens the context instead of extending it) but got 0.5");
  for (const double factor : {0.999, 0.0, -4.0, infinity, std::nan("")}) {
    for (const Scaling& s : std::vector<Scaling>{
             Linear{factor}, Ntk{factor}, NtkFixed{factor, {}}, Dynamic{factor, 1}, yarn(factor, 4096),
             Llama3{factor, 8192, 1, 4}, Proportional{1, factor}, YarnLog{factor, 4096}, ThetaScale{factor, 4096}}) {
      const std::string start = std::string("SCALING: [frequencies] ") + name(s) + " factor must be";
      EXPECT_TRUE(error_of(rope_of(4, 1e4, s)).starts_with(start)) << error_of(rope_of(4, 1e4, s));
    }
  }
}

TEST(FrequencyErrors, AScalingThatIsUnknownIsToldAllNames) {
  for (const std::string word : {"", "NTK", "ntk-fixed", "none"}) {
    tests::expect_error("SCALING",
                        "[parse_scaling] a scaling must be default, linear, ntk, ntk_fixed, dynamic, yarn, longrope, "
                        "llama3, proportional, yarn_log or theta_scale but got '" +
                            word + "'",
                        [&] { parse_scaling(word); });
  }
}

// transformers: factor <= 1 makes an attention factor of 1; the pairs turn by short_factor and long_factor alone.
TEST(FrequencyErrors, TheFactorOfLongropeIsAnAmplitudeAndMayBeBelowOne) {
  const auto longrope = [](double factor) { return LongRope{{1, 2}, {1, 1}, 1, factor, {}, {}, {}}; };
  const Frequencies f = frequencies(rope_of(4, 1e4, longrope(0.5)), 0);
  EXPECT_EQ(f.attention_factor, 1);
  EXPECT_EQ(f.inv_freq, (std::vector<double>{1, 0.005}));
  LongRope least = longrope(2);
  least.trained_length = 2;
  EXPECT_EQ(frequencies(rope_of(4, 1e4, least), 2).attention_factor, std::sqrt(2.0));
  for (const double factor : {0.0, -4.0, infinity, std::nan("")}) {
    EXPECT_TRUE(error_of(rope_of(4, 1e4, longrope(factor))).starts_with("SCALING: [frequencies] longrope factor must"));
  }
}

TEST(FrequencyErrors, ParametersAreChecked) {
  const auto expect = [](const Scaling& s, const std::string& rule) {
    EXPECT_EQ(error_of(rope_of(4, 1e4, s)), "SCALING: [frequencies] " + rule);
  };
  expect(Dynamic{2, 0}, "dynamic trained_length must be above 0 but got 0");
  expect(yarn(2, -1), "yarn trained_length must be above 0 but got -1");
  const auto of_yarn = [&](double Yarn::*field, double value, const std::string& rule) {
    Yarn s = yarn(2, 4096);
    s.*field = value;
    expect(s, "yarn " + rule);
  };
  of_yarn(&Yarn::beta_fast, 0, "beta_fast must be finite and above 0 but got 0");
  of_yarn(&Yarn::beta_fast, 2e100, "beta_fast must be from 1e-100 to 1e100 but got 2e+100");
  of_yarn(&Yarn::beta_slow, 9e-101, "beta_slow must be from 1e-100 to 1e100 but got 9e-101");
  of_yarn(&Yarn::extrapolation_factor, 1.5, "extrapolation_factor must be in [0, 1] but got 1.5");
  expect(Yarn{.factor = 2, .trained_length = 4096, .attention_factor = -1},
         "yarn attention_factor must be finite and at least 0 but got -1");
  LongRope l{{1, 1}, {1, 1, 1}, 4096, 1, {}, {}, {}};
  expect(l, "longrope long_factor must have one entry per pair, 2, but got 3");
  l.long_factor = {1, 0};
  expect(l, "longrope long_factor[1] must be finite and above 0 but got 0");
  l = LongRope{{1, 1}, {1, 1}, 1, 32, {}, {}, {}};
  expect(l, "longrope trained_length must be above 1 (the attention factor divides by its logarithm) but got 1");
  expect(Llama3{8, 8192, 4, 1}, "llama3 high must be at least low (4) but got 1");
  expect(Llama3{8, 8192, 0, 4}, "llama3 low must be finite and above 0 but got 0");
  of_yarn(&Yarn::beta_fast, 0.5, "beta_fast must be at least beta_slow (1) but got 0.5");
  expect(YarnLog{2, 4096, 1, 32}, "yarn_log beta_fast must be at least beta_slow (32) but got 1");
  expect(YarnLog{2, 0}, "yarn_log trained_length must be above 0 but got 0");
  expect(ThetaScale{2, 6},
         "theta_scale trained_length must be above 2 pi (the exponent of the base divides by its logarithm) but got 6");
  expect(Proportional{0}, "proportional fraction must be in (0, 1] but got 0");
  expect(Proportional{1.25}, "proportional fraction must be in (0, 1] but got 1.25");
  EXPECT_EQ(error_of(rope_of(2, 1e4, Ntk{8})),
            "SCALING: [frequencies] ntk needs an exponent_dim above 2 (the base grows with the power r / (r - 2)) but "
            "got 2");
  EXPECT_TRUE(error_of(rope_of(2, 1e4, Dynamic{8, 2048})).starts_with("SCALING: [frequencies] dynamic needs"));
  EXPECT_EQ(error_of(given({1, std::nan("")})), "SCALING: [frequencies] inv_freq[1] must be finite but got nan");
  EXPECT_EQ(error_of(given({}, {infinity, 1})), "SCALING: [frequencies] multiplier[0] must be finite but got inf");
  EXPECT_TRUE(error_of(given({1e300, 1}, {1e300, 1}))
                  .starts_with("SCALING: [frequencies] every inv_freq must be finite but pair 0"));
}

TEST(FrequencyErrors, ValuesAtTheirLimitsAreTaken) {
  Yarn widest = yarn(1, 1);
  widest.beta_fast = 1e100, widest.beta_slow = 1e-100, widest.extrapolation_factor = 0, widest.attention_factor = 0;
  const std::vector<Scaling> all = {widest,
                                    Linear{1},
                                    Llama3{1, 1, 1, 1},
                                    ThetaScale{1, 7},
                                    Proportional{1},
                                    Dynamic{1, 1},
                                    LongRope{{1, 1}, {1, 1}, 1, 1, {}, {}, {}}};
  for (const Scaling& scaling : all) EXPECT_NO_THROW(frequencies(rope_of(4, 1 + 1e-15, scaling), 0)) << name(scaling);
  EXPECT_EQ(inv_freq({.head_dim = 1 << 20, .rotary_dim = 2, .pairing = Pairing::half, .exponent_dim = 1}).size(), 1U);
  EXPECT_EQ(inv_freq({.head_dim = 4, .base = 8, .pairing = Pairing::half, .scaling = Ntk{2}, .exponent_dim = 3})[1],
            0.0625);  // (8 * 2^3)^(-2/3)
  const Rope kept = rope_of(4, 1e20, yarn(1e300, std::int64_t{1} << 62));
  EXPECT_EQ(inv_freq(kept)[1], 1e-10);  // it turns often enough, however large the factor
  EXPECT_EQ(error_of(rope_of((1 << 20) + 1, 2)),
            "SHAPE: [frequencies] head_dim must be from 1 to 2^20 but got 1048577");
  EXPECT_EQ(error_of(rope_of(1, 2)), "SHAPE: [frequencies] rotary_dim must be in [2, head_dim = 1] but got 1");
}

TEST(FrequencyErrors, ShapesAreChecked) {
  const auto expect = [](auto change, const std::string& rule) {
    Rope rope = rope_of(8, 1e4);
    change(rope);
    EXPECT_EQ(error_of(rope), "SHAPE: [frequencies] " + rule);
  };
  expect([](Rope& r) { r.head_dim = 0; }, "head_dim must be from 1 to 2^20 but got 0");
  expect([](Rope& r) { r.head_dim = 7; }, "rotary_dim must be even (two elements turn together) but got 7");
  expect([](Rope& r) { r.rotary_dim = 10; }, "rotary_dim must be in [2, head_dim = 8] but got 10");
  expect([](Rope& r) { r.rotary_dim = -2; }, "rotary_dim must be in [2, head_dim = 8] but got -2");
  expect([](Rope& r) { r.exponent_dim = -1; }, "exponent_dim must be at least 1, or 0 for rotary_dim, but got -1");
  expect([](Rope& r) { r.axis = {0, 1}; }, "axis must be empty or have one entry per pair, 4, but got 2");
  expect([](Rope& r) { r.inv_freq = {1, 2}; }, "inv_freq must be empty or have one entry per pair, 4, but got 2");
  expect(
      [](Rope& r) {
        r.multiplier = {1, 2, 3, 4, 5};
      },
      "multiplier must be empty or have one entry per pair, 4, but got 5");
  expect([](Rope& r) { r.index = {0, 1, 2, 3, 4}; }, "index must be empty or have one entry per pair, 4, but got 5");
  expect([](Rope& r) { r.index = {0, 1, 2, -3}; }, "every index must be at least 0 but got -3");
  EXPECT_EQ(error_of(rope_of(8, 1e4), -1), "SHAPE: [frequencies] length must be at least 0 but got -1");
}

}  // namespace
}  // namespace rotary
