// Another base or another scaling than the rope asks.
#include <algorithm>
#include <cmath>

#include "examination.h"
#include "values/number_text.h"

namespace rotary::diagnose {

using detail::significant;

namespace {

// Drops the finding on the attention factor where it is the one that this rope has.
void take_explanation(Examination& exam, const Explanation& explained, const Asked& asked, const Said& shown) {
  const Rope &rope = explained.rope, &own = asked.used.rope;
  const Frequencies frequencies = rotary::frequencies(rope, explained.length);
  exam.facts.base = rope.inv_freq.empty() ? std::optional<double>(rope.base) : std::nullopt;
  exam.facts.scaling = rope.inv_freq.empty() ? std::optional<Scaling>(rope.scaling) : std::nullopt;
  exam.facts.inv_freq = frequencies.inv_freq;
  if (std::abs(exam.factor - frequencies.attention_factor) < std::max(exam.sample.unit, 1e-5)) {
    exam.drop(Verdict::attention_factor);
  }
  const bool other_base = rope.base != own.base;
  const bool other_scaling = rope.scaling != own.scaling || !rope.inv_freq.empty() ||
                             (depends_on_length(rope.scaling) && explained.length != asked.length);
  std::string asks = other_base ? "base " + significant(own.base, 10) : words_of(own.scaling);
  if (other_base && other_scaling) asks += " and " + words_of(own.scaling);
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
      const Complex a = asked.turn(row, pair), b = other.turn(row, pair);
      if (std::abs(a - b) < turns.unit / 4) continue;
      of_asked += turns.weight[at] * std::norm(turns.turn[at] - a);
      of_other += turns.weight[at] * std::norm(turns.turn[at] - b);
      ++count;
    }
  }
  return count < 8 || of_other == 0 ? 1 : of_asked / of_other;
}

std::vector<double> signed_speeds(const Explanation& one, bool clockwise) {
  std::vector<double> speeds = frequencies(one.rope, one.length).inv_freq;
  for (double& speed : speeds) speed *= clockwise ? -1 : 1;
  return speeds;
}

}  // namespace

bool explain_by_rivals(Examination& exam, const Asked& asked, bool holds) {
  const Rope rope = rope_for_block(asked.used.rope, exam.turns.block);
  const Explanation* best = nullptr;
  double residual = 0, most = 4;
  const std::vector<Explanation> list = rivals(rope, asked.length, asked.used.context);
  for (const Explanation& one : list) {
    Motion motion = asked.motion;
    motion.speed = signed_speeds(one, asked.used.rope.clockwise);
    const Fit fit = compare(exam.turns, motion);
    if (!fit.holds) continue;
    if (holds) {
      const double better = advantage(exam.turns, asked.motion, motion);
      if (better <= most) continue;
      most = better;
    } else if (best != nullptr && fit.residual > 0.8 * residual) {
      continue;
    }
    best = &one;
    residual = fit.residual;
  }
  if (best == nullptr) return false;
  exam.residual = residual;
  take_explanation(exam, *best, asked, evidence(residual, compare(exam.turns, asked.motion).residual));
  return true;
}

void find_shift(Examination& exam, double shift) {
  if (shift == 0) return;
  std::vector<double> position = exam.expected[0];
  for (double& one : position) one += shift;
  exam.set_positions(position);
  exam.find(Verdict::offset,
            "is rotated at positions that " + pattern_of(position, exam.expected[0], exam.turns.layout().batch).words);
}

bool explain_by_speeds(Examination& exam, const Asked& asked) {
  std::vector<FoundSpeed> found;
  for (int pair = 0; pair < exam.turns.block.pairs; ++pair) {
    found.push_back(find_speed(exam.turns, pair, exam.expected[static_cast<std::size_t>(asked.motion.axis_of(pair))]));
    if (!found.back().holds) return false;
  }
  const std::optional<double> shift = shift_of(found);
  if (!shift) return false;
  const double sign = sign_of(found);
  const bool clockwise = sign < 0;
  const Rope rope = rope_for_block(asked.used.rope, exam.turns.block);
  const std::optional<Explanation> explained = explain_speeds(speeds_of(found), rope, asked.length);
  Motion motion = asked.motion;
  for (std::size_t i = 0; i < found.size(); ++i) motion.speed[i] = found[i].speed;
  if (explained) motion.speed = signed_speeds(*explained, clockwise);
  for (std::vector<double>& positions : motion.position) {
    for (double& position : positions) position += *shift;
  }
  const Fit fit = compare(exam.turns, motion);
  const double before = compare(exam.turns, asked.motion).residual;
  if (!fit.holds && fit.residual > 0.2 * before) return false;
  find_shift(exam, *shift);
  exam.residual = fit.residual;
  exam.set_speeds(motion.speed);
  exam.facts.clockwise = clockwise;
  if (clockwise != asked.used.rope.clockwise) {
    exam.find(Verdict::direction, direction_text(clockwise, !clockwise));
  }
  const Said shown = evidence(fit.residual, before);
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
