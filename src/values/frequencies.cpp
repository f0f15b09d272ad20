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
#include <variant>
#include <vector>

#include "number_text.h"
#include "pairings.h"
#include "rotary/rotary.h"
#include "runtime/float_state.h"
#include "scaling_fields.h"
#include "scalings.h"
#include "values/fail.h"

namespace rotary {

using namespace detail;
namespace {

using scalings::Need;
using scalings::Pairs;

// ---- error sentences ----

template <class Number>
void require(bool holds, Code code, const std::string& rule, Number value) {
  if (holds) return;
  if constexpr (std::is_floating_point_v<Number>) {
    fail(code, "frequencies", rule + " but got " + shortest(value));
  } else {
    fail(code, "frequencies", rule + " but got " + std::to_string(value));
  }
}

void check_positive(double value, const std::string& what) {
  require(std::isfinite(value) && value > 0, Code::SCALING, what + " must be finite and above 0", value);
}

void check_not_negative(double value, const std::string& what) {
  require(std::isfinite(value) && value >= 0, Code::SCALING, what + " must be finite and at least 0", value);
}

void check_finite(double value, const std::string& what) {
  require(std::isfinite(value), Code::SCALING, what + " must be finite", value);
}

// ---- what a scaling may hold: each value what its row says ----

// One value of a scaling.
struct ValueCheck {
  Need need;
  std::string what;  // "yarn beta_fast"
  const Pairs& pairs;

  void operator()(bool) const {}

  void operator()(std::int64_t value) const { require(value > 0, Code::SCALING, what + " must be above 0", value); }

  void operator()(double value) const {
    switch (need) {
      case Need::factor:
        return require(std::isfinite(value) && value >= 1, Code::SCALING,
                       what +
                           " must be finite and at least 1 (below 1 it would turn the pairs faster, which shortens "
                           "the context instead of extending it)",
                       value);
      case Need::not_negative:
        return check_not_negative(value, what);
      case Need::finite:
        return check_finite(value, what);
      case Need::share:
        return require(value >= 0 && value <= 1, Code::SCALING, what + " must be in [0, 1]", value);
      case Need::share_above_zero:
        return require(value > 0 && value <= 1, Code::SCALING, what + " must be in (0, 1]", value);
      case Need::positive:
      case Need::positive_per_pair:
      case Need::flag:
      case Need::length:
        return check_positive(value, what);
    }
  }

  void operator()(const std::optional<double>& value) const {
    if (value) (*this)(*value);
  }

