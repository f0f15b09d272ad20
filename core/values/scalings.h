// The formula of every scaling method, once for two arithmetics; scaling_fields.h has the facts about each. The order
// of operations is that of the frameworks' float32 code; in exact arithmetic the order does not matter.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "double_double.h"
#include "rotary/rotary.h"

namespace rotary::scalings {

using namespace detail;

// The real-number formula: everything in double-double, rounded to double by the caller.
struct Exact {
  using Scalar = High;
  using Real = High;
  static High integer(std::int64_t n) noexcept { return High::integer(n); }
  static High two_pi() noexcept { return {2 * pi.hi, 2 * pi.lo}; }
  static High exp(const High& x) noexcept { return detail::exp(x); }
  static High log(const High& x) noexcept { return detail::log(x); }
  static High pow(const High& base, const High& exponent) noexcept { return detail::pow(base, exponent); }
  static High floor(const High& x) noexcept { return detail::floor(x); }
  class Powers;
};

// Hugging Face transformers (5.24) on a CPU: Python's numbers are double, torch's tensors float32; every operation,
// pow and log too, is correctly rounded. torch's scalar kernels agree (24,958 of 24,960 values, files/golden/
// make_transformers.py over 5 head sizes and 5 bases); its AVX2 and AVX-512 kernels differ by 1 or 2 ulp in 1 %,
// each in its own way.
struct Float32 {
  using Scalar = double;
  using Real = float;
  static double integer(std::int64_t n) noexcept { return static_cast<double>(n); }
  static double two_pi() noexcept { return 2 * pi.hi; }
  static double log(double x) noexcept { return static_cast<double>(detail::log(x)); }
  static double pow(double base, double exponent) noexcept { return static_cast<double>(detail::pow(base, exponent)); }
  static double floor(double x) noexcept { return std::floor(x); }

  static float log(float x) noexcept {
    return round(std::log(double{x}), [=] { return detail::log(x); });
  }
  static float exp(float x) noexcept {
    return round(std::exp(double{x}), [=] { return detail::exp(x); });
  }
  static float pow(float base, float exponent) noexcept {
    return round(std::pow(double{base}, double{exponent}), [=] { return detail::pow(base, exponent); });
  }
  class Powers;

 private:
  // The double decides, unless it is so close to the midpoint of two floats that its error could matter.
  template <class Precise>
  static float round(double value, Precise precise) noexcept {
    const auto rounded = static_cast<float>(value);
    const bool clear = static_cast<float>(value * (1 - 0x1p-43)) == static_cast<float>(value * (1 + 0x1p-43));
    return clear ? rounded : static_cast<float>(precise());
  }
};

template <class A>
using Real = typename A::Real;
template <class A>
using Scalar = typename A::Scalar;

// The pairs of one rope: the base b, r, the exponent index i of every pair, and the current length.
struct Pairs {
  double base;
  High log_base;
  int r;
  std::span<const int> index;
  std::int64_t length;
};

// base^(2i/r) for the index i of these pairs. A power with i below 512 is a product of i first powers, each within
// 2^-104, by i - 1 multiplications within 2^-104: it is within 2^-94, and the result is rounded to 2^-53.
class Exact::Powers {
 public:
  Powers(const High& base, const Pairs& pairs)
      : log_step_(2 * (base == pairs.base ? pairs.log_base : detail::log(base)) / pairs.r), near_{1, exp(log_step_)} {
    const int largest = *std::max_element(pairs.index.begin(), pairs.index.end());
    const auto count = static_cast<std::size_t>(std::min({largest + 1.0, 512.0, 700 / log_step_.hi}));
    near_.reserve(count);
    for (std::size_t i = 2; i < count; ++i) near_.push_back(near_[i / 2] * near_[i - i / 2]);
  }
  High operator()(int i) const noexcept {
    return static_cast<std::size_t>(i) < near_.size() ? near_[static_cast<std::size_t>(i)] : far(i);
  }

 private:
  High far(int i) const noexcept { return exp(log_step_ * i); }
  High log_step_;
  std::vector<High> near_;
};

// The exponent is a float of its own. The error of its exponential, up to e^89, is below 90 * 2^-51.
class Float32::Powers {
 public:
  Powers(float base, const Pairs& pairs) : base_(base), log_(std::log(double{base})), r_(static_cast<float>(pairs.r)) {}
  float operator()(int i) const noexcept {
    const float exponent = static_cast<float>(2.0 * i) / r_;
    if (i == 0) return 1;  // for an infinite base too
    return round(std::exp(exponent * log_), [=, this] { return detail::pow(base_, exponent); });
  }

