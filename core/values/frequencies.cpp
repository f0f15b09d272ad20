// Rope -> Frequencies: the checks by the rows of scaling_fields.h, the formulas of scalings.h in both arithmetics.
#include "runtime/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "pairings.h"
#include "rotary/rotary.h"
#include "runtime/float_state.h"
#include "scaling_fields.h"
#include "scalings.h"
#include "table/table_checks.h"
#include "values/fail.h"

namespace rotary {

using namespace detail;
namespace {

using scalings::Need;
using scalings::Pairs;

// ---- error sentences, whose parts are joined only if a rule is broken ----

template <class... Rule>
void require(bool holds, Code code, const SentencePart& value, Rule... rule) {
  if (!holds) fail(code, "frequencies", rule..., " but got ", value);
}

template <class... What>
void check_positive(double value, What... what) {
  require(std::isfinite(value) && value > 0, Code::SCALING, value, what..., " must be finite and above 0");
}

template <class... What>
void check_not_negative(double value, What... what) {
  require(std::isfinite(value) && value >= 0, Code::SCALING, value, what..., " must be finite and at least 0");
}

template <class... What>
void check_finite(double value, What... what) {
  require(std::isfinite(value), Code::SCALING, value, what..., " must be finite");
}

// ---- values of a scaling: each in the range of its row ----

struct ValueCheck {
  Need need;
  const char* scaling;
  const char* name;
  const Pairs& pairs;

  void operator()(bool) const {}

  void operator()(std::int64_t value) const {
    require(value > 0, Code::SCALING, value, scaling, " ", name, " must be above 0");
  }

  void operator()(double value) const {
    switch (need) {
      case Need::factor:
        return require(std::isfinite(value) && value >= 1, Code::SCALING, value, scaling, " ", name,
                       " must be finite and at least 1 (below 1 it would turn the pairs faster, which shortens the "
                       "context instead of extending it)");
      case Need::not_negative:
        return check_not_negative(value, scaling, " ", name);
      case Need::finite:
        return check_finite(value, scaling, " ", name);
      case Need::share:
        return require(value >= 0 && value <= 1, Code::SCALING, value, scaling, " ", name, " must be in [0, 1]");
      case Need::share_above_zero:
        return require(value > 0 && value <= 1, Code::SCALING, value, scaling, " ", name, " must be in (0, 1]");
      case Need::turns:  // so that trained_length / (2 pi turns) is above 0 and finite
        check_positive(value, scaling, " ", name);
        return require(value >= 1e-100 && value <= 1e100, Code::SCALING, value, scaling, " ", name,
                       " must be from 1e-100 to 1e100");
      case Need::positive:
      case Need::positive_per_pair:
      case Need::flag:
      case Need::length:
        return check_positive(value, scaling, " ", name);
    }
  }

  void operator()(const std::optional<double>& value) const {
    if (value) (*this)(*value);
  }

