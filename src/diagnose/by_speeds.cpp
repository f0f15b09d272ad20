// Another base or another scaling than the rope asks.
#include <algorithm>
#include <cmath>

#include "examination.h"
#include "explain.h"
#include "values/number_text.h"

namespace rotary::diagnose {

using detail::significant;

namespace {

// Drops the finding on the attention factor where it is the one that this rope has.
void take_explanation(Examination& exam, const Explanation& explained, const Asked& asked, const std::string& shown) {
  const Rope& rope = explained.rope;
  const Frequencies frequencies = rotary::frequencies(rope, explained.length);
  exam.facts.base = rope.inv_freq.empty() ? std::optional<double>(rope.base) : std::nullopt;
  exam.facts.scaling = rope.inv_freq.empty() ? std::optional<Scaling>(rope.scaling) : std::nullopt;
  exam.facts.inv_freq = frequencies.inv_freq;
  if (std::abs(exam.factor - frequencies.attention_factor) < std::max(exam.sample.unit, 1e-5)) {
    std::erase_if(exam.findings, [](const Finding& one) { return one.verdict == Verdict::attention_factor; });
  }
  const bool other_base = rope.base != asked.used.rope.base;
  const bool other_scaling = rope.scaling != asked.used.rope.scaling || !rope.inv_freq.empty() ||
                             (depends_on_length(rope.scaling) && explained.length != asked.length);
  std::string asks = other_base ? "base " + significant(asked.used.rope.base, 10) : words_of(asked.used.rope.scaling);
  if (other_base && other_scaling) asks += " and " + words_of(asked.used.rope.scaling);
  exam.find(other_base ? Verdict::base : Verdict::scaling,
            "is rotated " + explained.words + "; the model asks " + asks + shown);
}

// How much better other explains the turns than asked does, as a quotient of mean squares, where the two differ and the
// elements move by more than their rounding.
double advantage(const Turns& turns, const Motion& asked, const Motion& other) {
  double of_asked = 0, of_other = 0;
  int count = 0;
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    for (int pair = 0; pair < turns.block.pairs; ++pair) {
      const std::size_t at = turns.at(row, pair);
      const double moved = std::max(std::abs(asked.angle(row, pair)), std::abs(other.angle(row, pair)));
      if (turns.weight[at] == 0 || moved < 4 * turns.unit) continue;
      const std::complex<double> a = asked.turn(row, pair), b = other.turn(row, pair);
      if (std::abs(a - b) < turns.unit / 4) continue;
      of_asked += turns.weight[at] * std::norm(turns.turn[at] - a);
      of_other += turns.weight[at] * std::norm(turns.turn[at] - b);
      ++count;
    }
  }
  return count < 8 || of_other == 0 ? 1 : of_asked / of_other;
}

std::vector<Speed> for_fit(const FoundSpeeds& found, double sign) {
  std::vector<Speed> speeds;
  for (std::size_t i = 0; i < found.speed.size(); ++i) {
    const double value = sign * found.speed[i], error = 6 * found.error[i] + float32_slack * std::abs(value);
    speeds.push_back({std::max(value, 0.0), value < -error ? 0 : error});
  }
  return speeds;
}

// Moves the positions of the motion by the shift that the angles at position 0 show. False: they show none.
bool shift_positions(Examination& exam, const FoundSpeeds& found, Motion& motion) {
  const std::optional<double> shift = shift_of(found);
  if (!shift) return false;
  if (*shift == 0) return true;
  for (std::vector<double>& positions : motion.position) {
    for (double& position : positions) position += *shift;
  }
  const Pattern pattern = pattern_of(motion.position[0], exam.expected[0], exam.turns.order.batch);
  exam.set_positions(motion.position[0]);
  exam.find(Verdict::offset, "is rotated at positions that " + pattern.words);
  return true;
}

}  // namespace

bool explain_by_rivals(Examination& exam, const Asked& asked, bool holds) {
  const Fit before = compare(exam.turns, asked.motion);
  const Rope rope = rope_for_block(asked.used.rope, exam.turns.block);
  const Explanation* best = nullptr;
  Fit best_fit;
  const std::vector<Explanation> list = rivals(rope, asked.length, asked.used.context);
  double most = 4;
  for (const Explanation& one : list) {
    Motion motion = asked.motion;
    motion.speed = frequencies(one.rope, one.length).inv_freq;
    if (asked.used.rope.clockwise) {
      for (double& speed : motion.speed) speed = -speed;
    }
    const Fit fit = compare(exam.turns, motion);
    if (!fit.holds) continue;
    if (holds) {
      const double better = advantage(exam.turns, asked.motion, motion);
      if (better <= most) continue;
      most = better;
    } else if (best != nullptr && fit.residual > 0.8 * best_fit.residual) {
      continue;
    }
    best = &one;
    best_fit = fit;
  }
  if (best == nullptr) return false;
  exam.residual = best_fit.residual;
  take_explanation(exam, *best, asked, evidence(best_fit.residual, before.residual));
  return true;
}

bool explain_by_speeds(Examination& exam, const Asked& asked) {
  const FoundSpeeds found = pick(find_speeds(exam.turns, exam.expected), asked.motion.axis);
  if (std::find(found.holds.begin(), found.holds.end(), false) != found.holds.end()) return false;
  const double sign = sign_of(found);
  const bool clockwise = sign < 0;
  const Rope rope = rope_for_block(asked.used.rope, exam.turns.block);
  const std::optional<Explanation> explained = explain_speeds(for_fit(found, sign), rope, asked.length);
  Motion motion = asked.motion;
  motion.speed = found.speed;
  if (explained) {
    motion.speed = frequencies(explained->rope, explained->length).inv_freq;
    for (double& speed : motion.speed) speed *= sign;
  }
  const Fit before = compare(exam.turns, asked.motion);
  const std::size_t known = exam.findings.size();
  const bool shifts = shift_positions(exam, found, motion);
  const Fit fit = compare(exam.turns, motion);
  if (!shifts || (!fit.holds && fit.residual > 0.2 * before.residual)) {
    exam.findings.resize(known);
    exam.set_positions(exam.expected[0]);
    return false;
  }
  exam.residual = fit.residual;
  exam.facts.inv_freq = motion.speed;
  for (double& speed : exam.facts.inv_freq) speed = std::abs(speed);
  exam.facts.clockwise = clockwise;
  if (clockwise != asked.used.rope.clockwise) {
    exam.find(Verdict::direction,
              std::string("is rotated ") + turning(clockwise) + "; the model rotates " + turning(!clockwise));
  }
  const std::string shown = evidence(fit.residual, before.residual);
  if (explained) {
    take_explanation(exam, *explained, asked, shown);
    return true;
  }
  exam.facts.base.reset();
  exam.facts.scaling.reset();
  exam.find(Verdict::scaling, "is rotated at speeds that no known base and scaling gives; the model asks base " +
                                  significant(asked.used.rope.base, 10) + " and " + words_of(asked.used.rope.scaling) +
                                  shown);
  return true;
}

}  // namespace rotary::diagnose
