// The asked speeds at other positions.
#include <algorithm>
#include <cmath>
#include <functional>

#include "examination.h"

namespace rotary::diagnose {

namespace {

Finding finding_of(const Pattern& pattern, const Asked& asked) {
  const Rope& rope = asked.used.rope;
  if (pattern.found.cause == Cause::direction) return direction_found(!rope.clockwise, rope.clockwise);
  if (pattern.found.cause != Cause::position_step) return pattern.found;
  const double step = pattern.value;
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

// Sets the facts beside the positions that follow from a pattern.
void set_facts(Examination& exam, const Asked& asked, Verdict verdict, double step) {
  if (verdict == Verdict::direction) exam.facts.clockwise = !asked.used.rope.clockwise;
  if (verdict == Verdict::direction || verdict == Verdict::scaling || verdict == Verdict::twice)
    exam.set_positions(exam.expected[0]);
  if (verdict != Verdict::scaling) return;
  exam.facts.scaling = slowed(asked.used.rope.scaling, step);
  for (double& speed : exam.facts.inv_freq) speed *= step;
}

// Few tokens tell little of the slow axes. Where several axes are off, the first one's positions, or else its offset,
// become those of all axes if that holds. Returns the numbers that say so.
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

// The positions of every axis that explain the pairs on it, with their patterns. False: none do.
bool find_each_axis(const Examination& exam, Motion& motion, std::vector<Pattern>& patterns) {
  const std::int64_t batch = exam.turns.layout().batch;
  for (std::size_t axis = 0; axis < exam.expected.size(); ++axis) {
    const std::vector<double>& expected = exam.expected[axis];
    const FoundPositions found = find_positions(exam.turns, motion, static_cast<int>(axis), expected);
    if (!found.holds) return false;
    patterns.push_back(pattern_or_mirrored(found, expected, batch));
    std::vector<double>& position = motion.position[axis] = found.position;
    for (std::size_t row = 0; row < position.size(); ++row) {
      if (!std::isfinite(found.error[row]) && patterns.back().position)
        position[row] = patterns.back().position(expected[row]);
    }
  }
  return true;
}

// Positions of angles that are sums over axes are not measured but tried: each axis up to four positions away.
bool find_sums(const Examination& exam, Motion& motion, std::vector<Pattern>& patterns) {
  const std::size_t axes = exam.expected.size();
  patterns.resize(axes);
  constexpr int farthest = 4, steps = 2, choices = 2 * farthest * steps + 1;  // steps: in one position
  const int all = static_cast<int>(std::pow(choices, axes));
  for (int choice = 0; choice < all; ++choice) {
    int rest = choice;
    for (std::size_t axis = 0; axis < axes; ++axis, rest /= choices) {
      const double shift = static_cast<double>(rest % choices) / steps - farthest, first = exam.expected[axis][0];
      patterns[axis] = {shift == 0 ? finding(Cause::as_asked) : find_offset(first + shift, first),
                        shift,
                        [=](double one) { return one + shift; },
                        {}};
      std::ranges::transform(exam.expected[axis], motion.position[axis].begin(), patterns[axis].position);
    }
    if (compare_while_it_holds(exam.turns, motion).holds) return true;
  }
  return false;
}

}  // namespace

bool explain_by_positions(Examination& exam, const Asked& asked) {
  Motion motion = asked.motion;
  std::vector<Pattern> patterns;
  const bool sums = motion.terms > 1;
  if (!(sums ? find_sums(exam, motion, patterns) : find_each_axis(exam, motion, patterns))) return false;
  const std::vector<Number> together = sums ? std::vector<Number>{} : one_for_all(exam, asked, motion, patterns);
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
    if (one_kind) found.numbers.insert(found.numbers.end(), together.begin(), together.end());
    if (!one_kind) found.numbers.push_back({"axis", axis_name(asked.used, static_cast<int>(axis))});
    exam.claim(std::move(found), fit, asked.fit);
    if (pattern.more) exam.find(*pattern.more);
    if (one_kind) return true;
  }
  return !exam.findings.empty() || fit.holds;
}

}  // namespace rotary::diagnose