  void operator()(const std::vector<double>& list) const {
    require(list.size() == pairs.index.size(), Code::SCALING, list.size(), scaling, " ", name,
            " must have one entry per pair, ", pairs.index.size(), ",");
    for (std::size_t k = 0; k < list.size(); ++k) check_positive(list[k], scaling, " ", name, "[", k, "]");
  }
};

template <class S>
void check_together(const S&, const Pairs&) {}

void check_together(const Llama3& s, const Pairs&) {
  require(s.high >= s.low, Code::SCALING, s.high, "llama3 high must be at least low (", s.low, ")");
}

template <class S>
requires std::same_as<S, Yarn> || std::same_as<S, YarnLog>
void check_together(const S& s, const Pairs&) {
  require(s.beta_fast >= s.beta_slow, Code::SCALING, s.beta_fast, scalings::Row<S>::facts.name,
          " beta_fast must be at least beta_slow (", s.beta_slow, ")");
}

void check_together(const LongRope& s, const Pairs& pairs) {
  require(s.trained_length > 1 || !scalings::needs_log_of_length(s, pairs.length), Code::SCALING, s.trained_length,
          "longrope trained_length must be above 1 (the attention factor divides by its logarithm)");
}

void check_together(const ThetaScale& s, const Pairs&) {
  require(s.trained_length > 6, Code::SCALING, s.trained_length,
          "theta_scale trained_length must be above 2 pi (the exponent of the base divides by its logarithm)");
}

template <class S>
void check(const S& scaling, const Pairs& pairs) {
  const char* const name = scalings::Row<S>::facts.name;
  scalings::for_each_field(scaling, [&](const auto& field, const auto& value) {
    ValueCheck{field.need, name, field.name, pairs}(value);
  });
  if constexpr (scalings::Row<S>::facts.base == scalings::Base::grows) {
    require(pairs.r > 2, Code::SCALING, pairs.r, name,
            " needs an exponent_dim above 2 (the base grows with the power r / (r - 2))");
  }
  check_together(scaling, pairs);
}

// The frequencies of the pairs under a scaling, in both arithmetics.
struct Computed {
  std::vector<High> inv_freq;
  std::vector<float> inv_freq_float32;
  High attention_factor = 1;
};

template <class S>
Computed compute(const S& scaling, const Pairs& pairs) {
  check(scaling, pairs);
  Computed result{scalings::inv_freq<scalings::Exact>(scaling, pairs),
                  scalings::inv_freq<scalings::Float32>(scaling, pairs)};
  if constexpr (scalings::Row<S>::facts.attention_factor == scalings::AttentionFactor::own)
    result.attention_factor = scalings::attention_factor(scaling, pairs.length);
  return result;
}

// ---- learned values ----

// Replaces the computed frequencies by rope.inv_freq and multiplies each row by rope.multiplier.
template <class Real>
std::vector<Real> learned(std::vector<Real> computed, const Rope& rope) {
  const auto real = [](double value) { return static_cast<Real>(value); };
  if (!rope.inv_freq.empty()) {
    computed.resize(rope.inv_freq.size());
    std::transform(rope.inv_freq.begin(), rope.inv_freq.end(), computed.begin(), real);
  }
  for (std::size_t k = 0; k < computed.size() && !rope.multiplier.empty(); ++k)
    computed[k] = computed[k] * real(rope.multiplier[k % rope.multiplier.size()]);
  return computed;
}

// ---- the rope's geometry ----

// Whether the rope has more than one frequency for each pair; checked_pairs() checks the rest.
bool is_general(const Rope& rope) {
  return rope.head_rows != 1 || rope.summed_axes != 0 || !rope.phase.empty() || rope.xpos.scale != 0;
}

void check_geometry(const Rope& rope, int rotary_dim) {
  require(rope.head_dim > 0 && rope.head_dim <= 1 << 20, Code::SHAPE, rope.head_dim, "head_dim must be from 1 to 2^20");
  require(rotary_dim >= 2 && rotary_dim <= rope.head_dim, Code::SHAPE, rotary_dim,
          "rotary_dim must be in [2, head_dim = ", rope.head_dim, "]");
  require(rotary_dim % 2 == 0, Code::SHAPE, rotary_dim, "rotary_dim must be even (two elements turn together)");
  require(rope.exponent_dim >= 0, Code::SHAPE, rope.exponent_dim,
          "exponent_dim must be at least 1, or 0 for rotary_dim,");
  require(std::isfinite(rope.base) && rope.base > 1, Code::SCALING, rope.base,
          "base must be finite and above 1 (at 1 all pairs would turn at the same speed, below 1 ever faster along the "
          "head)");
  require(rope.summed_axes >= 0 && rope.summed_axes <= 256, Code::SHAPE, rope.summed_axes,
          "summed_axes must be from 0 to 256");
  const auto pairs = static_cast<std::size_t>(rotary_dim / 2);
  const auto one_each = [&](const char* name, std::size_t size) {
    require(size == 0 || size == pairs, Code::SHAPE, size, name, " must be empty or have one entry per pair, ", pairs,
            ",");
  };
  one_each("axis", rope.axis.size());
  one_each("index", rope.index.size());
  for (const int i : rope.index) require(i >= 0, Code::SHAPE, i, "every index must be at least 0");
  for (const auto& [name, values] : {std::pair("inv_freq", &rope.inv_freq), {"multiplier", &rope.multiplier}}) {
    if (!is_general(rope) || values != &rope.inv_freq) one_each(name, values->size());
    for (std::size_t k = 0; k < values->size(); ++k) check_finite((*values)[k], name, "[", k, "]");
  }
}

std::vector<double> to_doubles(const std::vector<High>& exact) {
  std::vector<double> result;
  result.reserve(exact.size());
  for (const High& value : exact) {
    const auto rounded = static_cast<double>(value);
    if (!std::isfinite(rounded))
      fail(Code::SCALING, "frequencies", "every inv_freq must be finite but pair ", result.size(), " got ", rounded);
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

const char* name(const Scaling& scaling) noexcept { return scalings::facts_of(scaling).name; }

bool depends_on_length(const Scaling& scaling) noexcept {
  return scalings::facts_of(scaling).length == scalings::Length::counts;
}

std::vector<ScalingValue> values_of(Scaling& scaling) {
  std::vector<ScalingValue> values;
  std::visit(
      [&](auto& held) {
        scalings::for_each_field(held, [&](const auto& field, auto& value) { values.push_back({field.name, &value}); });
      },
      scaling);
  return values;
}

Scaling parse_scaling(std::string_view name) {
  std::optional<Scaling> found;
  std::string names;
  scalings::for_each_scaling([&](const auto& scaling) {
    const std::string known = scalings::name_of(scaling);
    names += (names.empty() ? "" : ", ") + known;
    if (name == known) found = scaling;
  });
  if (found) return *found;
  names.replace(names.rfind(", "), 2, " or ");
  fail(Code::SCALING, "parse_scaling", "a scaling must be ", names, " but got '", name, "'");
}

Frequencies frequencies(const Rope& rope) {
  detail::check_pairing("frequencies", rope.pairing);
  if (depends_on_length(rope.scaling))
    fail(Code::LENGTH, "frequencies", "a rope scaled by ", name(rope.scaling),
         " needs the length of the sequence but got none");
  return frequencies(rope, 0);
}

Frequencies frequencies(const Rope& rope, std::int64_t length) {
  const FloatState to_nearest;
  detail::check_pairing("frequencies", rope.pairing);
  const int rotary_dim = rope.rotary_dim == 0 ? rope.head_dim : rope.rotary_dim;
  check_geometry(rope, rotary_dim);
  require(length >= 0, Code::SHAPE, length, "length must be at least 0");

  std::vector<int> index = rope.index;
  if (index.empty()) {
    index.resize(static_cast<std::size_t>(rotary_dim / 2));
    std::iota(index.begin(), index.end(), 0);
  }
  const int r = rope.exponent_dim == 0 ? rotary_dim : rope.exponent_dim;
  const Pairs pairs{rope.base, log(High(rope.base)), r, index, length};
  Computed computed = std::visit([&](const auto& scaling) { return compute(scaling, pairs); }, rope.scaling);

  Frequencies result;
  result.pairing = rope.pairing;
  result.axis = rope.axis;
  result.clockwise = rope.clockwise;
  result.head_rows = rope.head_rows;
  result.summed_axes = rope.summed_axes;
  result.phase = rope.phase;
  result.xpos = rope.xpos;
  result.inv_freq = to_doubles(learned(std::move(computed.inv_freq), rope));
  result.attention_factor = rope.attention_factor.value_or(static_cast<double>(computed.attention_factor));
  check_not_negative(result.attention_factor, "attention_factor");
  result.inv_freq_float32 = learned(std::move(computed.inv_freq_float32), rope);
  if (!float32_holds(result)) result.inv_freq_float32.clear();
  if (is_general(rope)) {
    const int has = checked_pairs(result);
    if (has != rotary_dim / 2)
      fail(Code::SHAPE, "frequencies", "inv_freq must have ", rotary_dim / 2, " pairs for each head but got ", has,
           advice_on(rope.head_rows));
  }
  return result;
}

}  // namespace rotary
