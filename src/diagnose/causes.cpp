// Known mistakes in how a function makes frequencies.
#include <algorithm>
#include <cmath>
#include <limits>

#include "motion.h"

namespace rotary::diagnose {

namespace {

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
    {Cause::axes_continued,
     [](double i, double k, const Width& d) { return i == k && k > 0 ? no_mistake : 2 * k / d.rotary; }},
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

Rope with_list(Rope rope, std::vector<double> list) {
  rope.inv_freq = std::move(list);
  rope.multiplier.clear();
  return rope;
}

Width width_of(const Rope& asked) {
  return {static_cast<double>(asked.exponent_dim != 0 ? asked.exponent_dim : asked.rotary_dim),
          static_cast<double>(asked.rotary_dim), static_cast<double>(asked.head_dim)};
}
// Whether exponents that begin so are the asked ones and a constant.
bool is_factor(double first, double second, const Width& d) {
  return first != 0 && std::abs(second - first - 2 / d.exponent) < 1e-12;
}

// What the mistakes are applied to.
struct Asking {
  const Rope& rope;
  Rope plain;  // without its scaling
  std::int64_t length;
  std::vector<double> speeds, unscaled;
  Width d;
};

// The mistake with the scaling and without it: as a base or a linear factor where it is one.
void add(std::vector<Explanation>& list, const Mistake& one, const Asking& asked) {
  const bool scaled = asked.rope.scaling != asked.plain.scaling;
  std::vector<double> wrong, stretched;
  for (std::size_t k = 0; k < asked.speeds.size(); ++k) {
    const double i = asked.rope.index.empty() ? static_cast<double>(k) : asked.rope.index[k];
    wrong.push_back(std::pow(asked.rope.base, -one.exponent(i, static_cast<double>(k), asked.d)));
    if (!std::isfinite(wrong.back())) return;
    stretched.push_back(wrong[k] * (asked.unscaled[k] != 0 ? asked.speeds[k] / asked.unscaled[k] : 1));
  }
  const double first = one.exponent(0, 0, asked.d), second = one.exponent(1, 1, asked.d);
  Finding found = finding(one.cause);
  const bool names_d =
      one.cause != Cause::pairs_from_1 && one.cause != Cause::pairs_from_minus_1 && one.cause != Cause::axes_continued;
  if (names_d) found.numbers.push_back({"d", asked.d.exponent, 6});
  const bool is_base = first == 0 && second > 0 && asked.rope.index.empty();
  if (is_factor(first, second, asked.d) && scaled && std::abs(first) * asked.d.exponent == 2) {
    Rope counted = asked.rope;  // the scaling bends the speeds that it is given
    counted.index.resize(wrong.size());
    for (std::size_t k = 0; k < wrong.size(); ++k) {
      counted.index[k] = (asked.rope.index.empty() ? static_cast<int>(k) : asked.rope.index[k]) + (first > 0 ? 1 : -1);
    }
    list.push_back({counted, asked.length, found});
  }
  Rope base = asked.plain, slower = with_list(asked.plain, wrong);
  if (is_base) {
    base.base = std::pow(asked.rope.base, second * asked.d.exponent / 2);
    found.numbers.push_back({"as_base", base.base, 6});
    Rope with_scaling = base;
    with_scaling.scaling = asked.rope.scaling;
    if (scaled) list.push_back({with_scaling, asked.length, found});
    slower = base;
  } else if (is_factor(first, second, asked.d) && first > 0) {
    slower = asked.plain;
    slower.scaling = Linear{std::pow(asked.rope.base, first)};
    found.numbers.push_back({"as_factor", std::pow(asked.rope.base, first), 6});
  }
  if (scaled) list.push_back({with_list(asked.rope, stretched), asked.length, found});
  if (scaled) found.numbers.push_back({"left_out", name(asked.rope.scaling)});
  list.push_back({slower, asked.length, std::move(found)});
}

}  // namespace

std::vector<Explanation> causes(const Rope& asked, std::int64_t length) {
  Rope plain = asked;
  plain.scaling = Unscaled{};
  const Asking all{asked,          plain, length, frequencies(asked, length).inv_freq, frequencies(plain).inv_freq,
                   width_of(asked)};
  std::vector<Explanation> list;
  if (all.speeds.size() < 2) return list;
  for (const Mistake& one : mistakes) {
    if (asked.inv_freq.empty()) add(list, one, all);
  }
  if (const Yarn* yarn = std::get_if<Yarn>(&asked.scaling); yarn != nullptr && yarn->factor > 1) {
    Rope ntk = plain;
    ntk.scaling = Ntk{yarn->factor};
    std::vector<double> mixed = frequencies(ntk).inv_freq;
    for (std::size_t i = 0; i < mixed.size(); ++i) {
      const double slow = all.unscaled[i] / yarn->factor, kept = (all.speeds[i] - slow) / (all.unscaled[i] - slow);
      mixed[i] = kept * mixed[i] + (1 - kept) * slow;
    }
    list.push_back({with_list(asked, mixed), length, finding(Cause::yarn_on_ntk)});
  }
  for (const Misplaced& one : misplaced) {
    std::vector<double> moved;
    for (std::size_t i = 0; i < all.speeds.size(); ++i) moved.push_back(all.speeds[one.from(i, all.speeds.size())]);
    list.push_back({with_list(asked, moved), length, finding(one.cause)});
  }
  return list;
}

std::optional<std::int64_t> dynamic_length(double base, const Rope& asked) {
  const Dynamic* dynamic = std::get_if<Dynamic>(&asked.scaling);
  if (dynamic == nullptr || base <= asked.base) return std::nullopt;
  const double stretch = std::pow(base / asked.base, (asked.rotary_dim - 2.0) / asked.rotary_dim);
  const double length =
      static_cast<double>(dynamic->trained_length) * (stretch + dynamic->factor - 1) / dynamic->factor;
  const double power = std::exp2(std::round(std::log2(length)));
  return static_cast<std::int64_t>(std::abs(length - power) < 0.01 * power ? power : std::round(length));
}

std::optional<double> ntk_factor(double base, const Rope& asked) {
  if (asked.rotary_dim <= 2 || base <= asked.base) return std::nullopt;
  const double stretch = std::pow(base / asked.base, (asked.rotary_dim - 2.0) / asked.rotary_dim);
  const double factor = std::round(stretch);
  if (factor < 2 || factor > 64 || std::abs(stretch - factor) > 3e-4 * factor) return std::nullopt;
  return factor;
}

std::optional<Cause> cause_of_step(double step, const Rope& asked) {
  const Width d = width_of(asked);
  for (const Mistake& one : mistakes) {
    const double first = one.exponent(0, 0, d), second = one.exponent(1, 1, d);
    if (!is_factor(first, second, d)) continue;
    if (std::abs(std::pow(asked.base, -first) - step) < 2e-4 * step) return one.cause;
  }
  return std::nullopt;
}

}  // namespace rotary::diagnose
