#include "explain.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "values/number_text.h"
#include "values/scaling_fields.h"

namespace rotary::diagnose {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

using detail::significant;

std::vector<double> frequencies_of(const Rope& rope, std::int64_t length) {
  try {
    return frequencies(rope, length).inv_freq;
  } catch (const Error&) {
    return {};
  }
}

// ---- a base from speeds ----

// ln speed = intercept - slope * exponent, by weighted least squares.
struct Line {
  double slope = 0, intercept = 0;
  double slope_error = infinite, intercept_error = infinite;
};

// Over the pairs for which use(pair); scale_free: the intercept is fitted too.
Line fit_line(const std::vector<Speed>& speeds, const std::vector<double>& exponent, bool scale_free) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    const double relative = speeds[i].error / speeds[i].value;
    if (!(speeds[i].value > 0) || !(relative < 0.05)) continue;
    const double weight = 1 / (relative * relative);
    w += weight;
    wx += weight * exponent[i];
    wxx += weight * exponent[i] * exponent[i];
    wy += weight * std::log(speeds[i].value);
    wxy += weight * exponent[i] * std::log(speeds[i].value);
  }
  Line line;
  if (!scale_free) {
    if (wxx <= 0) return line;
    return {-wxy / wxx, 0, 1 / std::sqrt(wxx), 0};
  }
  const double determinant = w * wxx - wx * wx;
  if (determinant <= 1e-12 * w * wxx) return line;
  const double rise = (w * wxy - wx * wy) / determinant;
  return {-rise, (wy - rise * wx) / w, std::sqrt(w / determinant), std::sqrt(wxx / determinant)};
}

// The number of fewest digits within the error.
double tidy(double value, double error) {
  for (int digits = 1; digits <= 12; ++digits) {
    const double rounded = std::stod(significant(value, digits));
    if (std::abs(rounded - value) <= error) return rounded;
  }
  return value;
}

std::vector<double> exponents_of(const Rope& rope) {
  const int width = rope.exponent_dim != 0 ? rope.exponent_dim : rope.rotary_dim;
  std::vector<double> exponent;
  for (int i = 0; i < rope.rotary_dim / 2; ++i) {
    const int index = rope.index.empty() ? i : rope.index[static_cast<std::size_t>(i)];
    exponent.push_back(2.0 * index / width);
  }
  return exponent;
}

std::optional<double> tidy_base(const Line& line) {
  if (!std::isfinite(line.slope_error) || line.slope > 60 || line.slope <= 0) return std::nullopt;
  const double base = std::exp(line.slope);
  return tidy(base, base * std::max(3 * line.slope_error, 3e-6));
}

// The base for which the rope fits best, if the scaling keeps its values.
std::optional<Rope> with_best_base(const std::vector<Speed>& speeds, Rope rope, std::int64_t length) {
  const std::vector<double> exponent = exponents_of(rope);
  // Divide the scaling out, take the base of what is left, and repeat: the scaling depends on the base.
  for (int round = 0; round < 30; ++round) {
    Rope plain = rope;
    plain.scaling = Unscaled{};
    const std::vector<double> scaled = frequencies_of(rope, length), unscaled = frequencies_of(plain, length);
    if (scaled.size() != speeds.size() || unscaled.size() != speeds.size()) return std::nullopt;
    std::vector<Speed> left = speeds;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const double stretch = scaled[i] > 0 ? unscaled[i] / scaled[i] : 1;
      left[i].value *= stretch;
      left[i].error *= stretch;
    }
    const Line line = fit_line(left, exponent, false);
    if (!std::isfinite(line.slope_error) || line.slope <= 0 || line.slope > 60) return std::nullopt;
    const double base = std::exp(line.slope);
    if (base <= 1) return std::nullopt;
    const bool settled = std::abs(base - rope.base) <= 1e-12 * base;
    rope.base = base;
    if (!settled && round < 29) continue;
    Rope tidied = rope;
    tidied.base = *tidy_base(line);
    return misfit_of(speeds, tidied, length) <= 1 ? tidied : rope;
  }
  return rope;
}

// ---- other ropes ----

