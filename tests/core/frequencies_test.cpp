// frequencies(): published check values (computed with mpmath at 300 bits and written out), laws, errors.
#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "rotary/rotary.h"
#include "values/scalings.h"

namespace rotary {
namespace {

Rope rope_of(int head_dim, double base, const Scaling& scaling = Unscaled{}) {
  return {.head_dim = head_dim, .base = base, .pairing = Pairing::half, .scaling = scaling};
}

Yarn yarn(double factor, std::int64_t trained_length, bool truncate = true) {
  return {.factor = factor, .trained_length = trained_length, .truncate = truncate};
}

std::vector<double> inv_freq(const Rope& rope, std::int64_t length = 0) { return frequencies(rope, length).inv_freq; }

// b' of a rope whose frequencies are b'^(-2i/r).
double effective_base(const Rope& rope, std::int64_t length = 0) {
  return std::pow(inv_freq(rope, length)[1], -rope.head_dim / 2.0);
}

// ---- published check values ----

struct YarnCase {
  const char* model;
  int r;
  double base;
  Yarn scaling;
  double low;
  double high;
  std::vector<std::pair<std::size_t, double>> inv_freq;
  double attention_factor;
};

TEST(FrequencyValues, YarnModelsHaveTheirPublishedRangeAndFrequencies) {
  Yarn deepseek = yarn(40, 4096);
  deepseek.mscale = deepseek.mscale_all_dim = 1;
  Yarn mistral = yarn(16, 16384);
  mistral.mscale = mistral.mscale_all_dim = 1;
  const double a32 = 1.3465735902799727;
  const YarnCase cases[] = {
      {"Qwen 128k",
       128,
       1e6,
       yarn(4, 32768),
       23,
       40,
       {{32, 0.0006029411764705882}, {63, 3.102344401879299e-07}},
       1.138629436111989},
      {"DeepSeek-V3", 64, 1e4, deepseek, 10, 23, {{16, 0.0055}, {31, 3.33380358040831e-06}}, 1},
      {"gpt-oss",
       64,
       150000,
       yarn(32, 4096, false),
       8.092779116,
       17.398024502,
       {{9, 0.03170569618466377}, {12, 0.006794959489732218}, {16, 0.00045648391922324016}},
       a32},
      {"gpt-oss, truncated", 64, 150000, yarn(32, 4096), 8, 18, {{12, 0.007015713910504388}}, a32},
      {"Ministral 3", 128, 1e6, mistral, 20, 37, {{32, 0.00033823529411764706}}, 1},
      {"Mistral 4", 64, 1e4, yarn(128, 8192), 12, 25, {{16, 0.006947115384615385}}, 1 + 0.1 * std::log(128.0)},
  };
  for (const YarnCase& c : cases) {
    SCOPED_TRACE(c.model);
    const auto range = scalings::correction_range<scalings::Exact>(c.scaling, {c.base, c.r, {}, 0});
    EXPECT_NEAR(range.low.hi, c.low, 5e-10);
    EXPECT_NEAR(range.high.hi, c.high, 5e-10);
    const Frequencies f = frequencies(rope_of(c.r, c.base, c.scaling));
    for (const auto& [k, expected] : c.inv_freq) {
      EXPECT_EQ(f.inv_freq[k], expected) << "pair " << k;
    }
    EXPECT_DOUBLE_EQ(f.attention_factor, c.attention_factor);
  }
}

TEST(FrequencyValues, YarnCorrectionDimensionsBeforeTruncation) {
  const auto q = scalings::correction_range<scalings::Exact>(yarn(4, 32768, false), {1e6, 128, {}, 0});
  EXPECT_NEAR(q.low.hi, 23.595948, 5e-7);
  EXPECT_NEAR(q.high.hi, 39.650881, 5e-7);
  const auto deepseek = scalings::correction_range<scalings::Exact>(yarn(40, 4096, false), {1e4, 64, {}, 0});
  EXPECT_NEAR(deepseek.low.hi, 10.472241, 5e-7);
  EXPECT_NEAR(deepseek.high.hi, 22.513441, 5e-7);
}

TEST(FrequencyValues, Llama31KeepsBlendsAndStretches) {
  const std::vector<double> kept = inv_freq(rope_of(128, 5e5));
  const std::vector<double> w = inv_freq(rope_of(128, 5e5, Llama3{8, 8192, 1, 4}));
  for (std::size_t k = 0; k < 64; ++k) {
    if (k <= 28) {
      EXPECT_EQ(w[k], kept[k]) << k;
    } else if (k >= 35) {
      EXPECT_EQ(w[k], kept[k] / 8) << k;
    } else {
      EXPECT_LT(w[k], kept[k]) << k;
      EXPECT_GT(w[k], kept[k] / 8) << k;
    }
  }
  EXPECT_EQ(w[29], 0.0021665707635033587);
  EXPECT_EQ(w[32], 0.0005248461609929547);
  EXPECT_EQ(w[35], 9.556212353964683e-05);
  EXPECT_EQ(w[63], 3.068925988914511e-07);
}

TEST(FrequencyValues, DynamicAndNtkBases) {
  const Rope dynamic = rope_of(128, 1e4, Dynamic{2, 2048});
  EXPECT_NEAR(effective_base(dynamic, 4096), 30527.7367488067, 1e-7);
  EXPECT_NEAR(effective_base(dynamic, 8192), 72195.86008650939, 1e-7);
  EXPECT_NEAR(effective_base(rope_of(128, 1e4, Ntk{8})), 82684.62264056221, 1e-7);
  EXPECT_NEAR(effective_base(rope_of(128, 1e4, Ntk{1000})), 11158839.925077485, 1e-5);  // Hunyuan
}

TEST(FrequencyValues, Gemma4TurnsAQuarterOfThePairsOverTheWholeHead) {
  const std::vector<double> w = inv_freq(rope_of(512, 1e6, Proportional{0.25}));
  ASSERT_EQ(w.size(), 256u);
  EXPECT_EQ(w[63], 0.033376246942920386);
  for (std::size_t k = 64; k < 256; ++k) {
    EXPECT_EQ(w[k], 0);
  }
}

TEST(FrequencyValues, AttentionFactors) {
  LongRope phi;
  phi.factor = 32;
  phi.trained_length = 4096;
  phi.short_factor = phi.long_factor = {1, 1};
  EXPECT_EQ(frequencies(rope_of(4, 1e4, phi), 0).attention_factor, 1.1902380714238083);
  phi.attention_factor = 1.25;
  EXPECT_EQ(frequencies(rope_of(4, 1e4, phi), 0).attention_factor, 1.25);
  phi.short_mscale = 1.5;
  phi.long_mscale = 1.75;
  EXPECT_EQ(frequencies(rope_of(4, 1e4, phi), 4096).attention_factor, 1.5);
  EXPECT_EQ(frequencies(rope_of(4, 1e4, phi), 4097).attention_factor, 1.75);

  Yarn s = yarn(32, 4096);
  s.mscale = 0.707;  // without mscale_all_dim it has no effect
  EXPECT_EQ(frequencies(rope_of(64, 1e4, s)).attention_factor, 1.3465735902799727);
  s.mscale_all_dim = 0;
  EXPECT_EQ(frequencies(rope_of(64, 1e4, s)).attention_factor, 1.3465735902799727);
  s.mscale_ratio = true;  // DeepSeek's own code: M(0.707) / M(0)
  EXPECT_DOUBLE_EQ(frequencies(rope_of(64, 1e4, s)).attention_factor, 1 + 0.0707 * std::log(32.0));
  s.magnitude = 0.07;  // telechat3
  EXPECT_DOUBLE_EQ(frequencies(rope_of(64, 1e4, s)).attention_factor, 1 + 0.07 * 0.707 * std::log(32.0));
  s.attention_factor = 1.25;  // replaces, and attn_factor multiplies
  s.attn_factor = 2;
  EXPECT_EQ(frequencies(rope_of(64, 1e4, s)).attention_factor, 2.5);
}

// ---- laws ----

TEST(FrequencyLaws, AFactorOfOneChangesNothing) {
  const std::vector<double> plain = inv_freq(rope_of(96, 5e5));
  const LongRope ones{std::vector<double>(48, 1), std::vector<double>(48, 1), 4096, 1, {}, {}, {}};
  for (const Scaling& s : std::vector<Scaling>{Linear{1}, Ntk{1}, NtkFixed{1, {}}, NtkFixed{1, 0.75}, yarn(1, 4096),
                                               ones, Llama3{1, 8192, 1, 4}, Proportional{1, 1}}) {
    const Frequencies f = frequencies(rope_of(96, 5e5, s), 100000);
    EXPECT_EQ(f.inv_freq, plain) << name(s) << " " << s.index();
    EXPECT_EQ(f.attention_factor, 1) << name(s);
  }
}

TEST(FrequencyLaws, DynamicIsPlainUpToTheTrainedLength) {
  const Rope rope = rope_of(64, 1e4, Dynamic{4, 2048});
  EXPECT_EQ(inv_freq(rope, 0), inv_freq(rope_of(64, 1e4)));
  EXPECT_EQ(inv_freq(rope, 2048), inv_freq(rope_of(64, 1e4)));
  EXPECT_LT(inv_freq(rope, 2049)[31], inv_freq(rope_of(64, 1e4))[31]);
}

TEST(FrequencyLaws, YarnLiesBetweenStretchedAndPlain) {
  const std::vector<double> plain = inv_freq(rope_of(128, 1e6));
  Yarn s = yarn(4, 32768);
  const std::vector<double> w = inv_freq(rope_of(128, 1e6, s));
  s.extrapolation_factor = 0;  // nothing of the plain ones is left: position interpolation
  const std::vector<double> stretched = inv_freq(rope_of(128, 1e6, s));
  for (std::size_t k = 0; k < 64; ++k) {
    EXPECT_LE(w[k], plain[k]);
    EXPECT_GE(w[k], plain[k] / 4);
    EXPECT_EQ(w[k] == plain[k], k <= 23) << k;
    EXPECT_EQ(w[k] == plain[k] / 4, k >= 40) << k;
    EXPECT_EQ(stretched[k], plain[k] / 4);
  }
}

TEST(FrequencyLaws, NtkKeepsTheFirstPairAndStretchesTheLastByTheFactor) {
  const std::vector<double> plain = inv_freq(rope_of(128, 1e4));
  const std::vector<double> w = inv_freq(rope_of(128, 1e4, Ntk{8}));
  EXPECT_EQ(w[0], 1);
  EXPECT_DOUBLE_EQ(w[63], plain[63] / 8);
  EXPECT_DOUBLE_EQ(inv_freq(rope_of(128, 1e4, NtkFixed{8, {}}))[63], plain[63] / 8);
  EXPECT_DOUBLE_EQ(inv_freq(rope_of(128, 1e4, NtkFixed{8, 0.75}))[63], plain[63] / 8);
}

TEST(FrequencyLaws, LongRopeSwitchesStrictlyAboveTheTrainedLength) {
  LongRope s;
  s.trained_length = 4096;
  s.short_factor = {2, 2};
  s.long_factor = {4, 8};
  const Rope rope = rope_of(4, 1e4, s);
  EXPECT_EQ(inv_freq(rope, 0), (std::vector<double>{0.5, 0.005}));
  EXPECT_EQ(inv_freq(rope, 4096), (std::vector<double>{0.5, 0.005}));
  EXPECT_EQ(inv_freq(rope, 4097), (std::vector<double>{0.25, 0.00125}));
}

TEST(FrequencyLaws, EqualLlama3FactorsLeaveAStepWithoutABlend) {
  const std::vector<double> plain = inv_freq(rope_of(128, 5e5));
  const std::vector<double> w = inv_freq(rope_of(128, 5e5, Llama3{8, 8192, 1, 1}));
  for (std::size_t k = 0; k < 64; ++k) {
    EXPECT_EQ(w[k], 8192 * plain[k] > 2 * 3.141592653589793 ? plain[k] : plain[k] / 8);
  }
}

TEST(FrequencyLaws, AnIndexPicksFromTheSameRunOfFrequencies) {
  const std::vector<double> plain = inv_freq(rope_of(64, 1e4));
  Rope pixtral = rope_of(64, 1e4);  // rows take the even, columns the odd frequencies
  for (int k = 0; k < 32; ++k) {
    pixtral.index.push_back(k < 16 ? 2 * k : 2 * (k - 16) + 1);
    pixtral.axis.push_back(k < 16 ? 0 : 1);
  }
  const Frequencies f = frequencies(pixtral);
  for (std::size_t k = 0; k < 32; ++k) {
    EXPECT_EQ(f.inv_freq[k], plain[static_cast<std::size_t>(pixtral.index[k])]);
  }
  EXPECT_EQ(f.axis, pixtral.axis);
}

TEST(FrequencyLaws, TheExponentDenominatorMayBeOdd) {
  Rope rope = rope_of(80, 1e4);  // 0.32 of 80 elements are 25: 13 pairs
  rope.rotary_dim = 26;
  rope.exponent_dim = 25;
  const std::vector<double> w = inv_freq(rope);
  ASSERT_EQ(w.size(), 13u);
  EXPECT_DOUBLE_EQ(w[12], std::pow(1e4, -24.0 / 25));
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
      {Unscaled{}, "default"},   {Linear{}, "linear"},   {Ntk{}, "ntk"},
      {NtkFixed{}, "ntk_fixed"}, {Dynamic{}, "dynamic"}, {Yarn{}, "yarn"},
      {LongRope{}, "longrope"},  {Llama3{}, "llama3"},   {Proportional{}, "proportional"}};
  std::set<std::string> unique;
  for (const auto& [scaling, expected] : names) {
    EXPECT_STREQ(name(scaling), expected);
    EXPECT_EQ(parse_scaling(expected), scaling);  // with its default values
    unique.insert(name(scaling));
  }
  EXPECT_EQ(unique.size(), std::variant_size_v<Scaling>);
}

TEST(FrequencyLaws, ScalingsAreEqualWhereTheirValuesAre) {
  EXPECT_EQ(Scaling(yarn(4, 4096)), Scaling(yarn(4, 4096)));
  EXPECT_NE(Scaling(yarn(4, 4096)), Scaling(yarn(4, 8192)));
  EXPECT_NE(Scaling(Linear{2}), Scaling(Ntk{2}));
  Rope a = rope_of(4, 1e4, Linear{2});
  const Rope b = a;
  EXPECT_EQ(a, b);
  a.inv_freq = {1, 2};
  EXPECT_NE(a, b);
}

// ---- errors ----

std::string error_of(const Rope& rope, std::int64_t length = 0) {
  try {
    frequencies(rope, length);
  } catch (const Error& error) {
    return std::string(rotary::name(error.code())) + ": " + error.what();
  }
  return "no error";
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
    for (const Scaling& s :
         std::vector<Scaling>{Linear{factor}, Ntk{factor}, NtkFixed{factor, {}}, Dynamic{factor, 1}, yarn(factor, 4096),
                              Llama3{factor, 8192, 1, 4}, Proportional{1, factor}}) {
      const std::string start = std::string("SCALING: [frequencies] ") + name(s) + " factor must be";
      EXPECT_TRUE(error_of(rope_of(4, 1e4, s)).starts_with(start)) << error_of(rope_of(4, 1e4, s));
    }
  }
}

