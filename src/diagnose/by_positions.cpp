// The asked speeds at other positions than those expected.
#include <algorithm>
#include <cmath>

#include "examination.h"
#include "values/number_text.h"

namespace rotary::diagnose {

using detail::significant;

namespace {

struct PositionFinding {
  Verdict verdict = Verdict::positions;
  std::string text;
};

PositionFinding finding_of(const Pattern& pattern, const Asked& asked) {
  const double* factor = nullptr;
  if (const Linear* linear = std::get_if<Linear>(&asked.used.rope.scaling)) factor = &linear->factor;
  const bool clockwise = asked.used.rope.clockwise;
  switch (pattern.kind) {
    case Change::offset:
      return {Verdict::offset, "is rotated at positions that " + pattern.words};
    case Change::negated:
      return {Verdict::direction, std::string("is rotated ") + turning(!clockwise) + "; the model rotates " +
                                      turning(clockwise) +
                                      (pattern.words == "are negated" ? "" : "; the positions " + pattern.words)};
    case Change::constant:
      if (pattern.value == 0) {
        return {Verdict::not_rotated,
                "is not rotated: every angle is 0, whatever else was done (position 0 for every token would look the "
                "same)"};
      }
      break;
    case Change::doubled:
      return {Verdict::twice,
              "is rotated twice: every angle is double (positions that are doubled, or a speed that is, would look the "
              "same)"};
    case Change::step:
      if (factor != nullptr && std::abs(pattern.value - *factor) < 1e-6 * *factor) {
        return {Verdict::scaling, "is rotated without the linear scaling with factor " + significant(*factor, 6) +
                                      " that the model asks"};
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
  return {Verdict::positions, "is rotated at positions that " + pattern.words};
}

// Positions that are those of a known pattern but for their sign.
void mirror(Pattern& pattern, const FoundPositions& found, const std::vector<double>& expected, std::int64_t batch) {
  if (pattern.kind != Change::other && pattern.kind != Change::rows) return;
  std::vector<double> negative = found.position;
  for (double& position : negative) position = -position;
  Pattern mirrored = pattern_of(negative, expected, batch, found.error);
  if (mirrored.kind == Change::other || mirrored.kind == Change::rows) return;
  pattern = {Change::negated, 0, "are negated and then " + mirrored.words};
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

}  // namespace

bool explain_by_positions(Examination& exam, const Asked& asked) {
  Motion motion = asked.motion;
  const Fit before = compare(exam.turns, motion);
  std::vector<Pattern> patterns;
  for (int axis = 0; axis < static_cast<int>(exam.expected.size()); ++axis) {
    const auto& expected = exam.expected[static_cast<std::size_t>(axis)];
    FoundPositions found = find_positions(exam.turns, asked.motion, axis, expected);
    if (!found.holds) return false;
    fill_unknown(found, expected, exam.turns.order.batch);
    motion.position[static_cast<std::size_t>(axis)] = found.position;
    patterns.push_back(pattern_of(found.position, expected, exam.turns.order.batch, found.error));
    mirror(patterns.back(), found, expected, exam.turns.order.batch);
  }
  const Fit fit = compare(exam.turns, motion);
  if (!fit.holds && fit.residual > 0.2 * before.residual) return false;
  exam.residual = fit.residual;
  exam.set_positions(motion.position[0]);
  if (exam.subject.places_unknown) {
    exam.find(
        Verdict::cannot_tell,
        "cannot tell whether its positions are right, because a rope of coordinates was given none; at those that it "
        "has it is rotated as the config asks");
    return true;
  }
  const std::string shown = evidence(fit.residual, before.residual);
  for (std::size_t axis = 0; axis < patterns.size(); ++axis) {
    if (patterns[axis].kind == Change::none) continue;
    const PositionFinding finding = finding_of(patterns[axis], asked);
    if (finding.verdict == Verdict::direction) exam.facts.clockwise = !asked.used.rope.clockwise;
    if (finding.verdict == Verdict::direction || finding.verdict == Verdict::scaling ||
        finding.verdict == Verdict::twice) {
      exam.set_positions(exam.expected[0]);
    }
    if (finding.verdict == Verdict::scaling) {
      exam.facts.scaling = slowed(asked.used.rope.scaling, patterns[axis].value);
      for (double& speed : exam.facts.inv_freq) speed *= patterns[axis].value;
    }
    const bool one_kind = std::all_of(patterns.begin(), patterns.end(),
                                      [&](const Pattern& other) { return other.kind == patterns[axis].kind; });
    if (finding.verdict == Verdict::not_rotated) {
      std::erase_if(exam.findings, [](const Finding& one) { return one.verdict != Verdict::attention_factor; });
      exam.findings.insert(exam.findings.begin(), {finding.verdict, finding.text});
      return true;
    }
    exam.find(finding.verdict,
              finding.text + (one_kind ? "" : " on " + axis_name(asked.used, static_cast<int>(axis))) + shown);
    if (one_kind) return true;
  }
  return !exam.findings.empty() || fit.holds;
}

}  // namespace rotary::diagnose