double factor_of(const Scaling& scaling) {
  const double* factor = scalings::value_of<double>(scaling, "factor");
  return factor != nullptr ? *factor : 1;
}
std::int64_t trained_length_of(const Scaling& scaling) {
  const std::int64_t* length = scalings::value_of<std::int64_t>(scaling, "trained_length");
  return length != nullptr ? *length : 0;
}

Rope with(Rope rope, Scaling scaling) {
  rope.scaling = std::move(scaling);
  return rope;
}
Rope with_base(Rope rope, double base) {
  rope.base = base;
  return rope;
}

// Whether a factor and a trained length describe the scaling, the rest of its values by default: no list, no share of
// the pairs.
template <class S>
constexpr bool is_guessed() {
  return std::apply(
      [](const auto&... field) {
        using scalings::Need;
        return (... || (std::string_view(field.name) == "factor")) &&
               !(... || (field.need == Need::positive_per_pair || field.need == Need::share_above_zero));
      },
      scalings::Row<S>::fields);
}

// The other scalings with that factor and these lengths: every one of the variant that these two describe.
void add_scalings(std::vector<Explanation>& list, const Rope& rope, double factor,
                  const std::vector<std::int64_t>& lengths, bool with_dynamic) {
  if (!(factor > 1)) return;
  const auto add = [&](const Scaling& scaling) {
    list.push_back({with(rope, scaling), 0, "with " + words_of(scaling)});
  };
  const auto add_all = [&](bool by_length, bool has_length, std::int64_t length) {
    scalings::for_each_scaling([&]<class S>(S guess) {
      if constexpr (is_guessed<S>()) {
        if (depends_on_length(guess) != by_length) return;
        guess.factor = factor;
        if constexpr (requires { guess.trained_length; }) {
          if (!has_length) return;
          guess.trained_length = length;
        } else {
          if (has_length) return;
        }
        add(guess);
        if constexpr (std::is_same_v<S, Yarn>) {
          guess.truncate = false;
          add(guess);
        }
      }
    });
  };
  add_all(false, false, 0);
  for (const std::int64_t length : lengths) {
    add_all(false, true, length);
    if (with_dynamic) add_all(true, true, length);
  }
}

// Longer and shorter sequences: the other list of longrope, dynamic within its trained length.
void add_lengths(std::vector<Explanation>& list, const Rope& asked, std::int64_t length, std::int64_t context) {
  const std::int64_t trained = trained_length_of(asked.scaling);
  const bool has_lists = std::holds_alternative<LongRope>(asked.scaling);
  const std::string kind = name(asked.scaling), limit = std::to_string(trained);
  if (length > trained) {
    list.push_back({asked, trained,
                    has_lists ? "with the short list of longrope, as for lengths up to " + limit
                              : "as " + kind + " does for lengths up to " + limit});
    return;
  }
  for (const std::int64_t longer : {context, trained + 1, 2 * trained, 4 * trained}) {
    if (longer <= trained) continue;
    list.push_back({asked, longer,
                    has_lists ? "with the long list of longrope, as for lengths above " + limit
                              : "as " + kind + " does for a length of " + std::to_string(longer)});
  }
}

// The scaling with other values: another factor, another trained length, what yarn can leave out.
void add_values(std::vector<Explanation>& list, const Rope& asked, std::int64_t context) {
  const auto add = [&](const Scaling& scaling) {
    if (scaling != asked.scaling) list.push_back({with(asked, scaling), 0, "with " + words_of(scaling)});
  };
  std::visit(
      [&](const auto& own) {
        using S = std::decay_t<decltype(own)>;
        if constexpr (std::is_same_v<S, Yarn>) {
          S other = own;
          other.truncate = !own.truncate;
          add(other);
          other = own;
          other.beta_fast = 32;
          other.beta_slow = 1;
          add(other);
        }
        if constexpr (requires { own.trained_length; } && !std::is_same_v<S, LongRope>) {
          std::vector<std::int64_t> lengths = {context};
          for (std::int64_t length = 1024; length <= (1 << 20); length *= 2) lengths.push_back(length);
          for (const std::int64_t length : lengths) {
            S other = own;
            other.trained_length = length;
            if (length > 0) add(other);
          }
        }
        if constexpr (requires { own.factor; } && !std::is_same_v<S, LongRope>) {
          for (const double factor : {2., 3., 4., 5., 6., 8., 10., 16., 20., 32., 40., 64., 128.}) {
            S other = own;
            other.factor = factor;
            add(other);
          }
        }
      },
      asked.scaling);
}

