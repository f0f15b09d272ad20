// A tensor of which no config says how it should be rotated.
#include <algorithm>
#include <cmath>

#include "examination.h"
#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

using detail::significant;

// The last pair that visibly moves, moves so much that the next one would be seen too.
bool width_is_known(const Examination& exam) {
  const Turns& turns = exam.turns;
  if (turns.block.kind == Kind::half || exam.search.touched.back() + 1 == exam.sample.head_dim) return true;
  double most = 0;
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    most = std::max(most, std::abs(std::arg(turns.turn[turns.at(row, turns.pairs() - 1)])));
  }
  return most > 16 * exam.sample.unit;
}

std::string described(const Facts& facts) {
  std::string text = facts.pairing ? "it is rotated in the " + *facts.pairing + " pairing" : "it is rotated";
  if (facts.rotary_dim) {
    text +=
        ", elements " + std::to_string(*facts.first) + " to " + std::to_string(*facts.first + *facts.rotary_dim - 1);
  }
  if (facts.base) text += ", base " + significant(*facts.base, 10);
  if (facts.scaling && !std::holds_alternative<Unscaled>(*facts.scaling)) {
    text += std::string(", ") + name(*facts.scaling);
  }
  return text + ", layout " + facts.layout;
}

// Speeds, base and scaling, where every pair has a speed on some axis.
void fit_frequencies(Examination& exam, bool given) {
  std::vector<FoundSpeed> speeds;
  std::vector<std::uint8_t> axes;
  for (int pair = 0; pair < exam.turns.pairs(); ++pair) {
    std::size_t axis = 0;
    FoundSpeed speed = find_speed(exam.turns, pair, exam.expected[axis]);
    while (!speed.holds && ++axis < exam.expected.size()) speed = find_speed(exam.turns, pair, exam.expected[axis]);
    if (!speed.holds) return;
    speeds.push_back(speed);
    axes.push_back(static_cast<std::uint8_t>(axis));
  }
  if (given) {
    const double sign = sign_of(speeds);
    exam.facts.clockwise = sign < 0;
    for (const FoundSpeed& one : speeds) exam.facts.inv_freq.push_back(sign * one.speed);
    if (exam.expected.size() > 1) exam.facts.axis = axes;
    if (const std::optional<double> shift = shift_of(speeds)) {
      exam.set_positions(exam.expected[0]);
      find_shift(exam, *shift);
    }
  }
  if (!exam.facts.rotary_dim) return;
  const auto fitted = fit_speeds(speeds_of(speeds), exam.turns.block.rotary_dim(), given);
  if (!fitted) return;
  exam.facts.base = fitted->rope.base;
  if (given) exam.facts.scaling = fitted->rope.scaling;
}

}  // namespace

void examine_without_rope(Examination& exam) {
  exam.explained = true;  // what is found is all that the tensors tell
  exam.set_pairing();
  exam.facts.first = exam.turns.block.first;
  if (width_is_known(exam)) exam.facts.rotary_dim = exam.turns.block.rotary_dim();
  const double slack = std::max(exam.sample.unit / 2, 1e-6);
  exam.facts.attention_factor = std::abs(exam.factor - 1) <= slack ? 1 : exam.factor;
  exam.residual = exam.turns.spread;
  const bool given = exam.subject.positions.has_value();
  if (exam.turns.layout().tokens > 1) fit_frequencies(exam, given);
  if (!exam.findings.empty()) return;
  const std::string more = given ? "" : "; without positions only position times speed is known, and no direction";
  exam.find(Verdict::cannot_tell,
            "cannot tell whether it is right, because no config says what is asked; " + described(exam.facts) + more);
}

}  // namespace rotary::diagnose
