// Another base or another scaling than the rope asks; and what speeds say where no rope is asked.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "examination.h"
#include "values/scaling_fields.h"

namespace rotary::diagnose {

namespace {

// Drops the finding on the attention factor where it is the one that this rope has.
void take_explanation(Examination& exam, const Explanation& explained, const Asked& asked, const Fit& fit) {
  const Rope &rope = explained.rope, &own = asked.used.rope;
  const Frequencies frequencies = rotary::frequencies(rope, explained.length);
  const bool listed = !rope.inv_freq.empty();
  exam.facts.base = listed ? std::nullopt : std::optional(rope.base);
  exam.facts.scaling = listed ? std::nullopt : std::optional(rope.scaling);
  exam.facts.inv_freq = frequencies.inv_freq;
  if (std::abs(exam.factor - frequencies.attention_factor) < std::max(exam.sample.unit, 1e-5))
    exam.drop(Verdict::attention_factor);
  const bool other_base = rope.base != own.base;
  const bool other_scaling =
      rope.scaling != own.scaling || listed || (depends_on_length(rope.scaling) && explained.length != asked.length);
  NamedRope asks;
  if (other_scaling || !other_base) asks = std::get<NamedRope>(scaling_asked(asked).value);
  if (other_base) asks.base = own.base;
  Finding one = explained.found;
  one.verdict = other_base ? Verdict::base : Verdict::scaling;
  one.numbers.push_back({"asked", std::move(asks)});
  exam.claim(std::move(one), fit, asked.fit);
}

// The speed of every pair at the expected positions; empty where one has none.
std::vector<FoundSpeed> find_speeds(const Examination& exam, const Motion& asked) {
  std::vector<FoundSpeed> speeds;
  for (int pair = 0; pair < exam.turns.pairs(); ++pair) {
    speeds.push_back(find_speed(exam.turns, pair, exam.expected[static_cast<std::size_t>(asked.axis_of(pair))]));
    if (!speeds.back().holds) return {};
  }
  return speeds;
}

// Adds the finding that the positions are the expected ones and `shift` further; no finding for 0.
void take_shift(Examination& exam, double shift) {
  if (shift == 0) return;
  std::vector<double> position = exam.expected[0];
  for (double& one : position) one += shift;
  exam.set_positions(position);
  exam.find(find_offset(position[0], exam.expected[0][0]));
}

// Some pairs at the asked speeds, and others: none where there are not some of both.
std::optional<Finding> find_some_pairs(const std::vector<Speed>& speeds, const Rope& rope, const Asked& asked) {
  Numbers right, wrong, open;
  double least = std::numeric_limits<double>::infinity(), most = 0;  // the wrong speeds, in asked speeds
  bool turning = false;
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    const double wanted = std::abs(asked.motion.speed[i]), error = speeds[i].error;
    const bool fits = std::abs(speeds[i].value - wanted) <= error;
    (!fits ? wrong : error > 0.1 * wanted ? open : right).push_back(static_cast<std::int64_t>(i));
    if (fits) continue;
    turning = turning || speeds[i].value > error;
    least = std::min(least, speeds[i].value / wanted);
    most = std::max(most, speeds[i].value / wanted);
  }
  if (right.size() < 2 || wrong.empty()) return std::nullopt;
  Finding some = finding(Cause::some_pairs_other, {{"right", std::move(right)}}, {.pairs = wrong});
  const bool other_width = rope.rotary_dim != asked.used.rope.rotary_dim && rope.inv_freq.empty();
  some.numbers.push_back(other_width ? Number{"width", number(rope.rotary_dim)} : Number{"asked_width", true});
  if (turning) {
    some.numbers.push_back({"least", least, 4});
    if (most > 1.0005 * least) some.numbers.push_back({"most", most, 4});
    return some;
  }
  const Speed& first = speeds[static_cast<std::size_t>(wrong[0])];
  const double times = (first.value + first.error) / std::abs(asked.motion.speed[static_cast<std::size_t>(wrong[0])]);
  some = finding(times < 0.1 ? Cause::some_pairs_still : Cause::some_pairs_slow, some.numbers, some.where);
  if (times >= 0.1) some.numbers.push_back({"pair", number(wrong[0])});
  if (times >= 0.1) some.numbers.push_back({"times", times, 2});
  if (!open.empty()) some.numbers.push_back({"open", std::move(open)});
  return some;
}

// ---- without a config --------------------------------------------------------------------------

// The last pair that visibly moves, moves so much that the next one would be seen too.
bool width_is_known(const Examination& exam) {
  const Turns& turns = exam.turns;
  if (turns.block.kind == Kind::half || exam.search.touched.back() + 1 == exam.sample.head_dim) return true;
  double most = 0;
  for (std::int64_t row = 0; row < turns.rows(); ++row)
    most = std::max(most, std::abs(std::arg(turns.turn[turns.at(row, turns.pairs() - 1)])));
  return most > 16 * exam.sample.unit;
}

Finding described(const Facts& facts, bool positions_known) {
  Finding one = finding(Cause::no_config);
  const auto add = [&](const char* name, Number::Value value, int digits = 0) {
    one.numbers.push_back({name, std::move(value), digits});
  };
  if (facts.pairing) add("pairing", *facts.pairing);
  if (facts.rotary_dim) {
    add("first", number(*facts.first));
    add("last", number(*facts.first + *facts.rotary_dim - 1));
  }
  if (facts.base) add("base", *facts.base, 10);
  if (facts.scaling && !std::holds_alternative<Unscaled>(*facts.scaling)) add("scaling", name(*facts.scaling));
  add("layout", facts.layout);
  if (!positions_known) add("open", true);
  return one;
}

// Speeds, base and scaling, where every pair has a speed on some axis.
void fit_frequencies(Examination& exam, bool given) {
  Motion axes;
  for (int pair = 0; pair < exam.turns.pairs(); ++pair) {
    axes.speed.push_back(0);
    axes.axis.push_back(0);
    const auto holds = [&] { return find_speed(exam.turns, pair, exam.expected[axes.axis.back()]).holds; };
    while (axes.axis.back() + 1U < exam.expected.size() && !holds()) ++axes.axis.back();
  }
  const std::vector<FoundSpeed> speeds = find_speeds(exam, axes);
  if (speeds.empty()) return;
  if (given) {
    const double sign = sign_of(speeds);
    exam.facts.clockwise = sign < 0;
    for (const FoundSpeed& one : speeds) exam.facts.inv_freq.push_back(sign * one.speed);
    if (exam.expected.size() > 1) exam.facts.axis = axes.axis;
    if (const std::optional<double> shift = shift_of(speeds)) {
      exam.set_positions(exam.expected[0]);
      take_shift(exam, *shift);
    }
  }
  const std::optional<Rope> fitted =
      exam.facts.rotary_dim ? fit_rope(speeds_of(speeds), *exam.facts.rotary_dim, given) : std::nullopt;
  if (!fitted) return;
  exam.facts.base = fitted->base;
  if (given) exam.facts.scaling = fitted->scaling;
}

}  // namespace