 private:
  float base_;
  double log_;
  float r_;
};

// frequency(b^(2i/r), k) for every pair k.
template <class A, class Frequency>
std::vector<Real<A>> each(const Pairs& pairs, Real<A> base, Frequency frequency) {
  const typename A::Powers period(base, pairs);
  std::vector<Real<A>> result;
  result.reserve(pairs.index.size());
  for (const int i : pairs.index) result.push_back(frequency(period(i), result.size()));
  return result;
}

template <class A>
Scalar<A> ntk_exponent(const Pairs& pairs) {
  return Scalar<A>(pairs.r) / Scalar<A>(pairs.r - 2);
}

// w = b^(-2i/r). RoFormer, arXiv:2104.09864.
template <class A>
std::vector<Real<A>> inv_freq(const Unscaled&, const Pairs& pairs) {
  return each<A>(pairs, Real<A>(pairs.base), [](Real<A> period, std::size_t) { return 1 / period; });
}

// w / f. Position interpolation, arXiv:2306.15595.
template <class A>
std::vector<Real<A>> inv_freq(const Linear& s, const Pairs& pairs) {
  const auto factor = Real<A>(s.factor);
  return each<A>(pairs, Real<A>(pairs.base), [&](Real<A> period, std::size_t) { return 1 / period / factor; });
}

// (b f^(r/(r-2)))^(-2i/r). NTK-aware scaling, github.com/jquesnelle/yarn; Hunyuan's alpha.
template <class A>
std::vector<Real<A>> inv_freq(const Ntk& s, const Pairs& pairs) {
  const auto base = Real<A>(Scalar<A>(pairs.base) * A::pow(Scalar<A>(s.factor), ntk_exponent<A>(pairs)));
  return each<A>(pairs, base, [](Real<A> period, std::size_t) { return 1 / period; });
}

// "Fixed": (b f)^(-2i/r) / f^(2/r). "Mixed", B given: w / exp(ln(f) / (r/2)^B * (i+1)^B). kexue.fm/archives/9706.
template <class A>
std::vector<Real<A>> inv_freq(const NtkFixed& s, const Pairs& pairs) {
  const Scalar<A> half_r = Scalar<A>(pairs.r) / 2;
  if (!s.mixed_b) {
    const auto divisor = Real<A>(A::pow(Scalar<A>(s.factor), 1 / half_r));
    return each<A>(pairs, Real<A>(Scalar<A>(pairs.base) * Scalar<A>(s.factor)),
                   [&](Real<A> period, std::size_t) { return 1 / period / divisor; });
  }
  const Real<A> a = A::log(Real<A>(s.factor)) / Real<A>(A::pow(half_r, Scalar<A>(*s.mixed_b)));
  return each<A>(pairs, Real<A>(pairs.base), [&](Real<A> period, std::size_t k) {
    const Real<A> stretch = A::exp(a * A::pow(Real<A>(pairs.index[k] + 1.0), Real<A>(*s.mixed_b)));
    return 1 / period / stretch;
  });
}

// (b (f L/L0 - (f-1))^(r/(r-2)))^(-2i/r), L = max(length, L0). Dynamic NTK, transformers. Beyond L0 the length is a
// tensor there, so all steps are in float32; up to L0 it is a Python number, and the base stays. The exact form
// 1 + f (L - L0) / L0 is the same without cancellation.
template <class A>
std::vector<Real<A>> inv_freq(const Dynamic& s, const Pairs& pairs) {
  const std::int64_t length = std::max(pairs.length, s.trained_length);
  const auto factor = Real<A>(s.factor);
  const auto trained = Real<A>(A::integer(s.trained_length));
  Real<A> stretch;
  if constexpr (std::is_same_v<A, Exact>) {
    stretch = 1 + factor * A::integer(length - s.trained_length) / trained;
  } else {
    stretch = length == s.trained_length
                  ? 1
                  : factor * static_cast<float>(length) / trained - static_cast<float>(s.factor - 1);
  }
  const auto growth = Real<A>(A::pow(Scalar<A>(stretch), ntk_exponent<A>(pairs)));  // torch keeps a double exponent
  const Real<A> base = Real<A>(pairs.base) * growth;
  return each<A>(pairs, base, [](Real<A> period, std::size_t) { return 1 / period; });
}

// YaRN's weight m of the unscaled frequency, e (1 - clamp((i - low) / (high - low), 0, 1)): from pairs that turn often
// to pairs that turn seldom. low = cd(beta_fast), high = cd(beta_slow), cd(beta) = r ln(L0 / (2 pi beta)) / (2 ln b),
// then floor and ceil, and clamped to [0, r - 1] as in the YaRN repository. The floor of the frameworks' double cd
// is the same, unless cd lies within 1e-13 of an integer. e is vLLM's extrapolation_factor, 1 elsewhere.
template <class A>
class Ramp {
  using R = Real<A>;
  using S = Scalar<A>;

