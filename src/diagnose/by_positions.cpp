// How a list of positions differs from the expected one.
#include <algorithm>
#include <cmath>
#include <functional>

#include "examination.h"

namespace rotary::diagnose {

namespace {

using Positions = std::vector<double>;

bool same(double a, double b) { return std::abs(a - b) <= 1e-6 + 1e-9 * std::abs(b); }

const Pattern expected_ones{finding(Cause::as_asked), 0, [](double e) { return e; }};
const Pattern negated{finding(Cause::direction), 0, [](double e) { return -e; }};
const Pattern doubled{finding(Cause::doubled), 2, [](double e) { return 2 * e; }};

Pattern offset_by(double shift, double p, double e) {
  return {finding(Cause::offset, {{"found", p}, {"asked", e}, {shift > 0 ? "late" : "early", std::abs(shift)}}), shift,
          [=](double one) { return one + shift; }};
}

std::vector<Pattern> simple_patterns(double p, double e) {
  return {expected_ones,
          negated,
          offset_by(p - e, p, e),
          doubled,
          {finding(Cause::constant_position, {{"found", p}}), p, [=](double) { return p; }}};
}

double to_bits(double value, int bits) {
  if (value == 0) return 0;
  const double scale = std::ldexp(1.0, bits - 1 - std::ilogb(value));
  return std::nearbyint(value * scale) / scale;
}

// Positions modulo a power of two, signed or not; of few bits.
std::vector<Pattern> other_patterns() {
  std::vector<Pattern> list;
  for (const int bits : {8, 16}) {
    const double modulus = std::ldexp(1.0, bits);
    for (const bool is_signed : {true, false}) {
      const std::string type = (is_signed ? "int" : "uint") + std::to_string(bits);
      list.push_back({finding(Cause::wrapped_positions, {{"type", type}}), 0,
                      [=](double e) { return e - modulus * std::floor(e / modulus + (is_signed ? 0.5 : 0)); }});
    }
  }
  for (const auto& [bits, type] : {std::pair{8, "bf16"}, {11, "f16"}}) {
    list.push_back({finding(Cause::rounded_positions, {{"type", type}}), 0,
                    [digits = bits](double e) { return to_bits(e, digits); }});
  }
  return list;
}

std::optional<Pattern> first_that_holds(const Positions& p, const Positions& e, const std::vector<Pattern>& list) {
  for (const Pattern& one : list) {
    if (std::ranges::equal(p, e,
                           [&](double position, double expected) { return same(position, one.position(expected)); }))
      return one;
  }
  return std::nullopt;
}

// One position for the first tokens, behind which they begin as they should have at the first.
std::optional<Pattern> padded(const Positions& p, const Positions& e) {
  std::size_t last = p.size();
  while (last-- > 1 && same(p[last] - p[last - 1], e[last] - e[last - 1])) {
    if (!same(p[last - 1], e[0])) continue;
    const bool constant = std::all_of(p.begin(), p.begin() + static_cast<std::ptrdiff_t>(last) - 1,
                                      [&](double one) { return same(one, p[0]); });
    if (!constant || last < 2) return std::nullopt;
    return Pattern{finding(Cause::padded_positions,
                           {{"found", e[0]}, {"token", number(last - 1)}, {last > 2 ? "several" : "one", true}})};
  }
  return std::nullopt;
}

// A constant times the expected positions, within their errors.
std::optional<Pattern> step_pattern(const Positions& p, const Positions& e, const Positions& error) {
  double pe = 0, ee = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    pe += p[i] * e[i];
    ee += e[i] * e[i];
  }
  if (ee == 0) return std::nullopt;
  const double step = pe / ee;
  double slack = 1e-12;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double sigma =
        std::max(i < error.size() && std::isfinite(error[i]) ? error[i] : 0, 1e-7 * std::abs(p[i]) + 1e-9);
    if (std::abs(p[i] - step * e[i]) > 6 * sigma + 1e-6 * std::abs(p[i])) return std::nullopt;
    slack += sigma * sigma * e[i] * e[i];
  }
  const auto near = [&, step_error = 6 * std::sqrt(slack) / ee](double value) {
    return std::abs(step - value) <= step_error;
  };
  if (near(1)) return expected_ones;
  if (near(-1)) return negated;
  if (near(2)) return doubled;
  double shown = step;
  for (const double tidy : {std::round(step * 100) / 100, 1 / std::round(1 / step), std::round(step)}) {
    if (std::isfinite(tidy) && tidy != 0 && near(tidy)) shown = tidy;
  }
  return Pattern{finding(Cause::position_step, {{"found", shown}}), shown,
                 [=](double expected) { return shown * expected; }};
}

