#include "ropes.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "text/json.h"
#include "values/number_text.h"
#include "values/scaling_fields.h"

namespace rotary::diagnose {

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

using Explanations = std::vector<Explanation>;
using Lengths = std::vector<std::int64_t>;

// The rope's frequencies; empty where it is invalid.
std::vector<double> frequencies_of(const Rope& rope, std::int64_t length) {
  try {
    return frequencies(rope, length).inv_freq;
  } catch (const Error&) {
    return {};
  }
}

template <class Value>
Value value_or(const Scaling& scaling, const char* field, Value none) {
  const Value* value = scalings::value_of<Value>(scaling, field);
  return value != nullptr ? *value : none;
}
std::int64_t trained_length_of(const Scaling& scaling) { return value_or<std::int64_t>(scaling, "trained_length", 0); }
bool is_scaled(const Rope& rope) { return !std::holds_alternative<Unscaled>(rope.scaling); }

Rope with(Rope rope, Scaling scaling) {
  rope.scaling = std::move(scaling);
  return rope;
}
Rope with_base(Rope rope, double base) {
  rope.base = base;
  return rope;
}
Rope with_list(Rope rope, std::vector<double> list) {
  rope.inv_freq = std::move(list);
  rope.multiplier.clear();
  return rope;
}
Finding base_found(double base, double error = 0) { return finding(Cause::base, {{"base", base, 10, error}}); }
Number left_out(const Rope& rope) { return {"left_out", name(rope.scaling)}; }
Number scaling_of(const Rope& rope) { return {"scaling", name(rope.scaling)}; }

// ---- the asked rope with another scaling, other values of its own, or another length --------------

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

void add_scaling(Explanations& list, const Rope& rope, const Scaling& scaling) {
  list.push_back({with(rope, scaling), 0, finding(Cause::scaling, {{"scaling", NamedRope{.scaling = scaling}}})});
}

// The other scalings with that factor and these lengths: every one of the variant that these two describe.
void add_scalings(Explanations& list, const Rope& rope, double factor, const Lengths& lengths, bool with_dynamic) {
  if (!(factor > 1)) return;
  scalings::for_each_scaling([&]<class S>(S guess) {
    if constexpr (is_guessed<S>()) {
      if (depends_on_length(guess) && !with_dynamic) return;
      guess.factor = factor;
      if constexpr (requires { guess.trained_length; }) {
        for (const std::int64_t length : lengths) {
          guess.trained_length = length;
          add_scaling(list, rope, guess);
          if constexpr (std::is_same_v<S, Yarn>) {
            Yarn whole = guess;
            whole.truncate = false;
            add_scaling(list, rope, whole);
          }
        }
      } else {
        add_scaling(list, rope, guess);
      }
    }
  });
}

// The scaling with other values: another factor, another trained length, what yarn can leave out.
void add_values(Explanations& list, const Rope& asked, std::int64_t context) {
  const auto add = [&]<class S>(const S& own) {
    const auto add_changed = [&](auto change) {
      S other = own;
      change(other);
      if (Scaling(other) != asked.scaling) add_scaling(list, asked, other);
    };
    if constexpr (std::is_same_v<S, Yarn>) {
      add_changed([](Yarn& other) { other.truncate = !other.truncate; });
      add_changed([](Yarn& other) { other.beta_fast = 32, other.beta_slow = 1; });
    }
    if constexpr (requires { own.trained_length; } && !std::is_same_v<S, LongRope>) {
      if (context > 0) add_changed([=](S& other) { other.trained_length = context; });
      for (std::int64_t length = 1024; length <= (1 << 20); length *= 2)
        add_changed([=](S& other) { other.trained_length = length; });
    }
    if constexpr (requires { own.factor; } && !std::is_same_v<S, LongRope>) {
      for (const double factor : {2., 3., 4., 5., 6., 8., 10., 16., 20., 32., 40., 64., 128.})
        add_changed([=](S& other) { other.factor = factor; });
    }
  };
  std::visit(add, asked.scaling);
}

Explanation as_dynamic(const Rope& asked, std::int64_t length) {
  const double base = std::pow(frequencies(asked, length).inv_freq.back(), asked.rotary_dim / (2.0 - asked.rotary_dim));
  return {asked, length,
          finding(Cause::other_length, {scaling_of(asked), {"tokens", number(length)}, {"base", base, 6}})};
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
  if (length > trained) list.push_back({asked, trained, finding(Cause::within_length, {scaling_of(asked), limit})});
  for (const std::int64_t longer : {context, trained + 1, 2 * trained, 4 * trained}) {
    if (longer > trained && longer != length) list.push_back(as_dynamic(asked, longer));
  }
}

// ---- known mistakes in how frequencies are made --------------------------------------------------

struct Width {
  double exponent = 0, rotary = 0, head = 0;  // r of b^(-2i/r), the elements of the block and of the head
};

// The exponent of pair number k, whose index is i: the speed is base^-exponent. NaN: not a mistake of such a rope.
struct Mistake {
  Cause cause;
  double (*exponent)(double i, double k, const Width&);
};
constexpr double no_mistake = std::numeric_limits<double>::quiet_NaN();
constexpr Mistake mistakes[] = {
    {Cause::exponent_half, [](double i, double, const Width& d) { return i / d.exponent; }},
    {Cause::exponent_double, [](double i, double, const Width& d) { return 4 * i / d.exponent; }},
    {Cause::exponent_less_2, [](double i, double, const Width& d) { return 2 * i / (d.exponent - 2); }},
    {Cause::exponent_of_head,
     [](double i, double, const Width& d) { return d.head == d.exponent ? no_mistake : 2 * i / d.head; }},
    {Cause::exponent_of_block,
     [](double i, double, const Width& d) { return d.rotary == d.exponent ? no_mistake : 2 * i / d.rotary; }},
    {Cause::pairs_from_1, [](double i, double, const Width& d) { return 2 * (i + 1) / d.exponent; }},
    {Cause::pairs_from_minus_1, [](double i, double, const Width& d) { return 2 * (i - 1) / d.exponent; }},
    {Cause::exponent_odd, [](double i, double, const Width& d) { return (2 * i + 1) / d.exponent; }},
    {Cause::exponent_of_neighbours,
     [](double i, double, const Width& d) { return 2 * std::floor(i / 2) / d.exponent; }},
    {Cause::axes_continued, [](double, double k, const Width& d) { return 2 * k / d.rotary; }},
};

// The asked speeds, each at another pair's place.
struct Misplaced {
  Cause cause;
  std::size_t (*from)(std::size_t i, std::size_t pairs);
};
constexpr Misplaced misplaced[] = {
    {Cause::frequencies_rolled_early, [](std::size_t i, std::size_t pairs) { return (i + 1) % pairs; }},
    {Cause::frequencies_rolled_late, [](std::size_t i, std::size_t pairs) { return (i + pairs - 1) % pairs; }},
    {Cause::frequencies_early, [](std::size_t i, std::size_t pairs) { return std::min(i + 1, pairs - 1); }},
    {Cause::frequencies_late, [](std::size_t i, std::size_t) { return i - (i > 0 ? 1U : 0U); }},
    {Cause::frequencies_reversed, [](std::size_t i, std::size_t pairs) { return pairs - 1 - i; }},
};

Width width_of(const Rope& asked) {
  return {static_cast<double>(asked.exponent_dim != 0 ? asked.exponent_dim : asked.rotary_dim),
          static_cast<double>(asked.rotary_dim), static_cast<double>(asked.head_dim)};
}
// Whether exponents that begin so are the asked ones and a constant.
bool is_factor(double first, double second, const Width& d) {
  return first != 0 && std::abs(second - first - 2 / d.exponent) < 1e-12;
}

// The mistake with the scaling and without it, as another base where it is one. scaled: what the scaling does to the
// speed of each pair.
void add_mistake(Explanations& list, const Mistake& one, const Rope& asked, std::int64_t length,
                 const std::vector<double>& scaled) {
  const Width d = width_of(asked);
  std::vector<double> wrong, stretched;
  for (std::size_t k = 0; k < scaled.size(); ++k) {
    const double i = asked.index.empty() ? static_cast<double>(k) : asked.index[k];
    wrong.push_back(std::pow(asked.base, -one.exponent(i, static_cast<double>(k), d)));
    if (!std::isfinite(wrong.back())) return;
    stretched.push_back(wrong[k] * scaled[k]);
  }
  Finding found = finding(one.cause);
  if (one.cause != Cause::pairs_from_1 && one.cause != Cause::pairs_from_minus_1 && one.cause != Cause::axes_continued)
    found.numbers.push_back({"d", d.exponent, 6});
  const double first = one.exponent(0, 0, d), second = one.exponent(1, 1, d);
  Rope plain = with_list(with(asked, Unscaled{}), wrong), own = with_list(asked, stretched);
  if (first == 0 && second > 0 && asked.index.empty()) {
    const double base = std::pow(asked.base, second * d.exponent / 2);
    found.numbers.push_back({"as_base", base, 6});
    if (is_scaled(asked)) list.push_back({with_base(asked, base), length, found});
    plain = with_base(with(asked, Unscaled{}), base);
  } else if (is_scaled(asked) && is_factor(first, second, d) && std::abs(first) * d.exponent == 2) {
    Rope counted = asked;  // the scaling bends the speeds that it is given
    for (int k = 0; k < std::ssize(scaled); ++k) {
      if (asked.index.empty()) counted.index.push_back(k);
      counted.index[static_cast<std::size_t>(k)] += first > 0 ? 1 : -1;
    }
    list.push_back({counted, length, found});
  }
  if (is_scaled(asked)) list.push_back({own, length, found});
  if (is_scaled(asked)) found.numbers.push_back(left_out(asked));
  list.push_back({plain, length, std::move(found)});
}

void add_mistakes(Explanations& list, const Rope& asked, std::int64_t length) {
  const Rope plain = with(asked, Unscaled{});
  const std::vector<double> own = frequencies_of(asked, length), unscaled = frequencies_of(plain, length);
  if (own.size() < 2 || own.size() != unscaled.size()) return;
  std::vector<double> scaled, twice;
  for (std::size_t i = 0; i < own.size(); ++i) {
    scaled.push_back(unscaled[i] > 0 ? own[i] / unscaled[i] : 1);
    twice.push_back(own[i] * scaled[i]);
  }
  if (is_scaled(asked))
    list.push_back({with_list(plain, twice), length, finding(Cause::scaling_twice, {scaling_of(asked)})});
  for (const Mistake& one : mistakes) {
    const bool may_be = asked.inv_freq.empty() && (one.cause != Cause::axes_continued || !asked.index.empty());
    if (may_be) add_mistake(list, one, asked, length, scaled);
  }
  if (const Yarn* yarn = std::get_if<Yarn>(&asked.scaling); yarn != nullptr && yarn->factor > 1) {
    std::vector<double> mixed = frequencies_of(with(plain, Ntk{yarn->factor}), length);
    for (std::size_t i = 0; i < mixed.size(); ++i) {
      const double slow = unscaled[i] / yarn->factor, kept = (own[i] - slow) / (unscaled[i] - slow);
      mixed[i] = kept * mixed[i] + (1 - kept) * slow;
    }
    list.push_back({with_list(asked, mixed), length, finding(Cause::yarn_on_ntk)});
  }
  for (const Misplaced& one : misplaced) {
    std::vector<double> moved;
    for (std::size_t i = 0; i < own.size(); ++i) moved.push_back(own[one.from(i, own.size())]);
    list.push_back({with_list(asked, moved), length, finding(one.cause)});
  }
}

// ---- a base from speeds --------------------------------------------------------------------------

// ln speed = intercept - slope * exponent, by weighted least squares.
struct Line {
  double slope = 0, intercept = 0;
  double slope_error = infinite, intercept_error = infinite;
};

// intercept_free: the intercept is fitted too, else 0.
Line fit_line(const std::vector<Speed>& speeds, const std::vector<double>& exponent, bool intercept_free) {
  TwoWeights sums;  // ln speed = a exponent + b
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    const double relative = speeds[i].error / speeds[i].value;
    if (!(speeds[i].value > 0) || !(relative < 0.05)) continue;
    sums.add(exponent[i] / relative, 1 / relative, std::log(speeds[i].value) / relative);
  }
  if (!intercept_free) return sums.pp <= 0 ? Line{} : Line{-sums.pn / sums.pp, 0, 1 / std::sqrt(sums.pp), 0};
  const double determinant = sums.pp * sums.qq - sums.pq * sums.pq;
  if (determinant <= 1e-12 * sums.pp * sums.qq) return {};
  return {-(sums.pn * sums.qq - sums.qn * sums.pq) / determinant, (sums.qn * sums.pp - sums.pn * sums.pq) / determinant,
          std::sqrt(sums.qq / determinant), std::sqrt(sums.pp / determinant)};
}