TEST(FrequencyErrors, AScalingThatIsUnknownIsToldAllNames) {
  for (const std::string word : {"", "NTK", "ntk-fixed", "none"}) {
    try {
      parse_scaling(word);
      ADD_FAILURE() << word;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(name(error.code())) + ": " + error.what(),
                "SCALING: [parse_scaling] a scaling must be default, linear, ntk, ntk_fixed, dynamic, yarn, longrope, "
                "llama3 or proportional but got '" +
                    word + "'");
    }
  }
}

// transformers: factor <= 1 makes an attention factor of 1; the pairs turn by short_factor and long_factor alone.
TEST(FrequencyErrors, TheFactorOfLongropeIsAnAmplitudeAndMayBeBelowOne) {
  const auto longrope = [](double factor) { return LongRope{{1, 2}, {1, 1}, 1, factor, {}, {}, {}}; };
  const Frequencies f = frequencies(rope_of(4, 1e4, longrope(0.5)), 0);
  EXPECT_EQ(f.attention_factor, 1);
  EXPECT_EQ(f.inv_freq, (std::vector<double>{1, 0.005}));
  for (const double factor : {0.0, -4.0, infinity, std::nan("")}) {
    EXPECT_TRUE(error_of(rope_of(4, 1e4, longrope(factor))).starts_with("SCALING: [frequencies] longrope factor must"));
  }
}