// The scaling applied to speeds that have it already.
void add_scaled_twice(std::vector<Explanation>& list, const Rope& asked, std::int64_t length) {
  Rope again = with(asked, Unscaled{});
  std::vector<double> twice = frequencies_of(asked, length);
  const std::vector<double> once = frequencies_of(again, length);
  if (twice.size() != once.size()) return;
  for (std::size_t i = 0; i < twice.size(); ++i) twice[i] *= once[i] > 0 ? twice[i] / once[i] : 1;
  again.inv_freq = twice;
  list.push_back({again, length, std::string("with the scaling ") + name(asked.scaling) + " applied twice"});
}

}  // namespace

std::string words_of(const Scaling& scaling) {
  if (std::holds_alternative<Unscaled>(scaling)) return "no scaling";
  std::string words = std::string("the scaling ") + name(scaling);
  std::string values;
  if (const double* factor = scalings::value_of<double>(scaling, "factor")) {
    values = "factor " + significant(*factor, 6);
  }
  if (const std::int64_t trained = trained_length_of(scaling); trained > 0) {
    values += (values.empty() ? "" : ", ") + std::string("trained length ") + std::to_string(trained);
  }
  if (const Yarn* yarn = std::get_if<Yarn>(&scaling)) {
    if (yarn->beta_fast != 32 || yarn->beta_slow != 1) {
      values += ", beta_fast " + significant(yarn->beta_fast, 6) + ", beta_slow " + significant(yarn->beta_slow, 6);
    }
    if (!yarn->truncate) values += ", not truncated";
  }
  return values.empty() ? words : words + " (" + values + ")";
}

std::vector<Explanation> rivals(const Rope& asked, std::int64_t length, std::int64_t context) {
  std::vector<Explanation> list;
  const bool scaled = !std::holds_alternative<Unscaled>(asked.scaling);
  if (depends_on_length(asked.scaling)) add_lengths(list, asked, length, context);
  if (scaled) list.push_back({with(asked, Unscaled{}), 0, std::string("without the scaling ") + name(asked.scaling)});
  add_values(list, asked, context);
  std::vector<std::int64_t> lengths;
  for (const std::int64_t one : {trained_length_of(asked.scaling), context}) {
    if (one > 0 && std::find(lengths.begin(), lengths.end(), one) == lengths.end()) lengths.push_back(one);
  }
  add_scalings(list, asked, factor_of(asked.scaling), lengths, true);
  if (scaled) add_scaled_twice(list, asked, length);
  if (asked.inv_freq.empty()) {
    for (const double base : {1e4, 1e5, 1.5e5, 1.6e5, 2.5e5, 5e5, 1e6, 2e6, 5e6, 8e6, 1e7, 1e8}) {
      if (base == asked.base) continue;
      const std::string words = "with base " + significant(base, 10);
      list.push_back({with_base(asked, base), length, words});
      if (scaled) {
        list.push_back(
            {with_base(with(asked, Unscaled{}), base), 0, words + " and without the scaling " + name(asked.scaling)});
      }
    }
  }
  for (Explanation& one : list) {
    if (one.length == 0) one.length = length;
  }
  std::erase_if(list, [](const Explanation& one) { return frequencies_of(one.rope, one.length).empty(); });
  return list;
}

namespace {

// Scalings of any factor and any length of a power of two.
std::vector<Explanation> searched_scalings(const std::vector<Speed>& speeds, const Rope& plain) {
  const std::vector<double> unscaled = frequencies_of(plain, 0);
  double factor = 1;
  for (std::size_t i = 0; i < speeds.size() && i < unscaled.size(); ++i) {
    if (!(speeds[i].value > 0) || !(speeds[i].error < 0.05 * speeds[i].value)) continue;
    const double stretch = unscaled[i] / speeds[i].value;
    if (stretch > factor) factor = tidy(stretch, stretch * speeds[i].error / speeds[i].value);
  }
  std::vector<std::int64_t> lengths;
  for (std::int64_t length = 512; length <= (std::int64_t{1} << 21); length *= 2) lengths.push_back(length);
  std::vector<Explanation> list;
  add_scalings(list, plain, factor, lengths, false);
  return list;
}

}  // namespace