// A constant beside the expected positions, within their errors.
std::optional<Pattern> offset_pattern(const Positions& p, const Positions& e, const Positions& error) {
  double sum = 0, weight = 0;
  for (std::size_t i = 0; i < error.size(); ++i) {
    const double of_one = std::pow(std::max(error[i], 1e-6), -2);
    sum += of_one * (p[i] - e[i]);
    weight += of_one;
  }
  const double mean = sum / weight, shift = std::round(100 * mean) / 100;
  if (shift == 0 || !(std::abs(shift - mean) <= 6 / std::sqrt(weight))) return std::nullopt;
  for (std::size_t i = 0; i < p.size(); ++i) {
    if (std::abs(p[i] - e[i] - shift) > 6 * error[i] + 1e-6 * std::abs(p[i])) return std::nullopt;
  }
  return offset_by(shift, e[0] + shift, e[0]);
}

// Segments that each begin again where the first began.
std::optional<Pattern> restarts(const Positions& p, const Positions& e, std::size_t tokens) {
  std::size_t boundary = 1;
  while (boundary < tokens && same(p[boundary], p[boundary - 1] + (e[boundary] - e[boundary - 1]))) ++boundary;
  if (boundary + 1 >= tokens) return std::nullopt;  // the last token alone has another position, and begins nothing
  std::size_t begin = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const std::size_t t = i % tokens;
    if (t == 0) begin = 0;
    if (t > 0 && same(p[i], p[i - t]) && !same(p[i], p[i - 1])) begin = t;
    if (!same(p[i], p[i - t] + (e[i - t + (t - begin)] - e[i - t]))) return std::nullopt;
  }
  return Pattern{finding(Cause::restarted_positions, {{"found", p[0]}, {"token", number(boundary)}})};
}

// ---- the asked speeds at other positions -------------------------------------------------------

Finding finding_of(const Pattern& pattern, const Asked& asked) {
  const Rope& rope = asked.used.rope;
  if (pattern.found.cause == Cause::direction) return direction_found(!rope.clockwise, rope.clockwise);
  if (pattern.found.cause == Cause::constant_position && pattern.value == 0) return finding(Cause::no_angles);
  if (pattern.found.cause != Cause::position_step) return pattern.found;
  const double step = pattern.value;
  const Linear* linear = std::get_if<Linear>(&rope.scaling);
  if (linear != nullptr && std::abs(step - linear->factor) < 1e-6 * linear->factor)
    return finding(Cause::linear_left_out, {{"factor", linear->factor, 6}});
  const Number slower{"slower", 1 / step, 6}, faster{"faster", step, 6};
  if (const std::optional<Cause> cause = cause_of_step(step, rope); cause && rope.inv_freq.empty())
    return finding(*cause, {step < 1 ? slower : faster});
  if (step > 0 && step < 1) return finding(Cause::linear, {{"factor", 1 / step, 6}, {"step", step, 6}});
  return pattern.found;
}

bool has_no_name(const Pattern& pattern) { return pattern.found.cause == Cause::other_positions; }

