// Rope -> Frequencies: the checks, the attention factors, and the scaling methods of scalings.h in both arithmetics.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <variant>
#include <vector>

#include "rotary/rotary.h"
#include "runtime/float_state.h"
#include "scalings.h"

namespace rotary {
namespace {

using scalings::Pairs;

// ---- error sentences ----

std::string text(double value) {
  char buffer[32];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::string text(std::int64_t value) { return std::to_string(value); }

template <class Number>
void require(bool holds, const char* code, const std::string& rule, Number value) {
  if (!holds) {
    throw Error(code, "[frequencies] " + rule + " but got " + text(value));
  }
}

void check_factor(double factor, const std::string& scaling) {
  const char* below =
      " factor must be finite and at least 1 (below 1 it would turn the pairs faster, which shortens the "
      "context instead of extending it)";
  require(std::isfinite(factor) && factor >= 1, "SCALING", scaling + below, factor);
}

void check_trained_length(std::int64_t length, const std::string& scaling) {
  require(length > 0, "SCALING", scaling + " trained_length must be above 0", length);
}

void check_positive(double value, const std::string& what) {
  require(std::isfinite(value) && value > 0, "SCALING", what + " must be finite and above 0", value);
}

void check_not_negative(double value, const std::string& what) {
  require(std::isfinite(value) && value >= 0, "SCALING", what + " must be finite and at least 0", value);
}

void check_finite(double value, const std::string& what) {
  require(std::isfinite(value), "SCALING", what + " must be finite", value);
}

void check_ntk_exponent(const Pairs& pairs, const std::string& scaling) {
  require(pairs.r > 2, "SCALING",
          scaling + " needs an exponent_dim above 2 (the base grows with the power r / (r - 2))",
          std::int64_t{pairs.r});
}

// ---- what each scaling may hold ----

void check(const Unscaled&, const Pairs&) {}

void check(const Linear& s, const Pairs&) { check_factor(s.factor, "linear"); }

void check(const Ntk& s, const Pairs& pairs) {
  check_factor(s.factor, "ntk");
  check_ntk_exponent(pairs, "ntk");
}

void check(const NtkFixed& s, const Pairs&) {
  check_factor(s.factor, "ntk");
  if (s.mixed_b) {
    check_finite(*s.mixed_b, "ntk mixed_b");
  }
}

void check(const Dynamic& s, const Pairs& pairs) {
  check_factor(s.factor, "dynamic");
  check_trained_length(s.trained_length, "dynamic");
  check_ntk_exponent(pairs, "dynamic");
}

void check(const Yarn& s, const Pairs&) {
  check_factor(s.factor, "yarn");
  check_trained_length(s.trained_length, "yarn");
  check_positive(s.beta_fast, "yarn beta_fast");
  check_positive(s.beta_slow, "yarn beta_slow");
  check_not_negative(s.attention_factor.value_or(1), "yarn attention_factor");
  check_finite(s.mscale.value_or(1), "yarn mscale");
  check_finite(s.mscale_all_dim.value_or(1), "yarn mscale_all_dim");
  check_finite(s.magnitude, "yarn magnitude");
  check_not_negative(s.attn_factor, "yarn attn_factor");
  require(s.extrapolation_factor >= 0 && s.extrapolation_factor <= 1, "SCALING",
          "yarn extrapolation_factor must be in [0, 1]", s.extrapolation_factor);
}

void check_list(const std::vector<double>& factors, const Pairs& pairs, const std::string& name) {
  require(factors.size() == pairs.index.size(), "SCALING",
          name + " must have one entry per pair, " + std::to_string(pairs.index.size()) + ",",
          static_cast<std::int64_t>(factors.size()));
  for (std::size_t k = 0; k < factors.size(); ++k) {
    check_positive(factors[k], name + "[" + std::to_string(k) + "]");
  }
}

void check(const LongRope& s, const Pairs& pairs) {
  check_positive(s.factor, "longrope factor");
  check_trained_length(s.trained_length, "longrope");
  check_list(s.short_factor, pairs, "longrope short_factor");
  check_list(s.long_factor, pairs, "longrope long_factor");
  check_not_negative(s.attention_factor.value_or(1), "longrope attention_factor");
  check_not_negative(s.short_mscale.value_or(1), "longrope short_mscale");
  check_not_negative(s.long_mscale.value_or(1), "longrope long_mscale");
}

void check(const Llama3& s, const Pairs&) {
  check_factor(s.factor, "llama3");
  check_trained_length(s.trained_length, "llama3");
  check_positive(s.low, "llama3 low");
  check_positive(s.high, "llama3 high");
  require(s.high >= s.low, "SCALING", "llama3 high must be at least low (" + text(s.low) + ")", s.high);
}

void check(const Proportional& s, const Pairs&) {
  check_factor(s.factor, "proportional");
  require(s.fraction > 0 && s.fraction <= 1, "SCALING", "proportional fraction must be in (0, 1]", s.fraction);
}

// ---- attention factors ----

template <class S>
High attention_factor(const S&, std::int64_t) {
  return 1;
}

// M(m) = magnitude * m * ln(factor) + 1. A magnitude of 0.1 means one tenth, not the double next to it.
High attention_factor(const Yarn& s, std::int64_t) {
  if (s.attention_factor) {
    return High(*s.attention_factor) * s.attn_factor;
  }
  const High magnitude = s.magnitude == 0.1 ? High(1) / 10 : High(s.magnitude);
  const High log_factor = log(High(s.factor));
  const auto m = [&](double mscale) { return magnitude * mscale * log_factor + 1; };
  if (s.mscale_ratio) {
    return m(s.mscale.value_or(1)) / m(s.mscale_all_dim.value_or(0)) * s.attn_factor;
  }
  const bool ratio = s.mscale.value_or(0) != 0 && s.mscale_all_dim.value_or(0) != 0;
  return (ratio ? m(*s.mscale) / m(*s.mscale_all_dim) : m(1)) * s.attn_factor;
}

// sqrt(1 + ln(factor) / ln(L0)), 1 for a factor up to 1, unless the card gives a number; the one for this length goes
// first.
High attention_factor(const LongRope& s, std::int64_t length) {
  if (const auto& mscale = length > s.trained_length ? s.long_mscale : s.short_mscale) {
    return *mscale;
  }
  if (s.attention_factor) {
    return *s.attention_factor;
  }
  if (s.factor <= 1) {
    return 1;
  }
  require(s.trained_length > 1, "SCALING",
          "longrope trained_length must be above 1 (the attention factor divides by its logarithm)", s.trained_length);
  return sqrt(1 + log(High(s.factor)) / log(High::integer(s.trained_length)));
}

// ---- learned values ----

void check_learned(const std::vector<double>& values, std::size_t pairs, const std::string& name) {
  if (values.empty()) return;
  require(values.size() == pairs, "SHAPE",
          name + " must be empty or have one entry per pair, " + std::to_string(pairs) + ",",
          static_cast<std::int64_t>(values.size()));
  for (std::size_t k = 0; k < values.size(); ++k) {
    check_finite(values[k], name + "[" + std::to_string(k) + "]");
  }
}

// What the rope's own values make of the scaling's frequencies: inv_freq replaces them, multiplier multiplies.
template <class Real>
std::vector<Real> learned(std::vector<Real> computed, const Rope& rope) {
  const auto real = [](double value) { return static_cast<Real>(value); };
  if (!rope.inv_freq.empty()) {
    std::transform(rope.inv_freq.begin(), rope.inv_freq.end(), computed.begin(), real);
  }
  for (std::size_t k = 0; k < rope.multiplier.size(); ++k) {
    computed[k] = computed[k] * real(rope.multiplier[k]);
  }
  return computed;
}

// ---- the rope's geometry ----

void check_geometry(const Rope& rope, int rotary_dim) {
  require(rope.head_dim > 0, "SHAPE", "head_dim must be above 0", std::int64_t{rope.head_dim});
  require(rotary_dim >= 2 && rotary_dim <= rope.head_dim, "SHAPE",
          "rotary_dim must be in [2, head_dim = " + std::to_string(rope.head_dim) + "]", std::int64_t{rotary_dim});
  require(rotary_dim % 2 == 0, "SHAPE", "rotary_dim must be even (two elements turn together)",
          std::int64_t{rotary_dim});
  require(rope.exponent_dim >= 0, "SHAPE", "exponent_dim must be at least 1, or 0 for rotary_dim,",
          std::int64_t{rope.exponent_dim});
  require(std::isfinite(rope.base) && rope.base > 1, "SCALING",
          "base must be finite and above 1 (at 1 all pairs would turn at the same speed, below 1 ever faster along the "
          "head)",
          rope.base);
  const auto pairs = static_cast<std::size_t>(rotary_dim / 2);
  const std::string one_each = " must be empty or have one entry per pair, " + std::to_string(pairs) + ",";
  require(rope.axis.empty() || rope.axis.size() == pairs, "SHAPE", "axis" + one_each,
          static_cast<std::int64_t>(rope.axis.size()));
  require(rope.index.empty() || rope.index.size() == pairs, "SHAPE", "index" + one_each,
          static_cast<std::int64_t>(rope.index.size()));
  for (const int i : rope.index) {
    require(i >= 0, "SHAPE", "every index must be at least 0", std::int64_t{i});
  }
  check_learned(rope.inv_freq, pairs, "inv_freq");
  check_learned(rope.multiplier, pairs, "multiplier");
}

// Only learned values may turn a pair backwards.
std::vector<double> to_doubles(const std::vector<High>& exact, bool may_be_negative) {
  std::vector<double> result;
  result.reserve(exact.size());
  for (const High& value : exact) {
    const auto rounded = static_cast<double>(value);
    if (!std::isfinite(rounded) || (rounded < 0 && !may_be_negative)) {
      throw Error("SCALING", std::string("[frequencies] every inv_freq must be finite") +
                                 (may_be_negative ? "" : " and at least 0") + " but pair " +
                                 std::to_string(result.size()) + " got " + text(rounded));
    }
    result.push_back(rounded);
  }
  return result;
}

// False where a float32 step overflowed or underflowed: a base above 3e38.
bool float32_holds(const Frequencies& f) {
  return std::equal(f.inv_freq.begin(), f.inv_freq.end(), f.inv_freq_float32.begin(),
                    [](double exact, float step) { return std::isfinite(step) && (step == 0) == (exact == 0); });
}

}  // namespace

const char* name(const Scaling& scaling) noexcept {
  struct Names {
    const char* operator()(const Unscaled&) { return "default"; }
    const char* operator()(const Linear&) { return "linear"; }
    const char* operator()(const Ntk&) { return "ntk"; }
    const char* operator()(const NtkFixed&) { return "ntk"; }
    const char* operator()(const Dynamic&) { return "dynamic"; }
    const char* operator()(const Yarn&) { return "yarn"; }
    const char* operator()(const LongRope&) { return "longrope"; }
    const char* operator()(const Llama3&) { return "llama3"; }
    const char* operator()(const Proportional&) { return "proportional"; }
  };
  return std::visit(Names{}, scaling);
}

Frequencies frequencies(const Rope& rope, std::int64_t length) {
  const FloatState to_nearest;
  const int rotary_dim = rope.rotary_dim == 0 ? rope.head_dim : rope.rotary_dim;
  check_geometry(rope, rotary_dim);
  require(length >= 0, "SHAPE", "length must be at least 0", length);

  std::vector<int> index = rope.index;
  if (index.empty()) {
    index.resize(static_cast<std::size_t>(rotary_dim / 2));
    std::iota(index.begin(), index.end(), 0);
  }
  const Pairs pairs{rope.base, rope.exponent_dim == 0 ? rotary_dim : rope.exponent_dim, index, length};
  const bool is_learned = !rope.inv_freq.empty() || !rope.multiplier.empty();
  return std::visit(
      [&](const auto& scaling) {
        check(scaling, pairs);
        Frequencies result;
        result.axis = rope.axis;
        result.clockwise = rope.clockwise;
        result.inv_freq = to_doubles(learned(scalings::inv_freq<scalings::Exact>(scaling, pairs), rope), is_learned);
        result.attention_factor = static_cast<double>(attention_factor(scaling, length));
        check_not_negative(result.attention_factor, "attention_factor");
        result.inv_freq_float32 = learned(scalings::inv_freq<scalings::Float32>(scaling, pairs), rope);
        if (!float32_holds(result)) {
          result.inv_freq_float32.clear();
        }
        return result;
      },
      rope.scaling);
}

}  // namespace rotary
