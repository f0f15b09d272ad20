#include "explain.h"

#include <algorithm>
#include <cmath>
#include <functional>
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

// ---- candidates ----

struct Candidate {
  Rope rope;
  std::string words;
  std::int64_t length = -1;  // -1: that in play
};

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

// The scalings with the factor and the lengths that are at hand.
std::vector<Candidate> other_scalings(const Rope& asked, double factor, const std::vector<std::int64_t>& lengths) {
  std::vector<Candidate> list;
  const auto add = [&](Scaling scaling) {
    std::string words = std::string("as ") + name(scaling) + " with factor " + significant(factor, 6) + " gives";
    const std::int64_t trained = trained_length_of(scaling);
    if (trained > 0) words += " for a trained length of " + std::to_string(trained);
    list.push_back({with(asked, std::move(scaling)), std::move(words)});
  };
  if (!(factor >= 1) || factor == 1) return list;
  add(Linear{factor});
  add(Ntk{factor});
  add(NtkFixed{.factor = factor});
  for (const std::int64_t length : lengths) {
    add(Yarn{.factor = factor, .trained_length = length});
    add(Yarn{.factor = factor, .trained_length = length, .truncate = false});
    add(Llama3{.factor = factor, .trained_length = length});
    add(Dynamic{.factor = factor, .trained_length = length});
  }
  return list;
}

// Longer and shorter sequences: the other list of longrope, dynamic within its trained length.
void add_lengths(std::vector<Candidate>& list, const Rope& asked, std::int64_t length, std::int64_t context) {
  const std::int64_t trained = trained_length_of(asked.scaling);
  const bool is_longrope = std::holds_alternative<LongRope>(asked.scaling);
  const std::string kind = name(asked.scaling);
  if (length > trained) {
    list.push_back({asked, is_longrope ? "the short list of longrope is used, as for lengths up to " + std::to_string(trained)
                                       : kind + " does not act, as for lengths up to " + std::to_string(trained),
                    trained});
    return;
  }
  for (const std::int64_t longer : {context, trained + 1, 2 * trained, 4 * trained}) {
    if (longer <= trained) continue;
    list.push_back({asked, is_longrope ? "the long list of longrope is used, as for lengths above " + std::to_string(trained)
                                       : kind + " acts as at a length of " + std::to_string(longer),
                    longer});
  }
}

std::vector<Candidate> candidates(const Rope& asked, std::int64_t length, std::int64_t context) {
  std::vector<Candidate> list = {{asked, ""}};
  const bool scaled = !std::holds_alternative<Unscaled>(asked.scaling);
  if (depends_on_length(asked.scaling)) add_lengths(list, asked, length, context);
  if (scaled) list.push_back({with(asked, Unscaled{}), std::string("as without the scaling ") + name(asked.scaling)});
  if (const Yarn* yarn = std::get_if<Yarn>(&asked.scaling)) {
    Yarn other = *yarn;
    other.truncate = !other.truncate;
    list.push_back({with(asked, other), std::string("as yarn gives ") + (other.truncate ? "with" : "without") +
                                            " truncating its correction range"});
    other = *yarn;
    other.beta_fast = 32;
    other.beta_slow = 1;
    list.push_back({with(asked, other), "as yarn gives with beta_fast 32 and beta_slow 1"});
  }
  const double factor = factor_of(asked.scaling);
  const std::int64_t trained = trained_length_of(asked.scaling);
  std::vector<std::int64_t> lengths;
  for (const std::int64_t one : {trained, context}) {
    if (one > 0 && std::find(lengths.begin(), lengths.end(), one) == lengths.end()) lengths.push_back(one);
  }
  const std::vector<Candidate> others = other_scalings(asked, factor, lengths);
  list.insert(list.end(), others.begin(), others.end());
  if (factor > 1) {
    std::vector<double> twice = frequencies_of(asked, length), once = frequencies_of(with(asked, Unscaled{}), length);
    Rope again = with(asked, Unscaled{});
    for (std::size_t i = 0; i < twice.size() && i < once.size(); ++i) twice[i] *= once[i] > 0 ? twice[i] / once[i] : 1;
    again.inv_freq = twice;
    if (again.inv_freq.size() == once.size()) {
      list.push_back({again, std::string("as if the scaling ") + name(asked.scaling) + " were applied twice"});
    }
  }
  return list;
}

