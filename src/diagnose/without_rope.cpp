// A tensor of which no config says how it should be rotated; and one whose heads rotate each in its own way.
#include <algorithm>
#include <cmath>

#include "examination.h"
#include "explain.h"
#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

using detail::significant;

struct Measured {
  FoundSpeeds speeds;
  std::vector<std::uint8_t> axis;
  bool holds = true;
};

// Each pair with the axis whose positions explain it.
Measured measure_speeds(const Examination& exam) {
  const std::vector<FoundSpeeds> of_axis = find_speeds(exam.turns, exam.expected);
  Measured measured;
  for (std::size_t i = 0; i < of_axis[0].speed.size(); ++i) {
    std::size_t axis = 0;
    while (axis + 1 < of_axis.size() && !of_axis[axis].holds[i]) ++axis;
    measured.axis.push_back(static_cast<std::uint8_t>(axis));
    measured.holds = measured.holds && of_axis[axis].holds[i];
  }
  measured.speeds = pick(of_axis, measured.axis);
  return measured;
}

// The last pair that visibly moves, moves so much that the next one would be seen too.
bool width_is_known(const Examination& exam) {
  const Turns& turns = exam.turns;
  if (turns.block.kind == Kind::half || exam.search.touched.back() + 1 == exam.sample.head_dim) return true;
  double most = 0;
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    most = std::max(most, std::abs(std::arg(turns.turn[turns.at(row, turns.block.pairs - 1)])));
  }
  return most > 16 * exam.sample.unit;
}

std::string described(const Examination& exam) {
  const Facts& facts = exam.facts;
  std::string text = facts.pairing ? "it is rotated in the " + *facts.pairing + " pairing" : "it is rotated";
  if (facts.rotary_dim) {
    text += ", elements " + std::to_string(facts.first.value_or(0)) + " to " +
            std::to_string(facts.first.value_or(0) + *facts.rotary_dim - 1);
  }
  if (facts.base) text += ", base " + significant(*facts.base, 10);
  if (facts.scaling && !std::holds_alternative<Unscaled>(*facts.scaling))
    text += std::string(", ") + name(*facts.scaling);
  return text + ", layout " + facts.layout;
}

void set_block_facts(Examination& exam) {
  exam.facts.first = exam.turns.block.first;
  if (width_is_known(exam)) exam.facts.rotary_dim = exam.turns.block.rotary_dim();
  const double slack = std::max(exam.sample.unit / 2, 1e-6);
  exam.facts.attention_factor = std::abs(exam.factor - 1) <= slack ? 1 : exam.factor;
}

std::vector<Speed> speeds_for_fit(const FoundSpeeds& found, double sign) {
  std::vector<Speed> speeds;
  for (std::size_t i = 0; i < found.speed.size(); ++i) {
    const double value = sign * found.speed[i];
    speeds.push_back({std::max(value, 0.0), 6 * found.error[i] + float32_slack * std::abs(value)});
  }
  return speeds;
}

void explain_given_positions(Examination& exam, const Measured& measured) {
  const double sign = sign_of(measured.speeds);
  exam.facts.clockwise = sign < 0;
  exam.facts.inv_freq = measured.speeds.speed;
  for (double& speed : exam.facts.inv_freq) speed *= sign;
  if (exam.expected.size() > 1) exam.facts.axis = measured.axis;
  std::vector<double> positions = exam.expected[0];
  const std::optional<double> shift = shift_of(measured.speeds);
  if (shift) {
    for (double& position : positions) position += *shift;
    exam.set_positions(positions);
  }
  if (shift.value_or(0) != 0) {
    const Pattern pattern = pattern_of(positions, exam.expected[0], exam.turns.order.batch);
    exam.find(Verdict::offset, "is rotated at positions that " + pattern.words);
  }
}

}  // namespace

void examine_without_rope(Examination& exam) {
  set_block_facts(exam);
  exam.residual = exam.turns.spread;
  const bool given = exam.subject.positions.has_value();
  const Measured measured = measure_speeds(exam);
  if (exam.turns.order.tokens > 1 && measured.holds) {
    if (given) explain_given_positions(exam, measured);
    const double sign = sign_of(measured.speeds);
    if (const auto fitted = fit_speeds(speeds_for_fit(measured.speeds, sign), exam.turns.block.rotary_dim(), given);
        fitted && exam.facts.rotary_dim) {
      exam.facts.base = fitted->rope.base;
      if (given) exam.facts.scaling = fitted->rope.scaling;
    }
  }
  if (!exam.findings.empty()) return;
  const std::string more = given ? "" : "; without positions only position times speed is known, and no direction";
  exam.find(Verdict::cannot_tell,
            "cannot tell whether it is right, because no config says what is asked; " + described(exam) + more);
}

void examine_heads(Examination& exam) {
  exam.find(Verdict::cannot_tell, "cannot tell, because its angles differ from head to head in every layout");
  const auto asked = asked_block(exam.subject, exam.sample.head_dim);
  if (!asked || exam.turns.block != *asked) return;
  // Each vector for itself.
  Order each = exam.turns.order;
  const std::int64_t heads = each.heads, tokens = each.tokens;
  if (each.token != heads * each.head && each.head != tokens * each.token) return;
  const bool tokens_outside = each.token == heads * each.head;
  each.tokens = tokens * heads;
  each.token = std::min(each.token, each.head);
  each.heads = 1;
  const Turns turns = measure(exam.sample, each, exam.turns.block);
  std::vector<double> expected;
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    const std::int64_t in_row = row % each.tokens, t = tokens_outside ? in_row / heads : in_row % tokens;
    expected.push_back(exam.expected[0][static_cast<std::size_t>(row / each.tokens * tokens + t)]);
  }
  Asked rope = ask(*exam.subject.used, exam.turns.block, exam.subject, exam.expected);
  if (rope.frequencies.axes() > 1) return;
  const FoundPositions found = find_positions(turns, rope.motion, 0, expected);
  if (!found.holds) return;
  exam.findings.clear();
  const auto flattened = [&] {
    for (std::int64_t row = 0; row < turns.rows(); ++row) {
      const std::int64_t in_row = row % each.tokens;
      const double wanted = exam.expected[0][static_cast<std::size_t>(in_row % tokens)];
      if (found.position[static_cast<std::size_t>(row)] != wanted) return false;
    }
    return true;
  };
  if (tokens_outside && flattened()) {
    exam.find(Verdict::layout,
              "is rotated as if its memory were [heads, tokens, head_dim]: a reshape where a transpose "
              "belongs");
    return;
  }
  int wrong = 0;
  for (std::int64_t head = 0; head < heads; ++head) {
    bool right = true;
    for (std::int64_t row = 0; row < turns.rows(); ++row) {
      const std::int64_t in_row = row % each.tokens, own = tokens_outside ? in_row % heads : in_row / tokens;
      if (own == head && found.position[static_cast<std::size_t>(row)] != expected[static_cast<std::size_t>(row)])
        right = false;
    }
    if (!right) ++wrong;
  }
  exam.find(Verdict::positions, "is rotated at other positions in " + std::to_string(wrong) + " of its " +
                                    std::to_string(heads) + " heads");
}

}  // namespace rotary::diagnose
