// inv_freq and attention_factor against the formulas of the papers in 400 bits (MPFR), over random parameters.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

#include "core/tests/support/mpfr_real.h"
#include "rotary/rotary.h"
#include "values/double_double.h"

namespace rotary {

using namespace detail;
namespace {

using test::MpfrReal;
using test::ulps;

// One rope's geometry, spelled out.
struct Judge {
  double base;
  int r;
  std::int64_t length;

  MpfrReal period(const MpfrReal& b, int i) const { return pow(b, MpfrReal(2.0 * i) / MpfrReal(r)); }
  MpfrReal unscaled(int i) const { return 1.0 / period(base, i); }
  MpfrReal stretched_base(const MpfrReal& alpha) const { return MpfrReal(base) * pow(alpha, MpfrReal(r) / (r - 2)); }

  // i: the exponent index of pair k
  MpfrReal inv_freq(const Unscaled&, int i, std::size_t) const { return unscaled(i); }
  MpfrReal inv_freq(const Linear& s, int i, std::size_t) const { return unscaled(i) / s.factor; }
  MpfrReal inv_freq(const Ntk& s, int i, std::size_t) const { return 1.0 / period(stretched_base(s.factor), i); }
  MpfrReal inv_freq(const NtkFixed& s, int i, std::size_t) const {
    const MpfrReal f = s.factor;
    if (!s.mixed_b) return pow(MpfrReal(base) * f, MpfrReal(-2.0 * i) / r) * pow(f, MpfrReal(-2.0) / r);
    const MpfrReal a = log(f) / pow(MpfrReal(r) / 2, *s.mixed_b);
    return unscaled(i) / exp(a * pow(MpfrReal(i + 1), *s.mixed_b));
  }
  MpfrReal inv_freq(const Dynamic& s, int i, std::size_t) const {
    const MpfrReal f = s.factor;
    const MpfrReal length_now = MpfrReal::integer(std::max(length, s.trained_length));
    return 1.0 / period(stretched_base(f * length_now / MpfrReal::integer(s.trained_length) - (f - 1.0)), i);
  }
  MpfrReal correction(double beta, std::int64_t trained) const {
    return MpfrReal(r) * log(MpfrReal::integer(trained) / (2.0 * MpfrReal::pi() * beta)) / (2.0 * log(MpfrReal(base)));
  }
  template <class S>
  MpfrReal mask(const S& s, bool truncate, int i) const {
    MpfrReal low = correction(s.beta_fast, s.trained_length);
    MpfrReal high = correction(s.beta_slow, s.trained_length);
    low = max(truncate ? floor(low) : low, 0.0);
    high = min(truncate ? ceil(high) : high, r - 1.0);
    if (low == high && std::is_same_v<S, Yarn>) {
      high = high + MpfrReal(1) / 1000;
    } else if (low == high) {
      low = low - MpfrReal(1) / 1000;
    }
    const MpfrReal ramp = max(0.0, min(1.0, (MpfrReal(i) - low) / (high - low)));
    return (MpfrReal(1) - ramp) * s.extrapolation_factor;
  }
  MpfrReal inv_freq(const Yarn& s, int i, std::size_t) const {
    const MpfrReal kept = mask(s, s.truncate, i);
    return unscaled(i) / s.factor * (MpfrReal(1) - kept) + unscaled(i) * kept;
  }
  MpfrReal inv_freq(const YarnLog& s, int i, std::size_t) const {
    return unscaled(i) * pow(MpfrReal(s.factor), mask(s, true, i) - 1.0);
  }
  MpfrReal inv_freq(const ThetaScale& s, int i, std::size_t) const {
    const MpfrReal turns = MpfrReal::integer(s.trained_length) / (2.0 * MpfrReal::pi());
    return 1.0 / period(pow(MpfrReal(base), log(turns * s.factor) / log(turns)), i);
  }
  MpfrReal inv_freq(const LongRope& s, int i, std::size_t k) const {
    return unscaled(i) / (length > s.trained_length ? s.long_factor : s.short_factor)[k];
  }
  MpfrReal inv_freq(const Llama3& s, int i, std::size_t) const {
    const MpfrReal w = unscaled(i);
    const MpfrReal turns = MpfrReal::integer(s.trained_length) * w / (2.0 * MpfrReal::pi());  // over the trained length
    if (MpfrReal(s.high) < turns) return w;
    if (turns < MpfrReal(s.low)) return w / s.factor;
    const MpfrReal smooth = (turns - s.low) / (MpfrReal(s.high) - s.low);
    return (MpfrReal(1) - smooth) * w / s.factor + smooth * w;
  }
  MpfrReal inv_freq(const Proportional& s, int i, std::size_t k) const {
    return static_cast<int>(k) < static_cast<int>(s.fraction * r / 2) ? unscaled(i) / s.factor : MpfrReal(0);
  }