// The pattern of the positions, or, where it has no name, of the negative ones.
Pattern pattern_or_mirrored(const FoundPositions& found, const std::vector<double>& expected, std::int64_t batch) {
  Pattern pattern = pattern_of(found.position, expected, batch, found.error);
  if (!has_no_name(pattern)) return pattern;
  std::vector<double> negative = found.position;
  for (double& position : negative) position = -position;
  Pattern mirrored = pattern_of(negative, expected, batch, found.error);
  if (has_no_name(mirrored)) return pattern;
  return {finding(Cause::direction), 0, {}, std::move(mirrored.found)};
}

// The scaling that gives `step` times the speeds; none that has a name.
std::optional<Scaling> slowed(const Scaling& scaling, double step) {
  const Linear* linear = std::get_if<Linear>(&scaling);
  if (linear == nullptr && !std::holds_alternative<Unscaled>(scaling)) return std::nullopt;
  const double factor = (linear != nullptr ? linear->factor : 1) / step;
  if (std::abs(factor - 1) < 1e-6) return Unscaled{};
  if (factor < 1) return std::nullopt;
  return Linear{std::abs(factor - std::round(factor)) < 1e-6 * factor ? std::round(factor) : factor};
}

// What the pattern says of other facts than the positions.
void set_facts(Examination& exam, const Asked& asked, Verdict verdict, double step) {
  if (verdict == Verdict::direction) exam.facts.clockwise = !asked.used.rope.clockwise;
  if (verdict == Verdict::direction || verdict == Verdict::scaling || verdict == Verdict::twice) {
    exam.set_positions(exam.expected[0]);
  }
  if (verdict != Verdict::scaling) return;
  exam.facts.scaling = slowed(asked.used.rope.scaling, step);
  for (double& speed : exam.facts.inv_freq) speed *= step;
}

// Where several axes are off, few tokens tell little of the slow ones: the first one's positions, or else its offset,
// are those of all axes where that holds. Returns what says so.
std::vector<Number> one_for_all(const Examination& exam, const Asked& asked, Motion& motion,
                                std::vector<Pattern>& patterns) {
  const auto is_wrong = [](const Pattern& one) { return one.found.cause != Cause::as_asked; };
  const auto first = std::ranges::find_if(patterns, is_wrong);
  if (std::ranges::count_if(patterns, is_wrong) < 2) return {};
  const auto number = first - patterns.begin();
  for (const bool shifted : {false, true}) {
    if (shifted && first->found.cause != Cause::offset) break;
    Motion one = motion;
    one.position.assign(patterns.size(), motion.position[static_cast<std::size_t>(number)]);
    for (std::size_t axis = 0; shifted && axis < patterns.size(); ++axis)
      std::ranges::transform(exam.expected[axis], one.position[axis].begin(), first->position);
    if (!compare(exam.turns, one).holds) continue;
    motion = std::move(one);
    patterns.assign(patterns.size(), Pattern(*first));
    if (!shifted) return {{"every_axis", true}};
    return {{"axis", axis_name(asked.used, static_cast<int>(number))}, {"others", true}};
  }
  return {};
}

}  // namespace

Pattern pattern_of(const Positions& position, const Positions& expected, std::int64_t batch, const Positions& error) {
  const std::size_t tokens = position.size() / static_cast<std::size_t>(batch);
  if (const auto found = first_that_holds(position, expected, simple_patterns(position[0], expected[0]))) return *found;
  if (const auto found = step_pattern(position, expected, error)) return *found;
  if (const auto found = first_that_holds(position, expected, other_patterns())) return *found;
  if (const auto found = offset_pattern(position, expected, error)) return *found;
  const auto holds = [&](auto position_of) {
    for (std::size_t i = 0; i < position.size(); ++i) {
      if (!same(position[i], position_of(i))) return false;
    }
    return true;
  };
  if (holds([&](std::size_t i) { return expected[i / tokens * tokens + tokens - 1 - i % tokens]; }))
    return {finding(Cause::reversed_positions)};
  if (const auto found = batch == 1 ? padded(position, expected) : std::nullopt) return *found;
  if (const auto found = restarts(position, expected, tokens)) return *found;
  if (batch == 1 && holds([&](std::size_t i) { return position[0] + static_cast<double>(i); }))
    return {finding(Cause::counted_positions, {{"found", position[0]}})};
  std::size_t i = 0;
  while (same(position[i], expected[i])) ++i;  // the first rule does not hold: one differs
  return {finding(Cause::other_positions, {{"found", position[i]}, {"asked", expected[i]}})};
}