TEST(FrequencyErrors, NtkAndDynamicNeedMoreThanOnePair) {
  EXPECT_EQ(error_of(rope_of(2, 1e4, Ntk{8})),
            "SCALING: [frequencies] ntk needs an exponent_dim above 2 (the base grows with the power r / (r - 2)) but "
            "got 2");
  EXPECT_TRUE(error_of(rope_of(2, 1e4, Dynamic{8, 2048})).starts_with("SCALING: [frequencies] dynamic needs"));
}

TEST(FrequencyErrors, ParametersAreChecked) {
  const auto expect = [](const Scaling& s, const std::string& rule) {
    EXPECT_EQ(error_of(rope_of(4, 1e4, s)), "SCALING: [frequencies] " + rule);
  };
  expect(Dynamic{2, 0}, "dynamic trained_length must be above 0 but got 0");
  expect(yarn(2, -1), "yarn trained_length must be above 0 but got -1");
  Yarn s = yarn(2, 4096);
  s.beta_fast = 0;
  expect(s, "yarn beta_fast must be finite and above 0 but got 0");
  s = yarn(2, 4096);
  s.attention_factor = -1;
  expect(s, "yarn attention_factor must be finite and at least 0 but got -1");
  s = yarn(2, 4096);
  s.extrapolation_factor = 1.5;
  expect(s, "yarn extrapolation_factor must be in [0, 1] but got 1.5");
  LongRope l{{1, 1}, {1, 1, 1}, 4096, 1, {}, {}, {}};
  expect(l, "longrope long_factor must have one entry per pair, 2, but got 3");
  l.long_factor = {1, 0};
  expect(l, "longrope long_factor[1] must be finite and above 0 but got 0");
  l = LongRope{{1, 1}, {1, 1}, 1, 32, {}, {}, {}};
  expect(l, "longrope trained_length must be above 1 (the attention factor divides by its logarithm) but got 1");
  expect(Llama3{8, 8192, 4, 1}, "llama3 high must be at least low (4) but got 1");
  expect(Llama3{8, 8192, 0, 4}, "llama3 low must be finite and above 0 but got 0");
  expect(Proportional{0}, "proportional fraction must be in (0, 1] but got 0");
  expect(Proportional{1.25}, "proportional fraction must be in (0, 1] but got 1.25");
}