// Yarn, Llama3 and the like with a factor and a length that the config does not have.
std::vector<Candidate> searched_scalings(const std::vector<Speed>& speeds, const Rope& plain) {
  const std::vector<double> unscaled = frequencies_of(plain, 0);
  double factor = 1;
  for (std::size_t i = 0; i < speeds.size() && i < unscaled.size(); ++i) {
    if (!(speeds[i].value > 0) || !(speeds[i].error < 0.05 * speeds[i].value)) continue;
    const double stretch = unscaled[i] / speeds[i].value;
    if (stretch > factor) factor = tidy(stretch, stretch * speeds[i].error / speeds[i].value);
  }
  std::vector<std::int64_t> lengths;
  for (std::int64_t length = 512; length <= (std::int64_t{1} << 21); length *= 2) lengths.push_back(length);
  std::vector<Candidate> list = other_scalings(plain, factor, lengths);
  std::erase_if(list, [](const Candidate& one) { return depends_on_length(one.rope.scaling); });
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

std::optional<Explanation> explain_speeds(const std::vector<Speed>& speeds, const Rope& asked, std::int64_t length,
                                          std::int64_t context) {
  const auto explanation = [&](const Candidate& one) {
    Explanation found{one.rope, one.length < 0 ? length : one.length, false, false, 0, ""};
    found.base_differs = one.rope.base != asked.base;
    found.scaling_differs = !one.words.empty() && !found.base_differs;
    found.words = one.words;
    found.worst = misfit_of(speeds, one.rope, found.length);
    return found;
  };
  for (const Candidate& one : candidates(asked, length, context)) {
    Explanation found = explanation(one);
    if (found.worst <= 1) return found;
  }
  if (!asked.inv_freq.empty()) return std::nullopt;
  const Rope plain = with(asked, Unscaled{});
  const auto base_words = [&](const Rope& rope, const char* more) {
    return "base " + significant(rope.base, 10) + more;
  };
  const bool scaled = !std::holds_alternative<Unscaled>(asked.scaling);
  if (scaled && !depends_on_length(asked.scaling)) {
    if (const auto rope = with_best_base(speeds, asked, length)) {
      Explanation found = explanation({*rope, base_words(*rope, "")});
      if (found.worst <= 1) return found;
    }
  }
  if (const auto rope = with_best_base(speeds, plain, 0)) {
    Explanation found = explanation({*rope, base_words(*rope, scaled ? " without the scaling" : "")});
    if (found.worst <= 1) return found;
  }
  for (const Candidate& one : searched_scalings(speeds, plain)) {
    Explanation found = explanation(one);
    if (found.worst <= 1) return found;
  }
  std::optional<Explanation> found = fit_speeds(speeds, asked.rotary_dim, true);
  if (!found) return std::nullopt;
  found->base_differs = found->rope.base != asked.base;
  found->scaling_differs = name(found->rope.scaling) != std::string_view(name(asked.scaling));
  return found;
}

std::optional<Explanation> fit_speeds(const std::vector<Speed>& speeds, int rotary_dim, bool scale_known) {
  Rope rope{.head_dim = rotary_dim, .rotary_dim = rotary_dim, .pairing = Pairing::half};
  const std::vector<double> exponent = exponents_of(rope);
  const auto accept = [&](Rope candidate, double scale, std::string words) -> std::optional<Explanation> {
    const double worst = misfit_of(speeds, candidate, 0, scale);
    if (worst > 1) return std::nullopt;
    return Explanation{std::move(candidate), 0, false, false, worst, std::move(words)};
  };
  if (scale_known) {
    if (const std::optional<double> base = tidy_base(fit_line(speeds, exponent, false)); base && *base > 1) {
      if (auto found = accept(with_base(rope, *base), 1, "base " + significant(*base, 10))) return found;
    }
  }
  const Line line = fit_line(speeds, exponent, true);
  if (const std::optional<double> base = tidy_base(line); base && *base > 1) {
    const double factor = tidy(std::exp(-line.intercept), std::exp(-line.intercept) * line.intercept_error);
    const Rope plain = with_base(rope, *base);
    if (!scale_known) {
      if (auto found = accept(plain, std::exp(line.intercept), "base " + significant(*base, 10))) return found;
    } else if (factor >= 1) {
      const std::string words = "base " + significant(*base, 10) + ", linear with factor " + significant(factor, 6);
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
  for (const Candidate& one : searched_scalings(speeds, with_base(rope, *base))) {
    if (auto found = accept(one.rope, 1, "base " + significant(*base, 10) + ", " + one.words)) return found;
  }
  return std::nullopt;
}

}  // namespace rotary::diagnose
