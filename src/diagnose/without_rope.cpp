// A tensor of which no config says how it should be rotated; and one whose heads rotate each in its own way.
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
    most = std::max(most, std::abs(std::arg(turns.turn[turns.at(row, turns.block.pairs - 1)])));
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
  for (int pair = 0; pair < exam.turns.block.pairs; ++pair) {
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

void examine_heads(Examination& exam) {
  exam.find(Verdict::cannot_tell, "cannot tell, because its angles differ from head to head in every layout");
  const auto asked = asked_block(exam.subject, exam.sample.head_dim);
  if (!asked || exam.turns.block != *asked || exam.sample.shape.size() < 3) return;
  // Each head of each token for itself.
  Reading each = exam.turns.reading;
  Layout& layout = each.layout;
  const std::int64_t heads = layout.heads, tokens = layout.tokens;
  const bool tokens_outside = layout.token_stride == heads * layout.head_stride;
  if (!tokens_outside && layout.head_stride != tokens * layout.token_stride) return;
  layout.tokens = tokens * heads;
  layout.token_stride = std::min(layout.token_stride, layout.head_stride);
  layout.heads = 1;
  const Turns turns = measure(exam.sample, each, exam.turns.block);
  // Of a row of turns, by the layout: the head, and the position of its token.
  struct Own {
    std::int64_t head;
    double position;
  };
  const auto own = [&](std::int64_t row) -> Own {
    const std::int64_t batch_row = row / layout.tokens, in_row = row % layout.tokens;
    const std::int64_t token = tokens_outside ? in_row / heads : in_row % tokens;
    const auto at = static_cast<std::size_t>(batch_row * tokens + token);
    return {tokens_outside ? in_row % heads : in_row / tokens, exam.expected[0][at]};
  };
  std::vector<double> expected;
  for (std::int64_t row = 0; row < turns.rows(); ++row) expected.push_back(own(row).position);
  const Asked rope = ask(*exam.subject.used, exam.turns.block, exam.subject, exam.expected);
  if (rope.frequencies.axes() > 1) return;
  const FoundPositions found = find_positions(turns, rope.motion, 0, expected);
  if (!found.holds) return;
  exam.findings.clear();
  bool flattened = tokens_outside;
  std::vector<bool> wrong(static_cast<std::size_t>(heads), false);
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    const double position = found.position[static_cast<std::size_t>(row)];
    flattened = flattened && position == exam.expected[0][static_cast<std::size_t>(row % layout.tokens % tokens)];
    if (position != own(row).position) wrong[static_cast<std::size_t>(own(row).head)] = true;
  }
  if (flattened) {
    exam.find(Verdict::layout,
              "is rotated as if its memory were [heads, tokens, head_dim]: a reshape where a transpose "
              "belongs");
    return;
  }
  exam.find(Verdict::positions, "is rotated at other positions in " + std::to_string(std::ranges::count(wrong, true)) +
                                    " of its " + std::to_string(heads) + " heads");
}

}  // namespace rotary::diagnose