TEST(FrequencyErrors, ShapesAreChecked) {
  const auto expect = [](auto change, const std::string& rule) {
    Rope rope = rope_of(8, 1e4);
    change(rope);
    EXPECT_EQ(error_of(rope), "SHAPE: [frequencies] " + rule);
  };
  expect([](Rope& r) { r.head_dim = 0; }, "head_dim must be above 0 but got 0");
  expect([](Rope& r) { r.head_dim = 7; }, "rotary_dim must be even (two elements turn together) but got 7");
  expect([](Rope& r) { r.rotary_dim = 10; }, "rotary_dim must be in [2, head_dim = 8] but got 10");
  expect([](Rope& r) { r.rotary_dim = -2; }, "rotary_dim must be in [2, head_dim = 8] but got -2");
  expect([](Rope& r) { r.exponent_dim = -1; }, "exponent_dim must be at least 1, or 0 for rotary_dim, but got -1");
  expect([](Rope& r) { r.axis = {0, 1}; }, "axis must be empty or have one entry per pair, 4, but got 2");
  expect([](Rope& r) { r.index = {0, 1, 2, 3, 4}; }, "index must be empty or have one entry per pair, 4, but got 5");
  expect([](Rope& r) { r.index = {0, 1, 2, -3}; }, "every index must be at least 0 but got -3");
  EXPECT_EQ(error_of(rope_of(8, 1e4), -1), "SHAPE: [frequencies] length must be at least 0 but got -1");
}

}  // namespace
}  // namespace rotary
