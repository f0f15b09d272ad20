// The base and scaling that explain the speeds of pairs.
#include <algorithm>
#include <cmath>
#include <limits>

#include "motion.h"
#include "values/number_text.h"
#include "values/scaling_fields.h"

namespace rotary::diagnose {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

using detail::significant;
using Explanations = std::vector<Explanation>;
using Lengths = std::vector<std::int64_t>;

// Empty where the rope is invalid.
std::vector<double> frequencies_of(const Rope& rope, std::int64_t length) {
  try {
    return frequencies(rope, length).inv_freq;
  } catch (const Error&) {
    return {};
  }
}

double factor_of(const Scaling& scaling) {
  const double* factor = scalings::value_of<double>(scaling, "factor");
  return factor != nullptr ? *factor : 1;
}
std::int64_t trained_length_of(const Scaling& scaling) {
  const std::int64_t* length = scalings::value_of<std::int64_t>(scaling, "trained_length");
  return length != nullptr ? *length : 0;
}
bool is_scaled(const Rope& rope) { return !std::holds_alternative<Unscaled>(rope.scaling); }

Rope with(Rope rope, Scaling scaling) {
  rope.scaling = std::move(scaling);
  return rope;
}
Rope with_base(Rope rope, double base) {
  rope.base = base;
  return rope;
}
Finding base_found(double base, double error = 0) { return finding(Cause::base, {{"base", base, 10, error}}); }
Finding scaling_found(const Scaling& scaling) {
  return finding(Cause::scaling, {{"scaling", NamedRope{.scaling = scaling}}});
}
Number left_out(const Rope& rope) { return {"left_out", name(rope.scaling)}; }
Explanation as_dynamic(const Rope& asked, std::int64_t length) {
  const double base = std::pow(frequencies(asked, length).inv_freq.back(), asked.rotary_dim / (2.0 - asked.rotary_dim));
  return {
      asked, length,
      finding(Cause::other_length, {{"scaling", name(asked.scaling)}, {"tokens", number(length)}, {"base", base, 6}})};
}

// ---- a base from speeds ----

// ln speed = intercept - slope * exponent, by weighted least squares.
struct Line {
  double slope = 0, intercept = 0;
  double slope_error = infinite, intercept_error = infinite;
};

// intercept_free: the intercept is fitted too, else 0.
Line fit_line(const std::vector<Speed>& speeds, const std::vector<double>& exponent, bool intercept_free) {
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
  if (!intercept_free) return wxx <= 0 ? Line{} : Line{-wxy / wxx, 0, 1 / std::sqrt(wxx), 0};
  const double determinant = w * wxx - wx * wx;
  if (determinant <= 1e-12 * w * wxx) return {};
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

// Above 1; none where the line gives no base.
std::optional<double> base_of(const Line& line) {
  if (!std::isfinite(line.slope_error) || line.slope > 60 || line.slope <= 0) return std::nullopt;
  const double base = std::exp(line.slope);
  return base > 1 ? std::optional(base) : std::nullopt;
}
double error_of_base(const Line& line) { return std::exp(line.slope) * std::max(3 * line.slope_error, 3e-6); }
std::optional<double> tidy_base(const Line& line) {
  const std::optional<double> base = base_of(line);
  if (!base) return std::nullopt;
  const double tidied = tidy(*base, error_of_base(line));
  return tidied > 1 ? std::optional(tidied) : std::nullopt;
}

// The largest difference between the speeds and the rope's frequencies, in errors; infinite where the rope is invalid.
double misfit_of(const std::vector<Speed>& speeds, const Rope& rope, std::int64_t length, double scale = 1) {
  const std::vector<double> expected = frequencies_of(rope, length);
  if (expected.size() != speeds.size()) return infinite;
  double worst = 0;
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    if (!std::isfinite(speeds[i].error)) continue;
    worst = std::max(worst, std::abs(speeds[i].value - scale * expected[i]) / (speeds[i].error + 1e-300));
  }
  return worst;
}

// The base for which the rope fits best, if the scaling keeps its values.
struct Based {
  Rope rope;
  double error;  // of its base
};
std::optional<Based> with_best_base(const std::vector<Speed>& speeds, Rope rope, std::int64_t length) {
  const std::vector<double> exponent = exponents_of(rope);
  // Divide the scaling out, take the base of what is left, and repeat: the scaling depends on the base.
  for (int round = 0; round < 30; ++round) {
    const std::vector<double> scaled = frequencies_of(rope, length),
                              unscaled = frequencies_of(with(rope, Unscaled{}), length);
    if (scaled.size() != speeds.size() || unscaled.size() != speeds.size()) return std::nullopt;
    std::vector<Speed> left = speeds;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const double stretch = scaled[i] > 0 ? unscaled[i] / scaled[i] : 1;
      left[i].value *= stretch;
      left[i].error *= stretch;
    }
    const Line line = fit_line(left, exponent, false);
    const std::optional<double> base = base_of(line);
    if (!base) return std::nullopt;
    const bool settled = std::abs(*base - rope.base) <= 1e-12 * *base;
    rope.base = *base;
    if (!settled && round < 29) continue;
    if (const std::optional<double> tidied = tidy_base(line)) {
      if (misfit_of(speeds, with_base(rope, *tidied), length) <= 1)
        return Based{with_base(rope, *tidied), error_of_base(line)};
    }
    return Based{rope, error_of_base(line)};
  }
  return std::nullopt;
}