 public:
  // raises_high: if low = high, high is raised, as in YaRN; else low is lowered, as in YarnLog.
  Ramp(const Yarn& s, bool raises_high, const Pairs& pairs) : weight_(R(s.extrapolation_factor)) {
    const S two_log_base = 2 * S(pairs.log_base);
    const auto dimension = [&](double beta) {
      return S(pairs.r) * A::log(A::integer(s.trained_length) / (S(beta) * A::two_pi())) / two_log_base;
    };
    S low = dimension(s.beta_fast);
    S high = dimension(s.beta_slow);
    if (s.truncate) {
      low = A::floor(low);
      high = -A::floor(-high);
    }
    low = std::max(low, S(0.0));
    high = std::min(high, S(pairs.r - 1.0));
    const S step = low == high ? S(1.0) / S(1000.0) : S(0.0);
    if (raises_high) {
      high = high + step;
    } else {
      low = low - step;
    }
    low_ = R(low);
    const R span = R(high - low);
    rises_ = R(0.0) < span;
    width_ = rises_ ? span : -span;
  }
  R operator()(int i) const {
    const R index = R(static_cast<double>(i)), above = rises_ ? index - low_ : low_ - index;
    return R(0.0) < above ? (above < width_ ? (1 - above / width_) * weight_ : R(0.0)) : weight_;
  }