void fill_unknown(FoundPositions& found, const Positions& expected, std::int64_t batch) {
  Positions position, wanted, error;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(found.error[i])) continue;
    position.push_back(found.position[i]);
    wanted.push_back(expected[i]);
    error.push_back(found.error[i]);
  }
  if (position.empty() || position.size() == expected.size()) return;
  const Pattern pattern = pattern_of(position, wanted, 1, error);
  const std::size_t tokens = expected.size() / static_cast<std::size_t>(batch);
  const auto first = static_cast<std::size_t>(
      std::ranges::find_if(found.error, [](double one) { return std::isfinite(one); }) - found.error.begin());
  const std::size_t padding = same(found.position[first], expected[0]) ? first : 0;  // of zeros before the first token
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isfinite(found.error[i])) continue;
    if (pattern.found.cause == Cause::offset && i < padding) {
      found.position[i] = expected[0];
    } else if (pattern.position) {
      found.position[i] = pattern.position(expected[i]);
    } else if (i % tokens > 0) {
      found.position[i] = found.position[i - 1] + expected[i] - expected[i - 1];
    }
  }
}

bool explain_by_positions(Examination& exam, const Asked& asked) {
  Motion motion = asked.motion;
  std::vector<Pattern> patterns;
  const std::int64_t batch = exam.turns.layout().batch;
  std::vector<FoundPositions> all = find_positions(exam.turns, asked.motion, exam.expected);
  if (all.empty()) return false;
  for (std::size_t axis = 0; axis < all.size(); ++axis) {
    FoundPositions& found = all[axis];
    fill_unknown(found, exam.expected[axis], batch);
    motion.position[axis] = found.position;
    patterns.push_back(pattern_or_mirrored(found, exam.expected[axis], batch));
  }
  const std::vector<Number> together = one_for_all(exam, asked, motion, patterns);
  const Fit fit = compare(exam.turns, motion);
  if (!says_more(fit, asked.fit.residual)) return false;
  exam.take(fit);
  exam.set_positions(motion.position[0]);
  if (exam.subject.places_unknown) {
    exam.find(Cause::no_positions);
    return true;
  }
  exam.named = std::ranges::none_of(patterns, has_no_name);
  for (std::size_t axis = 0; axis < patterns.size(); ++axis) {
    const Pattern& pattern = patterns[axis];
    if (pattern.found.cause == Cause::as_asked) continue;
    Finding found = finding_of(pattern, asked);
    set_facts(exam, asked, found.verdict, pattern.value);
    const bool one_kind = std::ranges::all_of(patterns, [&](const Pattern& other) {
      return other.found.cause == pattern.found.cause && std::abs(other.value - pattern.value) < 1e-6;
    });
    if (found.cause == Cause::no_angles && one_kind) {
      std::erase_if(exam.findings, [](const Finding& one) { return one.verdict != Verdict::attention_factor; });
      exam.findings.insert(exam.findings.begin(), found);
      return true;
    }
    if (one_kind) found.numbers.insert(found.numbers.end(), together.begin(), together.end());
    if (!one_kind) found.numbers.push_back({"axis", axis_name(asked.used, static_cast<int>(axis))});
    exam.claim(std::move(found), fit, asked.fit);
    if (pattern.more) exam.find(*pattern.more);
    if (one_kind) return true;
  }
  return !exam.findings.empty() || fit.holds;
}

}  // namespace rotary::diagnose