// The number of fewest digits within the error.
double tidy(double value, double error) {
  for (int digits = 1; digits <= 12 && std::isfinite(value); ++digits) {
    const auto rounded = files::Json::parse(detail::significant(value, digits)).get<double>();  // in every locale
    if (std::abs(rounded - value) <= error) return rounded;
  }
  return value;
}

std::vector<double> exponents_of(const Rope& rope) {
  std::vector<double> exponent;
  for (int i = 0; i < rope.rotary_dim / 2; ++i)
    exponent.push_back(2.0 * (rope.index.empty() ? i : rope.index[static_cast<std::size_t>(i)]) /
                       width_of(rope).exponent);
  return exponent;
}

// Above 1; none where the line gives no base.
std::optional<double> base_of(const Line& line) {
  const bool has_one = std::isfinite(line.slope_error) && line.slope <= 60 && std::exp(line.slope) > 1;
  return has_one ? std::optional(std::exp(line.slope)) : std::nullopt;
}
double error_of_base(const Line& line) { return std::exp(line.slope) * std::max(3 * line.slope_error, 3e-6); }
std::optional<double> tidy_base(const Line& line) {
  const std::optional<double> base = base_of(line);
  const double tidied = base ? tidy(*base, error_of_base(line)) : 0;
  return tidied > 1 ? std::optional(tidied) : std::nullopt;
}