// ---- other ropes ----

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
void add_scalings(Explanations& list, const Rope& rope, double factor, const Lengths& lengths, bool with_dynamic) {
  if (!(factor > 1)) return;
  scalings::for_each_scaling([&]<class S>(S guess) {
    if constexpr (is_guessed<S>()) {
      if (depends_on_length(guess) && !with_dynamic) return;
      guess.factor = factor;
      const auto add = [&] { list.push_back({with(rope, guess), 0, scaling_found(guess)}); };
      if constexpr (requires { guess.trained_length; }) {
        for (const std::int64_t length : lengths) {
          guess.trained_length = length;
          add();
          if constexpr (std::is_same_v<S, Yarn>) {
            guess.truncate = false;
            add();
            guess.truncate = true;
          }
        }
      } else {
        add();
      }
    }
  });
}

// The other lengths at which a scaling has other frequencies.
void add_lengths(Explanations& list, const Rope& asked, std::int64_t length, std::int64_t context) {
  const std::int64_t trained = trained_length_of(asked.scaling);
  const Number limit{"trained", number(trained)};
  if (std::holds_alternative<LongRope>(asked.scaling)) {
    const bool is_long = length > trained;
    list.push_back(
        {asked, is_long ? trained : trained + 1, finding(is_long ? Cause::short_list : Cause::long_list, {limit})});
    return;
  }
  if (length > trained)
    list.push_back({asked, trained, finding(Cause::within_length, {{"scaling", name(asked.scaling)}, limit})});
  for (const std::int64_t longer : {context, trained + 1, 2 * trained, 4 * trained}) {
    if (longer > trained && longer != length) list.push_back(as_dynamic(asked, longer));
  }
}

// The scaling with other values: another factor, another trained length, what yarn can leave out.
void add_values(Explanations& list, const Rope& asked, std::int64_t context) {
  const auto add_changed = [&](auto scaling, auto change) {
    change(scaling);
    if (Scaling(scaling) != asked.scaling) list.push_back({with(asked, scaling), 0, scaling_found(scaling)});
  };
  const auto add = [&](const auto& own) {
    using S = std::decay_t<decltype(own)>;
    if constexpr (std::is_same_v<S, Yarn>) {
      add_changed(own, [](Yarn& other) { other.truncate = !other.truncate; });
      add_changed(own, [](Yarn& other) {
        other.beta_fast = 32;
        other.beta_slow = 1;
      });
    }
    if constexpr (requires { own.trained_length; } && !std::is_same_v<S, LongRope>) {
      Lengths lengths;
      if (context > 0) lengths.push_back(context);
      for (std::int64_t length = 1024; length <= (1 << 20); length *= 2) lengths.push_back(length);
      for (const std::int64_t length : lengths) add_changed(own, [=](S& other) { other.trained_length = length; });
    }
    if constexpr (requires { own.factor; } && !std::is_same_v<S, LongRope>) {
      for (const double factor : {2., 3., 4., 5., 6., 8., 10., 16., 20., 32., 40., 64., 128.}) {
        add_changed(own, [=](S& other) { other.factor = factor; });
      }
    }
  };
  std::visit(add, asked.scaling);
}