  template <class S>
  MpfrReal attention_factor(const S&) const {
    return 1.0;
  }
  MpfrReal attention_factor(const Yarn& s) const {
    const auto m = [&](double mscale) {
      return MpfrReal(s.magnitude == 0.1 ? MpfrReal(1) / 10 : MpfrReal(s.magnitude)) * mscale *
                 log(MpfrReal(s.factor)) +
             1;
    };
    MpfrReal a = m(1);
    if (s.attention_factor) {
      a = *s.attention_factor;
    } else if (s.mscale_ratio) {
      a = m(s.mscale.value_or(1)) / m(s.mscale_all_dim.value_or(0));
    } else if (s.mscale.value_or(0) != 0 && s.mscale_all_dim.value_or(0) != 0) {
      a = m(*s.mscale) / m(*s.mscale_all_dim);
    }
    return a * s.attn_factor;
  }
  MpfrReal attention_factor(const LongRope& s) const {
    const auto mscale = length > s.trained_length ? s.long_mscale : s.short_mscale;
    if (mscale || s.attention_factor) return mscale ? *mscale : *s.attention_factor;
    return sqrt(1.0 + log(MpfrReal(s.factor)) / log(MpfrReal::integer(s.trained_length)));
  }
};

class RandomRopes {
 public:
  explicit RandomRopes(std::uint64_t seed) : generator_(seed) {}

  Rope rope() {
    Rope rope;
    rope.pairing = Pairing::half;
    rope.head_dim = 2 * whole(2, 256);
    rope.base = spread(1.001, 1e12);
    if (chance()) rope.exponent_dim = whole(std::max(3, rope.head_dim / 2), 600);
    if (chance()) {
      for (int k = 0; k < rope.head_dim / 2; ++k) {
        rope.index.push_back(whole(0, rope.exponent_dim == 0 ? rope.head_dim : rope.exponent_dim));
      }
    }
    return rope;
  }
  // 0, one at which the trained length ends, one beyond 2^53, which counts in full, or any.
  std::int64_t length(std::int64_t trained) {
    const std::int64_t some[] = {0, trained, trained + 1, INT64_MAX - 1, static_cast<std::int64_t>(spread(1, 1e7))};
    return some[whole(0, 4)];
  }
  double factor() { return whole(0, 3) == 0 ? 1 : chance() ? spread(1, 1e4) : whole(1, 64); }
  std::int64_t trained() { return chance() ? 4096 : 2 + static_cast<std::int64_t>(spread(1, 1e7)); }

  Yarn yarn() {
    Yarn s;
    s.factor = factor();
    s.trained_length = trained();
    s.truncate = chance();
    if (chance()) {
      s.beta_fast = spread(1, 100);
      s.beta_slow = chance() ? s.beta_fast : std::min(s.beta_fast, spread(0.1, 4));
    }
    if (chance()) s.mscale = spread(0.1, 2);
    if (chance()) s.mscale_all_dim = chance() ? 0 : spread(0.1, 2);
    if (whole(0, 3) == 0) s.attention_factor = spread(0.1, 2);
    s.magnitude = chance() ? 0.1 : spread(0.01, 1);
    s.mscale_ratio = chance();
    s.extrapolation_factor = chance() ? 1 : chance() ? 0 : spread(1e-6, 1);
    s.attn_factor = chance() ? 1 : spread(0.1, 3);
    return s;
  }
  LongRope long_rope(std::size_t pairs) {
    LongRope s;
    s.factor = factor();
    s.trained_length = trained();
    for (std::size_t k = 0; k < pairs; ++k) {
      s.short_factor.push_back(spread(0.5, 3));
      s.long_factor.push_back(spread(0.5, 100));
    }
    if (whole(0, 3) == 0) s.attention_factor = spread(0.1, 2);
    if (whole(0, 3) == 0) {
      s.short_mscale = spread(0.5, 2);
      s.long_mscale = spread(0.5, 2);
    }
    return s;
  }
  Llama3 llama3() {
    const double low = spread(0.1, 4);
    return {factor(), trained(), low, chance() ? low : low * spread(1.001, 8)};
  }
  double spread(double least, double most) {
    return std::exp(std::uniform_real_distribution<double>(std::log(least), std::log(most))(generator_));
  }
  int whole(int least, int most) { return std::uniform_int_distribution<int>(least, most)(generator_); }
  bool chance() { return whole(0, 1) == 0; }