 private:
  R low_, width_, weight_;
  bool rises_ = true;
};

// w/f (1 - m) + w m, with m from the Ramp. YaRN, arXiv:2309.00071.
template <class A>
std::vector<Real<A>> inv_freq(const Yarn& s, const Pairs& pairs) {
  using R = Real<A>;
  const Ramp<A> ramp(s, true, pairs);
  const auto factor = R(s.factor);
  return each<A>(pairs, R(pairs.base), [&](R period, std::size_t k) {
    const R kept = ramp(pairs.index[k]);
    if (kept == 1) return 1 / period;  // also where factor * period overflows
    return 1 / (factor * period) * (1 - kept) + 1 / period * kept;
  });
}

// exp(m ln w + (1 - m) ln(w/f)). SGLang, models/grok.py.
template <class A>
std::vector<Real<A>> inv_freq(const YarnLog& s, const Pairs& pairs) {
  using R = Real<A>;
  Yarn betas;
  betas.trained_length = s.trained_length;
  betas.beta_fast = s.beta_fast, betas.beta_slow = s.beta_slow, betas.extrapolation_factor = s.extrapolation_factor;
  const Ramp<A> ramp(betas, false, pairs);
  const auto factor = R(s.factor);
  return each<A>(pairs, R(pairs.base), [&](R period, std::size_t k) {
    const R kept = ramp(pairs.index[k]);
    return A::exp(A::log(1 / period) * kept + A::log(1 / (factor * period)) * (1 - kept));
  });
}

// (b^(ln(L0 f / 2 pi) / ln(L0 / 2 pi)))^(-2i/r). SGLang, models/grok.py.
template <class A>
std::vector<Real<A>> inv_freq(const ThetaScale& s, const Pairs& pairs) {
  using S = Scalar<A>;
  const S trained = A::integer(s.trained_length);
  const S exponent = A::log(trained * S(s.factor) / A::two_pi()) / A::log(trained / A::two_pi());
  const auto base = Real<A>(A::pow(S(pairs.base), exponent));
  return each<A>(pairs, base, [](Real<A> period, std::size_t) { return 1 / period; });
}

// 1 / (ext_i b^(2i/r)), ext = long_factor when length > L0, else short_factor. LongRoPE, arXiv:2402.13753.
template <class A>
std::vector<Real<A>> inv_freq(const LongRope& s, const Pairs& pairs) {
  const std::vector<double>& factors = pairs.length > s.trained_length ? s.long_factor : s.short_factor;
  return each<A>(pairs, Real<A>(pairs.base),
                 [&](Real<A> period, std::size_t k) { return 1 / (Real<A>(factors[k]) * period); });
}

// With wavelength 2 pi / w: below L0/high w, above L0/low w/f (both strict), between
// (1-s) w/f + s w, s = (L0/wavelength - low) / (high - low), and s = 0 where high = low. Llama 3.1, llama-models.
template <class A>
std::vector<Real<A>> inv_freq(const Llama3& s, const Pairs& pairs) {
  using R = Real<A>;
  using S = Scalar<A>;
  const S trained = A::integer(s.trained_length);
  const auto factor = R(s.factor);
  const auto longest_kept = R(trained / S(s.high));
  const auto longest_blended = R(trained / S(s.low));
  return each<A>(pairs, R(pairs.base), [&](R period, std::size_t) {
    const R w = 1 / period;
    const R wavelength = 1 / w * R(A::two_pi());
    if (longest_blended < wavelength) return w / factor;
    if (wavelength < longest_kept) return w;
    if (s.high == s.low) return w / factor;
    const R smooth = (1 / wavelength * R(trained) - R(s.low)) / R(S(s.high) - S(s.low));
    return (1 - smooth) * w / factor + smooth * w;
  });
}

// w / f for the first floor(fraction r / 2) pairs, 0 for the rest. p-RoPE, arXiv:2410.06205; Gemma 4. The count is
// computed in double, as in transformers: 0.35 of 200 elements are 70, though the double 0.35 is a little less.
template <class A>
std::vector<Real<A>> inv_freq(const Proportional& s, const Pairs& pairs) {
  const auto rotating = static_cast<std::size_t>(std::floor(s.fraction * pairs.r / 2));
  const auto factor = Real<A>(s.factor);
  return each<A>(pairs, Real<A>(pairs.base),
                 [&](Real<A> period, std::size_t k) { return k < rotating ? 1 / period / factor : Real<A>(0.0); });
}

// ---- attention factors, for the scalings that have their own by their row ----

// M(m) = magnitude * m * ln(factor) + 1. A magnitude of 0.1 means one tenth, not the double next to it.
inline High attention_factor(const Yarn& s, std::int64_t) {
  if (s.attention_factor) return High(*s.attention_factor) * s.attn_factor;
  const High magnitude = s.magnitude == 0.1 ? High(1) / 10 : High(s.magnitude);
  const High log_factor = log(High(s.factor));
  const auto m = [&](double mscale) { return magnitude * mscale * log_factor + 1; };
  if (s.mscale_ratio) return m(s.mscale.value_or(1)) / m(s.mscale_all_dim.value_or(0)) * s.attn_factor;
  const bool ratio = s.mscale.value_or(0) != 0 && s.mscale_all_dim.value_or(0) != 0;
  return (ratio ? m(*s.mscale) / m(*s.mscale_all_dim) : m(1)) * s.attn_factor;
}

// The number that the model card states for this length, or else for every length.
inline std::optional<double> given_attention_factor(const LongRope& s, std::int64_t length) {
  const auto& of_length = length > s.trained_length ? s.long_mscale : s.short_mscale;
  return of_length ? of_length : s.attention_factor;
}
inline bool needs_log_of_length(const LongRope& s, std::int64_t length) {
  return !given_attention_factor(s, length) && s.factor > 1;
}

// sqrt(1 + ln(factor) / ln(L0)), or 1 for a factor up to 1, unless the model card states a number.
inline High attention_factor(const LongRope& s, std::int64_t length) {
  if (const auto given = given_attention_factor(s, length)) return *given;
  return needs_log_of_length(s, length) ? sqrt(1 + log(High(s.factor)) / log(High::integer(s.trained_length)))
                                        : High(1);
}

}  // namespace rotary::scalings