// The scaling applied to speeds that have it already.
void add_scaled_twice(Explanations& list, const Rope& asked, std::int64_t length) {
  Rope again = with(asked, Unscaled{});
  const std::vector<double> scaled = frequencies_of(asked, length), once = frequencies_of(again, length);
  if (scaled.size() != once.size()) return;
  again.inv_freq = scaled;
  for (std::size_t i = 0; i < scaled.size(); ++i) again.inv_freq[i] *= once[i] > 0 ? scaled[i] / once[i] : 1;
  list.push_back({again, length, finding(Cause::scaling_twice, {{"scaling", name(asked.scaling)}})});
}

// The rope without scaling under scalings of any factor and any length of a power of two.
Explanations searched_scalings(const std::vector<Speed>& speeds, const Rope& plain) {
  const std::vector<double> unscaled = frequencies_of(plain, 0);
  double factor = 1;
  for (std::size_t i = 0; i < speeds.size() && i < unscaled.size(); ++i) {
    if (!(speeds[i].value > 0) || !(speeds[i].error < 0.05 * speeds[i].value)) continue;
    const double stretch = unscaled[i] / speeds[i].value;
    if (stretch > factor) factor = tidy(stretch, stretch * speeds[i].error / speeds[i].value);
  }
  Lengths lengths;
  for (std::int64_t length = 512; length <= (std::int64_t{1} << 21); length *= 2) lengths.push_back(length);
  Explanations list;
  add_scalings(list, plain, factor, lengths, false);
  return list;
}

Rope plain_rope(int rotary_dim) { return {.head_dim = rotary_dim, .rotary_dim = rotary_dim, .pairing = Pairing::half}; }

// A base; a base and a linear factor; a base and a scaling by parts.
Explanations fits(const std::vector<Speed>& speeds, int rotary_dim) {
  const Rope rope = plain_rope(rotary_dim);
  const std::vector<double> exponent = exponents_of(rope);
  Explanations list;
  const Line through_1 = fit_line(speeds, exponent, false);
  if (const std::optional<double> base = tidy_base(through_1))
    list.push_back({with_base(rope, *base), 0, base_found(*base, error_of_base(through_1))});
  const Line line = fit_line(speeds, exponent, true);
  const auto add = [&](const Rope& scaled) {
    Finding found = base_found(scaled.base);
    found.numbers.push_back({"scaling", NamedRope{.scaling = scaled.scaling}});
    list.push_back({scaled, 0, std::move(found)});
  };
  if (const std::optional<double> base = tidy_base(line)) {
    const double factor = tidy(std::exp(-line.intercept), std::exp(-line.intercept) * line.intercept_error);
    if (factor >= 1) add(with_base(with(rope, Linear{factor}), *base));
  }
  // The fastest pairs keep their speed under every scaling by parts: they give the base.
  std::vector<Speed> fastest = speeds;
  for (std::size_t i = std::max<std::size_t>(3, speeds.size() / 6); i < fastest.size(); ++i)
    fastest[i].error = infinite;
  if (const std::optional<double> base = tidy_base(fit_line(fastest, exponent, false))) {
    for (const Explanation& one : searched_scalings(speeds, with_base(rope, *base))) add(one.rope);
  }
  return list;
}

std::optional<Explanation> first_of(const Explanations& list, const std::vector<Speed>& speeds) {
  for (const Explanation& one : list) {
    if (misfit_of(speeds, one.rope, one.length) <= 1) return one;
  }
  return std::nullopt;
}

}  // namespace

