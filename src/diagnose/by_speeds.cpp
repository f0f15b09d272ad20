// Another base or another scaling than the rope asks.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "examination.h"
#include "values/number_text.h"
#include "values/scaling_fields.h"

namespace rotary::diagnose {

using detail::significant;

namespace {

// Drops the finding on the attention factor where it is the one that this rope has.
void take_explanation(Examination& exam, const Explanation& explained, const Asked& asked, const std::string& shown) {
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
  std::string asks = other_base ? "base " + significant(own.base, 10) : scaling_asked(asked);
  if (other_base && other_scaling) asks += " and " + scaling_asked(asked);
  exam.find(other_base ? Verdict::base : Verdict::scaling,
            "is rotated " + explained.words + "; the model asks " + asks + shown);
}

// ---- without a config --------------------------------------------------------------------------

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

double advantage(const Turns& turns, const Motion& asked, const Motion& other) {
  double of_asked = 0, of_other = 0;
  int count = 0;
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    for (int pair = 0; pair < turns.pairs(); ++pair) {
      const std::size_t at = turns.at(row, pair);
      const double moved = std::max(asked.size(row, pair), other.size(row, pair));
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

namespace {

// Some pairs at the asked speeds, the others by a cause of their own: "" where there are not some of both.
std::string explain_some(const std::vector<Speed>& speeds, const Rope& rope, const Asked& asked) {
  std::vector<std::int64_t> right, wrong, open;
  std::vector<Speed> others = speeds;
  int turning = 0;  // of the wrong ones
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    const double wanted = std::abs(asked.motion.speed[i]), error = speeds[i].error;
    const bool fits = std::abs(speeds[i].value - wanted) <= error;
    if (fits) others[i].error = std::numeric_limits<double>::infinity();
    (!fits ? wrong : error > 0.1 * wanted ? open : right).push_back(static_cast<std::int64_t>(i));
    if (!fits && speeds[i].value > error) ++turning;
  }
  if (right.size() < 2 || wrong.empty()) return "";
  const std::string width = std::to_string(rope.rotary_dim);
  const bool other_width = rope.rotary_dim != asked.used.rope.rotary_dim && rope.inv_freq.empty();
  const std::string some =
      "is rotated at the " +
      (other_width ? "speeds of " + width + " elements (exponent 2i/" + width + ")" : "asked speeds") + " in pairs " +
      ranges(right) + " only; pairs " + ranges(wrong);
  const auto first = static_cast<std::size_t>(wrong[0]), last = static_cast<std::size_t>(wrong.back());
  const auto times = [&](std::size_t i, double speed) { return speed / std::abs(asked.motion.speed[i]); };
  if (turning == 0) {
    const double most = times(first, speeds[first].value + speeds[first].error);
    return some +
           (most < 0.1 ? " do not rotate"
                       : " are slower or do not rotate: pair " + std::to_string(first) + " is at most " +
                             significant(most, 2) + " times as fast as asked") +
           (open.empty() ? "" : " (pairs " + ranges(open) + " are too slow to tell)");
  }
  std::optional<Explanation> cause;
  if (turning > 3) cause = explain_speeds(others, rope, asked.length);
  if (cause) return some + " are rotated " + cause->words;
  return some + " are " + significant(times(first, speeds[first].value), 4) +
         (wrong.size() > 1 ? " to " + significant(times(last, speeds[last].value), 4) : "") + " times as fast as asked";
}

}  // namespace

bool explain_by_rivals(Examination& exam, const Asked& asked, bool holds) {
  const Rope rope = rope_for_block(asked.used.rope, exam.turns.block);
  const Explanation* best = nullptr;
  Fit fit_of_best;
  double most = 4;
  const std::vector<Explanation> list = rivals(rope, asked.length, asked.used.context);
  for (const Explanation& one : list) {
    const Motion motion = motion_of(one, asked);
    const Fit fit = compare_while_it_holds(exam.turns, motion);
    if (!fit.holds) continue;
    if (holds) {
      const double better = advantage(exam.turns, asked.motion, motion);
      if (better <= most) continue;
      most = better;
    } else if (best != nullptr &&
               (exam.turns.noisy() ? fit.chi > fit_of_best.chi - 30 : fit.residual > 0.8 * fit_of_best.residual)) {
      continue;
    }
    best = &one;
    fit_of_best = fit;
  }
  if (best == nullptr) return false;
  exam.take(fit_of_best);
  take_explanation(exam, *best, asked, evidence(fit_of_best.residual, asked.fit.residual));
  return true;
}

bool explain_by_own_time(Examination& exam, const Asked& asked) {
  const Rope rope = rope_for_block(asked.used.rope, exam.turns.block);
  if (!depends_on_length(rope.scaling)) return false;
  const std::int64_t trained = *scalings::value_of<std::int64_t>(rope.scaling, "trained_length");
  std::map<std::int64_t, Motion> motions;  // by length; all lengths up to the trained one are one
  using Own = std::map<std::int64_t, Motion>::const_iterator;
  // Of a length behind the row's position that is a multiple of `whole`.
  const auto motion_up_to = [&](std::int64_t row, std::int64_t whole) -> Own {
    const auto last = static_cast<std::int64_t>(exam.expected[0][static_cast<std::size_t>(row)]);
    const std::int64_t length = std::max(trained, (last / whole + 1) * whole);
    const auto known = motions.find(length);
    return known != motions.end() ? known : motions.emplace(length, motion_of({rope, length, ""}, asked)).first;
  };
  const auto fits = [&](std::int64_t row, const Motion& motion) {
    bool all = true;
    for (int pair = 0; all && pair < exam.turns.pairs(); ++pair) {
      all = misfit(exam.turns, exam.turns.at(row, pair), motion.size(row, pair), motion.turn(row, pair),
                   slack_of(exam.turns, pair)) <= 1;
    }
    return all;
  };
  const std::int64_t tokens = exam.turns.layout().tokens;
  // The longest range of rows that its own end explains, or the end of a chunk of usual size; none: its own begin.
  const auto chunk_from = [&](std::int64_t begin) -> std::pair<std::int64_t, Own> {
    for (std::int64_t end = (begin / tokens + 1) * tokens; end > begin; --end) {
      for (const std::int64_t whole : {1, 128, 256, 512, 1024, 2048, 4096}) {
        const Own own = motion_up_to(end - 1, whole);
        std::int64_t row = begin;
        while (row < end && fits(row, own->second)) ++row;
        if (row == end) return {end, own};
      }
    }
    return {begin, motions.end()};
  };
  std::vector<Own> of_row;
  std::vector<std::int64_t> lengths;
  while (std::ssize(of_row) < exam.turns.rows()) {
    const auto [end, own] = chunk_from(std::ssize(of_row));
    if (end == std::ssize(of_row)) return false;
    of_row.resize(static_cast<std::size_t>(end), own);
    if (std::ranges::find(lengths, own->first) == lengths.end()) lengths.push_back(own->first);
  }
  if (lengths.size() < 2) return false;
  const Fit fit = compare(exam.turns, asked.motion, float32_slack, [&](std::int64_t row, int pair) {
    return of_row[static_cast<std::size_t>(row)]->second.turn(row, pair);
  });
  if (!fit.holds) return false;
  std::string words;
  for (std::size_t i = 0; i < lengths.size() && i < 3; ++i)
    words += (words.empty() ? "" : ", ") + std::to_string(lengths[i]);
  exam.take(fit);
  exam.facts.scaling.reset();
  exam.facts.inv_freq.clear();
  exam.find(Verdict::scaling, std::string("is rotated at the frequencies of each token's own time, ") +
                                  name(rope.scaling) + " for lengths " + words + (lengths.size() > 3 ? ", ..." : "") +
                                  "; the model asks " + scaling_asked(asked) +
                                  evidence(fit.residual, asked.fit.residual));
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
  for (int pair = 0; pair < exam.turns.pairs(); ++pair) {
    found.push_back(find_speed(exam.turns, pair, exam.expected[static_cast<std::size_t>(asked.motion.axis_of(pair))]));
    if (!found.back().holds) return false;
  }
  const std::optional<double> shift = shift_of(found);
  if (!shift) return false;
  const double sign = sign_of(found);
  const bool clockwise = sign < 0;
  const Rope rope = rope_for_block(asked.used.rope, exam.turns.block);
  Motion motion = asked.motion;
  for (std::vector<double>& positions : motion.position) {
    for (double& position : positions) position += *shift;
  }
  std::optional<Explanation> explained;
  Fit fit;
  // The errors are those of the worst pair; under noise, which all pairs share, explanations within less come first.
  for (const double errors : {0.4, 1.0, 0.0}) {
    if (errors == 0.4 && !exam.turns.noisy()) continue;
    std::vector<Speed> speeds = speeds_of(found);
    for (Speed& speed : speeds) speed.error *= errors;
    explained = errors > 0 ? explain_speeds(speeds, rope, asked.length) : std::nullopt;
    for (std::size_t i = 0; i < found.size(); ++i) motion.speed[i] = found[i].speed;
    if (explained) {
      motion.speed = motion_of(*explained, asked).speed;
      for (double& speed : motion.speed) speed = std::copysign(speed, sign);
    }
    fit = compare(exam.turns, motion);
    if (fit.holds || (errors == 1 && !exam.turns.noisy())) break;
  }
  if (!says_more(fit, asked.fit.residual)) return false;
  find_shift(exam, *shift);
  exam.take(fit);
  exam.set_speeds(motion.speed);
  exam.facts.clockwise = clockwise;
  if (clockwise != asked.used.rope.clockwise) {
    exam.find(Verdict::direction, direction_text(clockwise, !clockwise));
  }
  const std::string shown = evidence(fit.residual, asked.fit.residual);
  if (explained) {
    take_explanation(exam, *explained, asked, shown);
    return true;
  }
  exam.facts.base.reset();
  exam.facts.scaling.reset();
  std::string words = explain_some(speeds_of(found), rope, asked);
  if (words.empty()) words = "is rotated at speeds that no known base and scaling gives";
  exam.find(Verdict::scaling, words + "; the model asks base " + significant(asked.used.rope.base, 10) + " and " +
                                  scaling_asked(asked) + shown);
  return true;
}

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