double misfit_of(const std::vector<Speed>& speeds, const Rope& rope, std::int64_t length, double scale) {
  const std::vector<double> expected = frequencies_of(rope, length);
  if (expected.size() != speeds.size()) return infinite;
  double worst = 0;
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    if (!std::isfinite(speeds[i].error)) continue;
    worst = std::max(worst, std::abs(speeds[i].value - scale * expected[i]) / (speeds[i].error + 1e-300));
  }
  return worst;
}

std::optional<Explanation> explain_speeds(const std::vector<Speed>& speeds, const Rope& asked, std::int64_t length) {
  if (!asked.inv_freq.empty()) return std::nullopt;
  const auto explains = [&](const Explanation& one) { return misfit_of(speeds, one.rope, one.length) <= 1; };
  const Rope plain = with(asked, Unscaled{});
  const bool scaled = !std::holds_alternative<Unscaled>(asked.scaling);
  const auto words = [](const Rope& rope) { return "with base " + significant(rope.base, 10); };
  if (scaled && !depends_on_length(asked.scaling)) {
    if (const auto rope = with_best_base(speeds, asked, length)) {
      const Explanation found{*rope, length, words(*rope)};
      if (explains(found)) return found;
    }
  }
  if (const auto rope = with_best_base(speeds, plain, 0)) {
    const Explanation found{
        *rope, 0, words(*rope) + (scaled ? std::string(" and without the scaling ") + name(asked.scaling) : "")};
    if (explains(found)) return found;
  }
  for (Explanation& one : searched_scalings(speeds, plain)) {
    if (explains(one)) return one;
  }
  return fit_speeds(speeds, asked.rotary_dim, true);
}

std::optional<Explanation> fit_speeds(const std::vector<Speed>& speeds, int rotary_dim, bool scale_known) {
  Rope rope{.head_dim = rotary_dim, .rotary_dim = rotary_dim, .pairing = Pairing::half};
  const std::vector<double> exponent = exponents_of(rope);
  const auto accept = [&](Rope candidate, double scale, std::string words) -> std::optional<Explanation> {
    const double worst = misfit_of(speeds, candidate, 0, scale);
    if (worst > 1) return std::nullopt;
    return Explanation{std::move(candidate), 0, std::move(words)};
  };
  if (scale_known) {
    if (const std::optional<double> base = tidy_base(fit_line(speeds, exponent, false)); base && *base > 1) {
      if (auto found = accept(with_base(rope, *base), 1, "with base " + significant(*base, 10))) return found;
    }
  }
  const Line line = fit_line(speeds, exponent, true);
  if (const std::optional<double> base = tidy_base(line); base && *base > 1) {
    const double factor = tidy(std::exp(-line.intercept), std::exp(-line.intercept) * line.intercept_error);
    const Rope plain = with_base(rope, *base);
    if (!scale_known) {
      if (auto found = accept(plain, std::exp(line.intercept), "with base " + significant(*base, 10))) return found;
    } else if (factor >= 1) {
      const std::string words = "with base " + significant(*base, 10) + " and " + words_of(Linear{factor});
      if (auto found = accept(with(plain, Linear{factor}), 1, words)) return found;
    }
  }
  if (!scale_known) return std::nullopt;
  // The fastest pairs keep their speed under every scaling by parts: they give the base.
  std::vector<Speed> fastest = speeds;
  const std::size_t kept = std::max<std::size_t>(3, speeds.size() / 6);
  for (std::size_t i = kept; i < fastest.size(); ++i) fastest[i].error = infinite;
  const std::optional<double> base = tidy_base(fit_line(fastest, exponent, false));
  if (!base || *base <= 1) return std::nullopt;
  for (const Explanation& one : searched_scalings(speeds, with_base(rope, *base))) {
    const std::string words = "with base " + significant(*base, 10) + " and " + words_of(one.rope.scaling);
    if (auto found = accept(one.rope, 1, words)) return found;
  }
  return std::nullopt;
}

}  // namespace rotary::diagnose