std::vector<Speed> speeds_of(const std::vector<FoundSpeed>& found) {
  const double sign = sign_of(found);
  std::vector<Speed> speeds;
  for (const FoundSpeed& one : found) {
    const double value = sign * one.speed, error = 6 * one.error + float32_slack * std::abs(value);
    speeds.push_back({std::max(value, 0.0), value < -error ? 0 : error});
  }
  return speeds;
}

std::string words_of(const Scaling& scaling) {
  if (std::holds_alternative<Unscaled>(scaling)) return "no scaling";
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
  return std::string("the scaling ") + name(scaling) + (values.empty() ? "" : " (" + values + ")");
}

Explanations rivals(const Rope& asked, std::int64_t length, std::int64_t context) {
  Explanations list;
  const Rope plain = with(asked, Unscaled{});
  if (depends_on_length(asked.scaling)) add_lengths(list, asked, length, context);
  if (is_scaled(asked)) list.push_back({plain, 0, finding(Cause::scaling_left_out, {left_out(asked)})});
  add_values(list, asked, context);
  Lengths lengths;
  for (const std::int64_t one : {trained_length_of(asked.scaling), context}) {
    if (one > 0 && std::ranges::find(lengths, one) == lengths.end()) lengths.push_back(one);
  }
  add_scalings(list, asked, factor_of(asked.scaling), lengths, true);
  if (is_scaled(asked)) add_scaled_twice(list, asked, length);
  for (const double base : {1e4, 1e5, 1.5e5, 1.6e5, 2.5e5, 5e5, 1e6, 2e6, 5e6, 8e6, 1e7, 1e8}) {
    if (!asked.inv_freq.empty() || base == asked.base) continue;
    list.push_back({with_base(asked, base), length, base_found(base)});
    if (!is_scaled(asked)) continue;
    list.push_back({with_base(plain, base), 0, base_found(base)});
    list.back().found.numbers.push_back(left_out(asked));
  }
  for (Explanation& one : list) {
    if (one.length == 0) one.length = length;
  }
  std::ranges::move(causes(asked, length), std::back_inserter(list));
  std::erase_if(list, [](const Explanation& one) { return frequencies_of(one.rope, one.length).empty(); });
  return list;
}

std::optional<Explanation> explain_speeds(const std::vector<Speed>& speeds, const Rope& asked, std::int64_t length) {
  if (!asked.inv_freq.empty()) return std::nullopt;
  const Rope plain = with(asked, Unscaled{});
  Explanations list;
  const auto add = [&](const Based& based, std::int64_t of_length) {
    Finding found = base_found(based.rope.base, based.error);
    if (const auto factor = ntk_factor(based.rope.base, asked)) found.numbers.push_back({"ntk_factor", *factor, 6});
    if (based.rope.scaling != asked.scaling) found.numbers.push_back(left_out(asked));
    list.push_back({based.rope, of_length, std::move(found)});
  };
  if (is_scaled(asked) && !std::holds_alternative<Dynamic>(asked.scaling)) {
    if (const auto based = with_best_base(speeds, asked, length)) add(*based, length);
  }
  if (const auto based = with_best_base(speeds, plain, 0)) {
    if (const auto length_of_base = dynamic_length(based->rope.base, asked))
      list.push_back(as_dynamic(asked, *length_of_base));
    add(*based, 0);
  }
  std::ranges::move(searched_scalings(speeds, plain), std::back_inserter(list));
  std::ranges::move(causes(asked, length), std::back_inserter(list));
  std::ranges::move(fits(speeds, asked.rotary_dim), std::back_inserter(list));
  return first_of(list, speeds);
}

std::optional<Explanation> fit_speeds(const std::vector<Speed>& speeds, int rotary_dim, bool scale_known) {
  if (scale_known) return first_of(fits(speeds, rotary_dim), speeds);
  const Rope rope = plain_rope(rotary_dim);
  const Line line = fit_line(speeds, exponents_of(rope), true);
  const std::optional<double> base = tidy_base(line);
  if (!base || misfit_of(speeds, with_base(rope, *base), 0, std::exp(line.intercept)) > 1) return std::nullopt;
  return Explanation{with_base(rope, *base), 0, base_found(*base)};
}

}  // namespace rotary::diagnose