  void operator()(const std::vector<double>& list) const {
    require(list.size() == pairs.index.size(), Code::SCALING,
            what + " must have one entry per pair, " + std::to_string(pairs.index.size()) + ",",
            static_cast<std::int64_t>(list.size()));
    for (std::size_t k = 0; k < list.size(); ++k) {
      check_positive(list[k], what + "[" + std::to_string(k) + "]");
    }
  }
};

// Rules that concern several values.
template <class S>
void check_together(const S&, const Pairs&) {}

void check_together(const Llama3& s, const Pairs&) {
  require(s.high >= s.low, Code::SCALING, "llama3 high must be at least low (" + shortest(s.low) + ")", s.high);
}

void check_together(const LongRope& s, const Pairs& pairs) {
  require(s.trained_length > 1 || !scalings::needs_log_of_length(s, pairs.length), Code::SCALING,
          "longrope trained_length must be above 1 (the attention factor divides by its logarithm)", s.trained_length);
}

template <class S>
void check(const S& scaling, const Pairs& pairs) {
  const std::string name = scalings::Row<S>::facts.name;
  scalings::for_each_field(scaling, [&](const auto& field, const auto& value) {
    ValueCheck{field.need, name + " " + field.name, pairs}(value);
  });
  if constexpr (scalings::Row<S>::facts.base == scalings::Base::grows) {
    require(pairs.r > 2, Code::SCALING,
            name + " needs an exponent_dim above 2 (the base grows with the power r / (r - 2))", std::int64_t{pairs.r});
  }
  check_together(scaling, pairs);
}

template <class S>
High attention_factor_of(const S& scaling, std::int64_t length) {
  if constexpr (scalings::Row<S>::facts.attention_factor == scalings::AttentionFactor::own) {
    return scalings::attention_factor(scaling, length);
  } else {
    return 1;
  }
}

// ---- learned values ----

void check_learned(const std::vector<double>& values, std::size_t pairs, const std::string& name) {
  if (values.empty()) return;
  require(values.size() == pairs, Code::SHAPE,
          name + " must be empty or have one entry per pair, " + std::to_string(pairs) + ",",
          static_cast<std::int64_t>(values.size()));
  for (std::size_t k = 0; k < values.size(); ++k) {
    check_finite(values[k], name + "[" + std::to_string(k) + "]");
  }
}

// Applies rope.inv_freq (replaces) and rope.multiplier (scales) to the computed frequencies.
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
  require(rope.head_dim > 0 && rope.head_dim <= 1 << 20, Code::SHAPE, "head_dim must be from 1 to 2^20",
          std::int64_t{rope.head_dim});
  require(rotary_dim >= 2 && rotary_dim <= rope.head_dim, Code::SHAPE,
          "rotary_dim must be in [2, head_dim = " + std::to_string(rope.head_dim) + "]", std::int64_t{rotary_dim});
  require(rotary_dim % 2 == 0, Code::SHAPE, "rotary_dim must be even (two elements turn together)",
          std::int64_t{rotary_dim});
  require(rope.exponent_dim >= 0, Code::SHAPE, "exponent_dim must be at least 1, or 0 for rotary_dim,",
          std::int64_t{rope.exponent_dim});
  require(std::isfinite(rope.base) && rope.base > 1, Code::SCALING,
          "base must be finite and above 1 (at 1 all pairs would turn at the same speed, below 1 ever faster along the "
          "head)",
          rope.base);
  const auto pairs = static_cast<std::size_t>(rotary_dim / 2);
  const std::string one_each = " must be empty or have one entry per pair, " + std::to_string(pairs) + ",";
  require(rope.axis.empty() || rope.axis.size() == pairs, Code::SHAPE, "axis" + one_each,
          static_cast<std::int64_t>(rope.axis.size()));
  require(rope.index.empty() || rope.index.size() == pairs, Code::SHAPE, "index" + one_each,
          static_cast<std::int64_t>(rope.index.size()));
  for (const int i : rope.index) {
    require(i >= 0, Code::SHAPE, "every index must be at least 0", std::int64_t{i});
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
      fail(Code::SCALING, "frequencies",
           std::string("every inv_freq must be finite") + (may_be_negative ? "" : " and at least 0") + " but pair " +
               std::to_string(result.size()) + " got " + std::to_string(rounded));
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

const char* name(const Scaling& scaling) noexcept { return scalings::facts_of(scaling).name; }

bool depends_on_length(const Scaling& scaling) noexcept {
  return scalings::facts_of(scaling).length == scalings::Length::counts;
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
  fail(Code::SCALING, "parse_scaling", "a scaling must be " + names + " but got '" + std::string(name) + "'");
}

Frequencies frequencies(const Rope& rope) {
  detail::check_pairing("frequencies", rope.pairing);
  if (depends_on_length(rope.scaling)) {
    fail(Code::LENGTH, "frequencies",
         std::string("a rope scaled by ") + name(rope.scaling) + " needs the length: call frequencies(rope, length)");
  }
  return frequencies(rope, 0);
}

Frequencies frequencies(const Rope& rope, std::int64_t length) {
  const FloatState to_nearest;
  detail::check_pairing("frequencies", rope.pairing);
  const int rotary_dim = rope.rotary_dim == 0 ? rope.head_dim : rope.rotary_dim;
  check_geometry(rope, rotary_dim);
  require(length >= 0, Code::SHAPE, "length must be at least 0", length);

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
        result.pairing = rope.pairing;
        result.axis = rope.axis;
        result.clockwise = rope.clockwise;
        result.inv_freq = to_doubles(learned(scalings::inv_freq<scalings::Exact>(scaling, pairs), rope), is_learned);
        result.attention_factor =
            rope.attention_factor.value_or(static_cast<double>(attention_factor_of(scaling, length)));
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