// The whole number of tokens for which dynamic makes the base, where the line tells it from its neighbours.
std::optional<std::int64_t> length_of_base(const Rope& asked, const Line& line) {
  const auto* dynamic = std::get_if<Dynamic>(&asked.scaling);
  if (dynamic == nullptr || !base_of(line)) return std::nullopt;
  const double power = (asked.rotary_dim - 2.0) / asked.rotary_dim;
  const double stretch = std::pow(*base_of(line) / asked.base, power);
  const double per_factor = static_cast<double>(dynamic->trained_length) / dynamic->factor;
  const double length = per_factor * (stretch + dynamic->factor - 1), whole = std::round(length);
  const double error = per_factor * stretch * power * std::max(3 * line.slope_error, 3e-7);
  const bool is_length =
      error < 0.25 && std::abs(length - whole) <= error && whole > static_cast<double>(dynamic->trained_length);
  return is_length ? std::optional(static_cast<std::int64_t>(whole)) : std::nullopt;
}

// Whether the speeds are the rope's frequencies within their errors.
bool are_of(const std::vector<Speed>& speeds, const Rope& rope, std::int64_t length) {
  return std::ranges::equal(speeds, frequencies_of(rope, length), [](const Speed& speed, double own) {
    return !(std::abs(speed.value - own) > speed.error + 1e-300);
  });
}

