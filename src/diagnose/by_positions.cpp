// The asked speeds at other positions than those expected.
#include <algorithm>
#include <cmath>

#include "examination.h"
#include "values/number_text.h"

namespace rotary::diagnose {

using detail::significant;

namespace {

Finding finding_of(const Pattern& pattern, const Asked& asked) {
  const Linear* linear = std::get_if<Linear>(&asked.used.rope.scaling);
  const bool clockwise = asked.used.rope.clockwise;
  const std::string at_positions = "is rotated at positions that " + pattern.words;
  switch (pattern.kind) {
    case Change::offset:
      return {Verdict::offset, at_positions};
    case Change::negated:
      return {Verdict::direction, direction_text(!clockwise, clockwise) +
                                      (pattern.words == "are negated" ? "" : "; the positions " + pattern.words)};
    case Change::constant:
      if (pattern.value != 0) break;
      return {Verdict::not_rotated,
              "is not rotated: every angle is 0, whatever else was done (position 0 for every token would look the "
              "same)"};
    case Change::doubled:
      return {Verdict::twice,
              "is rotated twice: every angle is double (positions that are doubled, or a speed that is, would look the "
              "same)"};
    case Change::step:
      if (linear != nullptr && std::abs(pattern.value - linear->factor) < 1e-6 * linear->factor) {
        return {Verdict::scaling, "is rotated without the linear scaling with factor " +
                                      significant(linear->factor, 6) + " that the model asks"};
      }
      if (const std::string cause = cause_of_step(pattern.value, asked.used.rope);
          !cause.empty() && asked.used.rope.inv_freq.empty()) {
        const std::string number = pattern.value < 1
                                       ? " (as linear scaling with factor " + significant(1 / pattern.value, 6) + " is)"
                                       : " (" + significant(pattern.value, 6) + " times as fast as the model asks)";
        return {Verdict::scaling, "is rotated " + cause + number};
      }
      if (pattern.value > 0 && pattern.value < 1) {
        return {Verdict::scaling, "is rotated as by linear scaling with factor " + significant(1 / pattern.value, 6) +
                                      " of what the model asks (positions " + significant(pattern.value, 6) +
                                      " times as large would look the same)"};
      }
      break;
    default:
      break;
  }
  return {Verdict::positions, at_positions};
}

bool has_no_name(const Pattern& pattern) { return pattern.kind == Change::other; }

// The pattern of the positions, or, where it has no name, of the negative ones.
Pattern pattern_or_mirrored(const FoundPositions& found, const std::vector<double>& expected, std::int64_t batch) {
  const Pattern pattern = pattern_of(found.position, expected, batch, found.error);
  if (!has_no_name(pattern)) return pattern;
  std::vector<double> negative = found.position;
  for (double& position : negative) position = -position;
  const Pattern mirrored = pattern_of(negative, expected, batch, found.error);
  if (has_no_name(mirrored)) return pattern;
  return {Change::negated, 0, "are negated and then " + mirrored.words};
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
// are those of all axes where that holds. Returns what is then said behind the pattern.
std::string one_for_all(const Examination& exam, const Asked& asked, Motion& motion, std::vector<Pattern>& patterns) {
  const auto is_wrong = [](const Pattern& one) { return one.kind != Change::none; };
  const auto first = std::ranges::find_if(patterns, is_wrong);
  if (std::ranges::count_if(patterns, is_wrong) < 2) return "";
  const auto number = first - patterns.begin();
  for (const bool shifted : {false, true}) {
    if (shifted && first->kind != Change::offset) break;
    Motion one = motion;
    one.position.assign(patterns.size(), motion.position[static_cast<std::size_t>(number)]);
    for (std::size_t axis = 0; shifted && axis < patterns.size(); ++axis)
      std::ranges::transform(exam.expected[axis], one.position[axis].begin(), first->position);
    if (!compare(exam.turns, one).holds) continue;
    motion = std::move(one);
    patterns.assign(patterns.size(), Pattern(*first));
    return shifted ? " on " + axis_name(asked.used, static_cast<int>(number)) + ", and as far off on the other axes"
                   : " on every axis";
  }
  return "";
}

}  // namespace

bool explain_by_positions(Examination& exam, const Asked& asked) {
  Motion motion = asked.motion;
  const double before = compare(exam.turns, motion).residual;
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
  const std::string together = one_for_all(exam, asked, motion, patterns);
  const Fit fit = compare(exam.turns, motion);
  if (!says_more(fit, before)) return false;
  exam.residual = fit.residual;
  exam.explained = fit.holds;
  exam.set_positions(motion.position[0]);
  if (exam.subject.places_unknown) {
    exam.find(
        Verdict::cannot_tell,
        "cannot tell whether its positions are right, because a rope of coordinates was given none; at those that it "
        "has it is rotated as the config asks");
    return true;
  }
  exam.named = std::ranges::none_of(patterns, has_no_name);
  for (std::size_t axis = 0; axis < patterns.size(); ++axis) {
    const Pattern& pattern = patterns[axis];
    if (pattern.kind == Change::none) continue;
    const Finding finding = finding_of(pattern, asked);
    set_facts(exam, asked, finding.verdict, pattern.value);
    const bool one_kind = std::ranges::all_of(patterns, [&](const Pattern& other) {
      return other.kind == pattern.kind && std::abs(other.value - pattern.value) < 1e-6;
    });
    if (finding.verdict == Verdict::not_rotated && one_kind) {
      std::erase_if(exam.findings, [](const Finding& one) { return one.verdict != Verdict::attention_factor; });
      exam.findings.insert(exam.findings.begin(), finding);
      return true;
    }
    const std::string on_axis = one_kind ? together : " on " + axis_name(asked.used, static_cast<int>(axis));
    exam.find(finding.verdict, finding.said + on_axis + evidence(fit.residual, before));
    if (one_kind) return true;
  }
  return !exam.findings.empty() || fit.holds;
}

}  // namespace rotary::diagnose