double advantage(const Turns& turns, const Motion& asked, const Motion& other, bool as_other) {
  double of_asked = 0, of_other = 0;
  int count = 0;
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    for (int pair = 0; pair < turns.pairs(); ++pair) {
      const std::size_t at = turns.at(row, pair);
      const double moved = std::max(asked.size(row, pair), other.size(row, pair));
      if (turns.weight[at] == 0 || moved < 4 * turns.unit) continue;
      const Complex a = asked.turn(row, pair), b = other.turn(row, pair);
      if (std::abs(a - b) < turns.unit / 4) continue;
      const Complex turn = turns.turn[at] + (as_other ? b - a : 0);
      of_asked += turns.weight[at] * std::norm(turn - a);
      of_other += turns.weight[at] * std::norm(turn - b);
      ++count;
    }
  }
  return count < 8 || of_other == 0 ? 1 : of_asked / of_other;
}

bool explain_by_rivals(Examination& exam, const Asked& asked) {
  if (!has_one_speed_per_pair(asked.used.rope)) return false;
  const Rope rope = rope_for_block(asked.used.rope, exam.turns.block);
  const Explanation* best = nullptr;
  Fit fit_of_best;
  double most = 4;
  const std::vector<Explanation> list = rivals(rope, asked.length, asked.context);
  for (const Explanation& one : list) {
    const Motion motion = motion_of(one, asked);
    const Fit fit = compare_while_it_holds(exam.turns, motion);
    if (!fit.holds) continue;
    if (asked.fit.holds) {
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
  take_explanation(exam, *best, asked, fit_of_best);
  return true;
}

bool explain_by_own_time(Examination& exam, const Asked& asked) {
  const Rope rope = rope_for_block(asked.used.rope, exam.turns.block);
  if (!has_one_speed_per_pair(rope) || !depends_on_length(rope.scaling)) return false;
  const std::int64_t trained = *scalings::value_of<std::int64_t>(rope.scaling, "trained_length");
  std::map<std::int64_t, Motion> motions;  // a motion for each length; all up to the trained one are one
  const auto motion_up_to = [&](std::int64_t row) -> const Motion& {
    const auto last = static_cast<std::int64_t>(exam.expected[0][static_cast<std::size_t>(row)]);
    const std::int64_t length = std::max(trained, last + 1);
    const auto known = motions.find(length);
    return (known != motions.end() ? known : motions.emplace(length, motion_of({rope, length, {}}, asked)).first)
        ->second;
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
  std::vector<const Motion*> of_row;
  while (std::ssize(of_row) < exam.turns.rows()) {  // the longest range of rows that its own end explains
    const std::int64_t begin = std::ssize(of_row);
    std::int64_t end = (begin / tokens + 1) * tokens;
    const auto end_explains = [&] {
      const Motion& motion = motion_up_to(end - 1);
      std::int64_t row = begin;
      while (row < end && fits(row, motion)) ++row;
      return row == end;
    };
    while (end > begin && !end_explains()) --end;
    if (end == begin) return false;
    of_row.resize(static_cast<std::size_t>(end), &motion_up_to(end - 1));
  }
  if (motions.size() < 2) return false;
  const Fit fit = compare(exam.turns, asked.motion, float32_slack, [&](std::int64_t row, int pair) {
    return of_row[static_cast<std::size_t>(row)]->turn(row, pair);
  });
  if (!fit.holds) return false;
  std::vector<double> lengths;
  for (const auto& [length, motion] : motions) {
    if (std::ranges::find(of_row, &motion) != of_row.end()) lengths.push_back(static_cast<double>(length));
  }
  if (lengths.size() < 2) return false;
  Finding one = finding(Cause::own_time, {{"scaling", name(rope.scaling)}, scaling_asked(asked)});
  if (lengths.size() > 3) one.numbers.push_back({"more", true});
  lengths.resize(std::min<std::size_t>(lengths.size(), 3));
  one.numbers.push_back({"lengths", std::move(lengths)});
  exam.facts.scaling.reset();
  exam.facts.inv_freq.clear();
  exam.claim(std::move(one), fit, asked.fit);
  return true;
}

bool explain_by_speeds(Examination& exam, const Asked& asked) {
  if (!has_one_speed_per_pair(asked.used.rope)) return false;
  const std::vector<FoundSpeed> found = find_speeds(exam, asked.motion);
  const std::optional<double> shift = found.empty() ? std::nullopt : shift_of(found);
  if (!shift) return false;
  const bool clockwise = sign_of(found) < 0;
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
    explained = errors > 0 ? explain_speeds(speeds, rope, asked.length, asked.context) : std::nullopt;
    for (std::size_t i = 0; i < found.size(); ++i) motion.speed[i] = found[i].speed;
    if (explained) {
      motion.speed = motion_of(*explained, asked).speed;
      for (double& speed : motion.speed) speed = std::copysign(speed, clockwise ? -1.0 : 1.0);
    }
    fit = compare(exam.turns, motion);
    if (fit.holds || (errors == 1 && !exam.turns.noisy())) break;
  }
  if (!says_more(fit, asked.fit.residual)) return false;
  take_shift(exam, *shift);
  exam.take(fit);
  exam.set_speeds(motion.speed);
  exam.facts.clockwise = clockwise;
  if (clockwise != asked.used.rope.clockwise) exam.find(direction_found(clockwise, !clockwise));
  if (explained) {
    take_explanation(exam, *explained, asked, fit);
    return true;
  }
  exam.facts.base.reset();
  exam.facts.scaling.reset();
  Finding one = find_some_pairs(speeds_of(found), rope, asked).value_or(finding(Cause::unknown_speeds));
  Number asks = scaling_asked(asked);
  std::get<NamedRope>(asks.value).base = asked.used.rope.base;
  one.numbers.push_back(std::move(asks));
  exam.claim(std::move(one), fit, asked.fit);
  return true;
}

void examine_without_rope(Examination& exam) {
  exam.explained = true;  // the tensors tell no more than is found
  exam.set_pairing();
  exam.facts.first = exam.turns.block.first;
  if (width_is_known(exam)) exam.facts.rotary_dim = exam.turns.block.rotary_dim();
  const double slack = std::max(exam.sample.unit / 2, 1e-6);
  exam.facts.attention_factor = std::abs(exam.factor - 1) <= slack ? 1 : exam.factor;
  exam.residual = exam.turns.spread;
  const bool given = exam.subject.positions.has_value();
  if (exam.turns.layout().tokens > 1) fit_frequencies(exam, given);
  if (exam.findings.empty()) exam.find(described(exam.facts, given));
}

}  // namespace rotary::diagnose