// The rope without scaling under scalings of the factor that the slowest pair shows, and any length of a power of two.
void add_scalings_of_speeds(Explanations& list, const std::vector<Speed>& speeds, const Rope& plain) {
  const std::vector<double> unscaled = frequencies_of(plain, 0);
  double factor = 1;
  for (std::size_t i = 0; i < speeds.size() && i < unscaled.size(); ++i) {
    if (!(speeds[i].value > 0) || !(speeds[i].error < 0.05 * speeds[i].value)) continue;
    const double stretch = unscaled[i] / speeds[i].value;
    if (stretch > factor) factor = tidy(stretch, stretch * speeds[i].error / speeds[i].value);
  }
  Lengths lengths;
  for (std::int64_t length = 512; length <= (std::int64_t{1} << 21); length *= 2) lengths.push_back(length);
  add_scalings(list, plain, factor, lengths, false);
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

std::vector<Explanation> rivals(const Rope& asked, std::int64_t length, std::int64_t context) {
  Explanations list;
  const Rope plain = with(asked, Unscaled{});
  if (depends_on_length(asked.scaling)) add_lengths(list, asked, length, context);
  if (is_scaled(asked)) list.push_back({plain, 0, finding(Cause::scaling_left_out, {left_out(asked)})});
  add_values(list, asked, context);
  Lengths lengths;
  for (const std::int64_t one : {trained_length_of(asked.scaling), context}) {
    if (one > 0 && std::ranges::find(lengths, one) == lengths.end()) lengths.push_back(one);
  }
  add_scalings(list, asked, value_or(asked.scaling, "factor", 1.0), lengths, true);
  for (const double base : {1e4, 1e5, 1.5e5, 1.6e5, 2.5e5, 5e5, 1e6, 2e6, 5e6, 8e6, 1e7, 1e8}) {
    if (!asked.inv_freq.empty() || base == asked.base) continue;
    list.push_back({with_base(asked, base), length, base_found(base)});
    if (!is_scaled(asked)) continue;
    list.push_back({with_base(plain, base), 0, base_found(base)});
    list.back().found.numbers.push_back(left_out(asked));
  }
  add_mistakes(list, asked, length);
  for (Explanation& one : list) one.length = one.length == 0 ? length : one.length;
  std::erase_if(list, [](const Explanation& one) { return frequencies_of(one.rope, one.length).empty(); });
  return list;
}

std::optional<Explanation> explain_speeds(const std::vector<Speed>& speeds, const Rope& asked, std::int64_t length,
                                          std::int64_t context) {
  if (!asked.inv_freq.empty()) return std::nullopt;
  const Rope plain = with(asked, Unscaled{});
  Explanations list = rivals(asked, length, context);
  const std::vector<double> exponent = exponents_of(asked);
  const Line line = fit_line(speeds, exponent, false);
  if (std::optional<double> base = base_of(line)) {
    if (const auto made_for = length_of_base(asked, line)) list.push_back(as_dynamic(asked, *made_for));
    const std::optional<double> tidied = tidy_base(line);
    if (tidied && are_of(speeds, with_base(plain, *tidied), length)) base = tidied;
    Finding found = base_found(*base, error_of_base(line));
    const double stretch = std::pow(*base / asked.base, (asked.rotary_dim - 2.0) / asked.rotary_dim);
    const double factor = std::round(stretch);
    if (factor >= 2 && factor <= 64 && std::abs(stretch - factor) <= 3e-4 * factor)
      found.numbers.push_back({"ntk_factor", factor, 6});
    if (is_scaled(asked)) found.numbers.push_back(left_out(asked));
    list.push_back({with_base(plain, *base), length, std::move(found)});
  }
  add_scalings_of_speeds(list, speeds, plain);
  const auto add_scaled = [&](const Rope& rope) {
    list.push_back({rope, length, base_found(rope.base)});
    list.back().found.numbers.push_back({"scaling", NamedRope{.scaling = rope.scaling}});
  };
  // The fastest pairs keep their speed under every scaling by parts: they give the base.
  const auto fastest =
      speeds.begin() + std::min(std::ssize(speeds), std::max<std::ptrdiff_t>(3, std::ssize(speeds) / 6));
  if (const auto base = tidy_base(fit_line({speeds.begin(), fastest}, exponent, false))) {
    Explanations scaled;
    add_scalings_of_speeds(scaled, speeds, with_base(plain, *base));
    for (const Explanation& one : scaled) add_scaled(one.rope);
  }
  const Line slowed = fit_line(speeds, exponent, true);
  if (const std::optional<double> base = tidy_base(slowed)) {
    const double scale = std::exp(slowed.intercept), factor = tidy(1 / scale, slowed.intercept_error / scale);
    add_scaled(with(with_base(plain, *base), Linear{std::max(1.0, factor)}));
  }
  const auto found =
      std::ranges::find_if(list, [&](const Explanation& one) { return are_of(speeds, one.rope, one.length); });
  return found == list.end() ? std::nullopt : std::optional(*found);
}

}  // namespace rotary::diagnose