 private:
  std::mt19937_64 generator_;
};

template <class MakeScaling>
void expect_exact(MakeScaling make) {
  RandomRopes random(20240917);
  for (int n = 0; n < 60; ++n) {
    Rope rope = random.rope();
    const auto scaling = make(random, static_cast<std::size_t>(rope.head_dim / 2));
    rope.scaling = scaling;
    std::int64_t trained = 1;
    if constexpr (requires { scaling.trained_length; }) trained = scaling.trained_length;
    const std::int64_t length = random.length(trained);
    const Frequencies got = frequencies(rope, length);
    const Judge judge{rope.base, rope.exponent_dim == 0 ? rope.head_dim : rope.exponent_dim, length};
    double worst = ulps(got.attention_factor, judge.attention_factor(scaling));
    for (std::size_t k = 0; k < got.inv_freq.size(); ++k) {
      const int i = rope.index.empty() ? static_cast<int>(k) : rope.index[k];
      worst = std::max(worst, ulps(got.inv_freq[k], judge.inv_freq(scaling, i, k)));
    }
    EXPECT_LE(worst, 0.5001) << name(rope.scaling);
  }
}

TEST(FrequenciesExact, EveryScalingIsTheRoundedFormula) {
  expect_exact([](RandomRopes&, std::size_t) { return Unscaled{}; });
  expect_exact([](RandomRopes& random, std::size_t) { return Linear{random.factor()}; });
  expect_exact([](RandomRopes& random, std::size_t) { return Ntk{random.factor()}; });
  expect_exact([](RandomRopes& random, std::size_t) {
    return random.chance() ? NtkFixed{random.factor(), {}} : NtkFixed{random.factor(), random.spread(0.1, 1.2)};
  });
  expect_exact([](RandomRopes& random, std::size_t) { return Dynamic{random.factor(), random.trained()}; });
  expect_exact([](RandomRopes& random, std::size_t) { return random.yarn(); });
  expect_exact([](RandomRopes& random, std::size_t pairs) { return random.long_rope(pairs); });
  expect_exact([](RandomRopes& random, std::size_t) { return random.llama3(); });
  expect_exact([](RandomRopes& random, std::size_t) {
    return Proportional{random.chance() ? 0.25 : random.spread(0.01, 1), random.factor()};
  });
  expect_exact([](RandomRopes& random, std::size_t) {
    const Yarn s = random.yarn();
    const std::int64_t trained = random.whole(0, 7) == 0 ? random.whole(1, 9) : s.trained_length;  // low = high
    return YarnLog{s.factor, trained, s.beta_fast, s.beta_slow, s.extrapolation_factor};
  });
  expect_exact([](RandomRopes& random, std::size_t) { return ThetaScale{random.factor(), 6 + random.trained()}; });
}

TEST(High, RoundsToFloatOnceAndToNearestEvenAndFloorLooksAtBothParts) {
  EXPECT_EQ(static_cast<float>(High(1 + 0x1p-24, 0x1p-60)), 1 + 0x1p-23f);  // hi alone is a tie and would go to 1
  EXPECT_EQ(static_cast<float>(High(1 + 0x1p-24, -0x1p-60)), 1.0f);
  EXPECT_EQ(static_cast<float>(High(1 + 3 * 0x1p-24, -0x1p-60)), 1 + 0x1p-23f);
  EXPECT_EQ(static_cast<float>(High(-1 - 0x1p-24, -0x1p-60)), -1 - 0x1p-23f);
  EXPECT_EQ(static_cast<float>(High(1 + 0x1p-24, 0x1p-100)), 1.0f);  // noise of an exact tie
  EXPECT_EQ(static_cast<float>(pow(4097.0, 2.0)), 16785408.0f);
  EXPECT_TRUE(floor(High(3, -0x1p-70)) == High(2));
  EXPECT_TRUE(floor(High(3, 0x1p-70)) == High(3));
  EXPECT_TRUE(floor(High(-2.5)) == High(-3));
}

TEST(High, FunctionsKeepAHundredBits) {
  RandomRopes random(7);
  const auto relative = [](const High& got, const MpfrReal& exact) {
    return std::fabs(((MpfrReal(got.hi) + got.lo - exact) / exact).to_double());
  };
  for (int n = 0; n < 2000; ++n) {
    const double x = random.spread(1e-10, 1e10);
    const double y = -random.spread(1e-3, 1);
    const double power = 30 * y;
    EXPECT_LE(relative(exp(High(power)), exp(MpfrReal(power))), 0x1p-100);
    EXPECT_LE(relative(pow(x, y), pow(MpfrReal(x), y)), 0x1p-100);
    EXPECT_LE(relative(sqrt(x), sqrt(MpfrReal(x))), 0x1p-104);
    EXPECT_LE(relative(1 / High(x), 1.0 / MpfrReal(x)), 0x1p-104);
  }
  EXPECT_LE(relative(pi, MpfrReal::pi()), 0x1p-106);
  EXPECT_LE(relative(exponentials::ln2(), log(MpfrReal(2))), 0x1p-106);
}

}  // namespace
}  // namespace rotary
