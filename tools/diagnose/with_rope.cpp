// A tensor against the rope that its model asks; without one, against a usual rope.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include "examination.h"
#include "values/scaling_fields.h"

namespace rotary::diagnose {

namespace {

constexpr double coarse_table = 0x1p-8;  // a table rounded to bf16 changes the norms of pairs by less

// The config's values are facts as far as nothing differs.
void set_facts(Examination& exam, const Asked& asked) {
  exam.facts.clockwise = asked.frequencies.clockwise;
  exam.set_positions(exam.expected[0]);
  const bool one_each = has_one_speed_per_pair(asked.used.rope);
  if (one_each) exam.set_speeds(asked.motion.speed);
  if (one_each && asked.motion.axis.size() == exam.facts.inv_freq.size() && asked.frequencies.axes() > 1) {
    exam.facts.axis = asked.motion.axis;
  }
  if (asked.used.rope.inv_freq.empty()) exam.facts.base = asked.used.rope.base;
  if (one_each) exam.facts.scaling = asked.used.rope.scaling;
}

void find_factor(Examination& exam, const Asked& asked) {
  // Keys of a cache have the factor of before already: times exam.factor it is the whole factor of after.
  const double wanted = asked.frequencies.attention_factor, found = exam.factor * asked.factor_before();
  const double noise = exam.sample.noise.relative;
  double sum = 0, squares = 0;  // sums of weights: a few large ones leave the rounding of few cos and sin
  for (const double weight : exam.turns.weight) sum += weight, squares += weight * weight;
  const double roundings = sum > 0 ? std::max(0.5, 3 * std::sqrt(squares) / sum) : 0.5;
  const double slack = std::max(roundings * exam.sample.unit, 1e-6) + noise * noise +
                       6 * noise / std::sqrt(static_cast<double>(exam.turns.turn.size() * exam.turns.heads.size()));
  const auto near = [&](double value) { return std::abs(found - value) <= slack * value; };
  exam.facts.attention_factor = near(wanted) ? wanted : near(1) ? 1 : found;
  if (near(wanted)) return;
  const Number factor{"found", found, 7, slack * found}, asks{"asked", wanted, 7};
  if (near(1)) return exam.find(Cause::without_factor, {asks});
  if (near(wanted * wanted)) return exam.find(Cause::factor_twice, {factor, asks});
  Finding one = finding(Cause::factor, {factor, asks});
  if (near(wanted / std::sqrt(exam.sample.head_dim))) one.numbers.push_back({"root", true});
  exam.find(std::move(one));
}

// The largest misfit between a pair's turns and a motion.
double largest_misfit(const Turns& turns, int pair, const Motion& motion) {
  double worst = 0;
  for (std::int64_t row = 0; row < turns.rows(); ++row) worst = std::max(worst, misfit(turns, motion, row, pair));
  return worst;
}

// How much better another motion explains a pair, in the rows in which it differs.
double advantage_in(const Turns& turns, int pair, const Motion& asked, const Motion& other) {
  double of_asked = 0, of_other = 0;
  int count = 0;
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    const std::size_t at = turns.at(row, pair);
    const Complex a = asked.turn(row, pair), b = other.turn(row, pair);
    if (turns.weight[at] == 0 || std::abs(a - b) < turns.unit / 4) continue;
    of_asked += turns.weight[at] * std::norm(turns.turn[at] - a);
    of_other += turns.weight[at] * std::norm(turns.turn[at] - b);
    ++count;
  }
  return count < 8 || of_other == 0 ? 1 : of_asked / of_other;
}

// ---- the asked motion with one thing changed ------------------------------------------------------

struct Candidate {
  Finding found;
  Motion motion;
  std::optional<Explanation> rope = {};  // the rope whose motion it is, where it is one
};
using Candidates = std::vector<Candidate>;

// Keys that moved the wrong way from where they were. The finding names the first that moves.
void add_moved_back(Candidates& list, const Asked& asked) {
  Candidate back{{}, asked.motion};
  std::vector<Number> first;
  for (std::size_t axis = 0; axis < asked.motion.from.size(); ++axis) {
    std::vector<double>& position = back.motion.position[axis];
    for (std::size_t row = 0; row < position.size(); ++row) {
      const double to = position[row];
      position[row] = 2 * asked.motion.from[axis][row] - to;
      if (first.empty() && position[row] != to) first = {{"found", position[row]}, {"asked", to}};
    }
  }
  if (first.empty()) return;
  back.found = finding(Cause::moved_back, std::move(first));
  list.push_back(std::move(back));
}

void add_turned(Candidates& list, const Asked& asked) {
  const bool clockwise = asked.frequencies.clockwise;
  add_moved_back(list, asked);
  for (const auto& [times, found] : {std::pair(-1.0, direction_found(!clockwise, clockwise)),
                                     {2.0, finding(Cause::doubled)},
                                     {0.0, finding(Cause::no_angles)}}) {
    list.push_back({found, asked.motion});
    for (double& speed : list.back().motion.speed) speed *= times;
  }
}

// Heads by other rows of the rope's frequencies: all by one, or in reverse order.
void add_rows_of_heads(Candidates& list, const Asked& asked) {
  const std::int64_t rows = asked.frequencies.head_rows;
  if (rows == 1) return;
  const auto add = [&](Cause cause, const Numbers& found) {
    if (found == asked.rows) return;
    const auto head = static_cast<std::size_t>(std::ranges::mismatch(found, asked.rows).in1 - found.begin());
    list.push_back(
        {finding(cause, {{"head", number(head)}, {"found", number(found[head])}, {"asked", number(asked.rows[head])}}),
         motion_of(asked.frequencies, asked.motion, found)});
  };
  for (std::int64_t row = 0; row < rows; ++row) add(Cause::one_row_of_heads, Numbers(asked.rows.size(), row));
  add(Cause::rows_of_heads, {asked.rows.rbegin(), asked.rows.rend()});
}

// The mistakes that engines are known to make with several axes.
void add_axes(Candidates& list, const Asked& asked) {
  const std::vector<std::uint8_t>& own = asked.motion.axis;
  const std::size_t pairs = own.size(), axes = asked.motion.position.size();
  if (axes < 2 || pairs != asked.motion.speed.size()) return;
  const auto add = [&](Finding found, const std::function<std::size_t(std::size_t pair)>& axis_of) {
    list.push_back({std::move(found), asked.motion});
    for (std::size_t i = 0; i < pairs; ++i) list.back().motion.axis[i] = static_cast<std::uint8_t>(axis_of(i));
  };
  const auto of = [&](std::size_t axis) { return axis_name(asked.used, static_cast<int>(axis)); };
  const bool sums = asked.motion.terms > 1;
  for (std::size_t a = 0; a < axes; ++a) {
    add(finding(Cause::one_axis, {{"axis", of(a)}}), [=](std::size_t) { return a; });
    for (std::size_t b = 0; b < a; ++b) {
      add(finding(Cause::axes_exchanged, {{"one", of(b)}, {"other", of(a)}}), [&, a, b](std::size_t i) {
        return own[i] == a ? b : own[i] == b ? a : own[i];
      });
    }
    for (const bool others : {true, false}) {  // left out
      std::vector<std::string> left_out;
      for (std::size_t b = 0; b < axes; ++b) {
        if ((b == a) != others) left_out.push_back(of(b));
      }
      Finding found = finding(Cause::axes_left_out, {{"left_out", files::listed(left_out, " and ")}});
      if (!sums) found.numbers.push_back({"still", true});
      list.push_back({std::move(found), asked.motion});
      for (std::size_t i = 0; i < pairs; ++i) list.back().motion.speed[i] *= (own[i] == a) == others ? 1 : 0;
    }
  }
  add(finding(Cause::axes_reversed), [&](std::size_t i) { return axes - 1 - own[i]; });
  if (sums) return;
  std::vector<int> sections(axes);
  for (const std::uint8_t axis : own) ++sections[axis];
  const std::vector<std::uint8_t> runs = sectioned_axes(sections), turns = axes == 3 ? interleaved_axes(sections) : own;
  add(finding(Cause::axes_in_runs), [&](std::size_t i) { return runs[i]; });
  add(finding(Cause::axes_in_turns), [&](std::size_t i) { return turns[i]; });
  add(finding(Cause::axes_in_turns), [&](std::size_t i) { return i % axes; });
  for (const std::size_t end : {pairs - 1, std::size_t{0}}) {
    add(finding(Cause::axes_further), [&](std::size_t i) { return own[i > 0 ? i - 1 : end]; });
    add(finding(Cause::axes_back), [&](std::size_t i) { return own[i + 1 < pairs ? i + 1 : pairs - 1 - end]; });
  }
}

// The finding with the first pair that turns by another axis than is asked.
Finding with_pair(Finding found, const Motion& motion, const Asked& asked) {
  const auto pair = std::ranges::mismatch(motion.axis, asked.motion.axis).in1 - motion.axis.begin();
  if (pair == std::ssize(motion.axis) || motion.terms > 1) return found;
  const auto name_of = [&](const Motion& of) { return axis_name(asked.used, of.axis_of(static_cast<int>(pair))); };
  found.numbers.push_back({"pair", number(pair)});
  found.numbers.push_back({"found", name_of(motion)});
  found.numbers.push_back({"asked", name_of(asked.motion)});
  return found;
}

// Each pair at the asked speed on the axis whose positions explain it best.
void add_measured_axes(Candidates& list, const Asked& asked, const Turns& turns) {
  const std::size_t axes = asked.motion.position.size();
  if (axes < 2 || asked.motion.terms > 1) return;
  Motion motion = asked.motion, on_axis = motion;
  motion.axis.resize(motion.speed.size(), 0);
  Numbers moved;
  for (int pair = 0; pair < turns.pairs(); ++pair) {
    double least = largest_misfit(turns, pair, asked.motion), most = 4;
    const bool off = least > 1;  // in one row; a slow pair is off in all rows together
    std::uint8_t& found = motion.axis[static_cast<std::size_t>(pair)];
    for (std::size_t axis = 0; axis < axes; ++axis) {
      on_axis.axis.assign(on_axis.speed.size(), static_cast<std::uint8_t>(axis));
      const double misfit = off ? largest_misfit(turns, pair, on_axis) : 0;
      const double better = off ? 0 : advantage_in(turns, pair, asked.motion, on_axis);
      if (off ? misfit < least : better > most) found = static_cast<std::uint8_t>(axis);
      least = std::min(least, misfit);
      most = std::max(most, better);
    }
    if (off || found != asked.motion.axis_of(pair)) moved.push_back(pair);
  }
  const std::vector<Number> numbers = {{"moved", number(moved.size())}, {"pairs", number(turns.pairs())}};
  list.push_back({finding(Cause::other_axes, numbers, {.pairs = moved}), std::move(motion)});
}

// Adds positions that are off by 1 or 2, because at far positions this is within the error of angles in float32. From
// far_positions on an engine rounds the positions themselves.
void add_offsets(Candidates& list, const Asked& asked) {
  for (const std::vector<double>& positions : asked.motion.position) {
    if (std::ranges::max(positions) >= far_positions) return;
  }
  for (const double shift : {1.0, -1.0, 2.0, -2.0}) {
    const double first = asked.motion.position[0][0];
    list.push_back({find_offset(first + shift, first), asked.motion});
    list.back().motion.shift(shift);
  }
}

// The asked rope with one thing changed.
void add_ropes(Candidates& list, const Asked& asked) {
  if (!has_one_speed_per_pair(asked.used.rope)) return;
  for (const Explanation& one : rivals(rope_for_block(asked.used.rope, asked.block), asked.length, asked.context))
    list.push_back({one.found, motion_of(one, asked), one});
}

// The scaling, and for how many tokens.
NamedRope scaling_asked(const Asked& asked) {
  const Scaling& scaling = asked.used.rope.scaling;
  return {{}, scaling, depends_on_length(scaling) ? asked.length : 0};
}

// Takes another rope's facts, and drops the finding on the attention factor where it is the one that this rope has.
void take_explanation(Examination& exam, const Explanation& explained, const Asked& asked, const Fit& fit) {
  const Rope &rope = explained.rope, &own = asked.used.rope;
  const Frequencies frequencies = rotary::frequencies(rope, explained.length);
  const bool listed = !rope.inv_freq.empty();
  exam.facts.base = listed ? std::nullopt : std::optional(rope.base);
  exam.facts.scaling = listed ? std::nullopt : std::optional(rope.scaling);
  exam.facts.inv_freq = frequencies.inv_freq;
  const double factor = asked.motion.from.empty() ? frequencies.attention_factor : 1;
  if (std::abs(exam.factor - factor) < std::max(exam.sample.unit, 1e-5)) exam.drop(Verdict::attention_factor);
  const bool other_base = rope.base != own.base;
  const bool other_scaling =
      rope.scaling != own.scaling || listed || (depends_on_length(rope.scaling) && explained.length != asked.length);
  NamedRope asks;
  if (other_scaling || !other_base) asks = scaling_asked(asked);
  if (other_base) asks.base = own.base;
  Finding one = explained.found;
  one.verdict = other_base ? Verdict::base : Verdict::scaling;
  one.numbers.push_back({"asked", std::move(asks)});
  exam.claim(std::move(one), fit, asked.fit);
}

// The candidate that holds with the least residual; among equals the first. Where the asked rope itself explains the
// turns within their rounding, another rope has to be better by far.
bool explain_by_candidates(Examination& exam, const Asked& asked) {
  Candidates list;
  for (auto* add : {add_turned, add_rows_of_heads, add_axes, add_offsets, add_ropes}) {
    const bool is_asked = add == add_offsets ? asked.fit.holds : add == add_ropes || !asked.fit.holds;
    if (is_asked) add(list, asked);
  }
  if (!asked.fit.holds) add_measured_axes(list, asked, exam.turns);
  const Candidate* best = nullptr;
  Fit fit;
  double most = 4;
  for (const Candidate& one : list) {
    const Fit own = compare(exam.turns, one.motion, float32_slack, {}, false);
    if (!own.holds) continue;
    if (asked.fit.holds) {
      const double better = advantage(exam.turns, asked.motion, one.motion);
      if (better <= most) continue;
      most = better;
    } else if (best != nullptr && (exam.turns.noisy() ? own.chi > fit.chi - 30 : own.residual > 0.8 * fit.residual)) {
      // The whole says little of axes that differ in few or slow pairs: these alone do.
      const bool axes = one.found.verdict == Verdict::axis && best->found.verdict == Verdict::axis;
      if (!axes || advantage(exam.turns, best->motion, one.motion) <= 1.5) continue;
    }
    best = &one;
    fit = own;
  }
  if (best == nullptr) return false;
  if (best->rope) {
    take_explanation(exam, *best->rope, asked, fit);
    return true;
  }
  const Verdict verdict = best->found.verdict;
  if (verdict == Verdict::direction) exam.facts.clockwise = !asked.frequencies.clockwise;
  if (verdict == Verdict::twice) exam.drop(Verdict::attention_factor);  // it has its factor twice
  if (verdict == Verdict::axis) exam.facts.axis = best->motion.axis;
  if (verdict == Verdict::offset || verdict == Verdict::positions) exam.set_positions(best->motion.position[0]);
  if (verdict == Verdict::not_rotated) {  // which leaves nothing to be said but the factor
    std::erase_if(exam.findings, [](const Finding& of) { return of.verdict != Verdict::attention_factor; });
    exam.take(fit);
    exam.findings.insert(exam.findings.begin(), best->found);
    return true;
  }
  exam.claim(verdict == Verdict::axis ? with_pair(best->found, best->motion, asked) : best->found, fit, asked.fit);
  return true;
}

// The asked rope explains the turns, or would with angles of fewer bits.
bool explain_by_precision(Examination& exam, const Asked& asked) {
  const Fit& plain = asked.fit;
  const FoundPrecision found = find_precision(
      exam.turns, asked.motion,
      has_one_speed_per_pair(asked.used.rope) ? asked.frequencies.inv_freq_float32 : std::vector<float>{});
  const bool coarse = found.precision == Precision::f16 || found.precision == Precision::bf16;
  if (plain.holds && !(coarse && found.cause != Cause::coarse_table)) {
    if (explain_by_candidates(exam, asked)) return true;
    exam.facts.precision = found.precision;
    exam.residual = std::min(plain.residual, found.fit.residual);
    exam.explained = true;
    return true;
  }
  if (!coarse) return false;
  exam.facts.precision = found.precision;
  exam.claim(finding(found.cause, {{"type", name(*found.precision)}}), found.fit, plain);
  return true;
}

// Each token at the frequencies that a scaling has for the length up to it, as keys of a cache that stay as they were.
bool explain_by_own_time(Examination& exam, const Asked& asked) {
  const Rope rope = rope_for_block(asked.used.rope, exam.turns.block);
  if (!has_one_speed_per_pair(rope) || !depends_on_length(rope.scaling)) return false;
  const std::int64_t trained = *scalings::value_of<std::int64_t>(rope.scaling, "trained_length");
  const auto length_up_to = [&](std::int64_t row) {
    return std::max(trained, whole(exam.expected[0][static_cast<std::size_t>(row)]) + 1);
  };
  Motion motion = asked.motion;
  std::map<std::int64_t, std::vector<double>> speeds;  // by their lengths
  const auto set_length = [&](std::int64_t length) {
    const auto [one, is_new] = speeds.try_emplace(length);
    if (is_new) {
      one->second = frequencies(rope, length).inv_freq;
      for (double& speed : one->second) speed *= asked.frequencies.clockwise ? -1 : 1;
    }
    motion.speed = one->second;
  };
  const auto fits = [&](std::int64_t row, std::int64_t length) {
    set_length(length);
    bool all = true;
    for (int pair = 0; all && pair < exam.turns.pairs(); ++pair) all = misfit(exam.turns, motion, row, pair) <= 1;
    return all;
  };
  const std::int64_t tokens = exam.turns.layout().tokens;
  std::vector<std::int64_t> length_of;
  std::int64_t end = 0;  // a row has the length of the row before up to there, if that explains it
  for (std::int64_t row = 0; row < exam.turns.rows(); ++row) {
    if (row >= end || !fits(row, length_of.back())) {
      end = (row / tokens + 1) * tokens;
      while (end > row && !fits(row, length_up_to(end - 1))) --end;
      if (end == row) return false;
    }
    length_of.push_back(length_up_to(end - 1));
  }
  const std::set<std::int64_t> lengths(length_of.begin(), length_of.end());
  if (lengths.size() < 2) return false;
  const Fit fit = compare(exam.turns, asked.motion, float32_slack, [&](std::int64_t row, int pair) {
    set_length(length_of[static_cast<std::size_t>(row)]);
    return motion.turn(row, pair);
  });
  if (!fit.holds) return false;
  Finding one = finding(Cause::own_time, {{"scaling", name(rope.scaling)}, {"asked", scaling_asked(asked)}});
  if (lengths.size() > 3) one.numbers.push_back({"more", true});
  std::vector<double> first(lengths.begin(), lengths.end());
  first.resize(std::min<std::size_t>(first.size(), 3));
  one.numbers.push_back({"lengths", std::move(first)});
  exam.facts.scaling.reset();
  exam.facts.inv_freq.clear();
  exam.claim(std::move(one), fit, asked.fit);
  return true;
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

// Any speeds, at the expected positions or some constant number of positions away.
bool explain_by_speeds(Examination& exam, const Asked& asked) {
  if (!has_one_speed_per_pair(asked.used.rope)) return false;
  std::vector<FoundSpeed> found;
  for (int pair = 0; pair < exam.turns.pairs(); ++pair) {
    const auto axis = static_cast<std::size_t>(asked.motion.axis_of(pair));
    std::vector<double> distance = exam.expected[axis];
    for (std::int64_t row = 0; row < exam.turns.rows(); ++row)
      distance[static_cast<std::size_t>(row)] -= asked.motion.from_of(row, static_cast<int>(axis));
    const std::optional<FoundSpeed> one = find_speed(exam.turns, pair, distance);
    if (!one) return false;
    found.push_back(*one);
  }
  const std::optional<double> shift = shift_of(found);
  if (!shift) return false;
  const bool clockwise = sign_of(found) < 0;
  const Rope rope = rope_for_block(asked.used.rope, exam.turns.block);
  Motion motion = asked.motion;
  motion.shift(*shift);
  const std::optional<Explanation> explained = explain_speeds(speeds_of(found), rope, asked.length, asked.context);
  for (std::size_t i = 0; i < found.size(); ++i) motion.speed[i] = found[i].speed;
  if (explained) {
    motion.speed = motion_of(*explained, asked).speed;
    for (double& speed : motion.speed) speed = std::copysign(speed, clockwise ? -1.0 : 1.0);
  }
  const Fit fit = compare(exam.turns, motion);
  if (!says_more(fit, asked.fit.residual)) return false;
  if (*shift != 0) {
    exam.set_positions(motion.position[0]);
    exam.find(find_offset(motion.position[0][0], exam.expected[0][0]));
  }
  exam.take(fit);
  exam.set_speeds(motion.speed);
  exam.facts.clockwise = clockwise;
  if (clockwise != asked.frequencies.clockwise) exam.find(direction_found(clockwise, !clockwise));
  if (explained) {
    take_explanation(exam, *explained, asked, fit);
    return true;
  }
  exam.facts.base.reset();
  exam.facts.scaling.reset();
  Finding one = find_some_pairs(speeds_of(found), rope, asked).value_or(finding(Cause::unknown_speeds));
  NamedRope asks = scaling_asked(asked);
  asks.base = asked.used.rope.base;
  one.numbers.push_back({"asked", std::move(asks)});
  exam.claim(std::move(one), fit, asked.fit);
  return true;
}

// One pair alone tells position times speed, and no more.
bool one_pair_alone(const Examination& exam) {
  int pairs = 0;
  for (int pair = 0; pair < exam.turns.pairs(); ++pair) {
    bool carries = false;
    for (std::int64_t row = 0; row < exam.turns.rows(); ++row)
      carries = carries || exam.turns.weight[exam.turns.at(row, pair)] > 0;
    pairs += carries ? 1 : 0;
  }
  return pairs < 2 && exam.subject.used->rope.rotary_dim > 2;
}

// The order of questions: what is asked, in another precision; candidates, each the asked motion or the asked rope with
// one thing changed; and where none holds, what is measured blindly: positions at the asked speeds, speeds at the
// expected positions.
constexpr bool (*questions[])(Examination&, const Asked&) = {
    explain_by_precision, explain_by_candidates, explain_by_own_time, explain_by_positions, explain_by_speeds};

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

}  // namespace

Finding direction_found(bool clockwise, bool asked) {
  const auto word = [](bool is_clockwise) { return is_clockwise ? "clockwise" : "counterclockwise"; };
  return finding(Cause::direction, {{"found", word(clockwise)}, {"asked", word(asked)}});
}

std::string axis_name(const ModelRope& used, int axis) {
  const auto i = static_cast<std::size_t>(axis);
  return i < used.axis_names.size() ? used.axis_names[i] : "axis " + std::to_string(axis);
}

bool says_more(const Fit& fit, double asked) { return fit.residual <= (fit.holds ? 1 : 0.2) * asked; }

double advantage(const Turns& turns, const Motion& asked, const Motion& other, bool as_other) {
  double of_asked = 0, of_other = 0;
  int count = 0;
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    for (int pair = 0; pair < turns.pairs(); ++pair) {
      const std::size_t at = turns.at(row, pair);
      if (turns.weight[at] == 0) continue;
      if (std::max(asked.size(row, pair), other.size(row, pair)) < 4 * turns.unit) continue;
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

void examine_with_rope(Examination& exam) {
  Asked asked = ask(exam.subject, exam.turns.block, exam.turns.layout(), exam.expected);
  asked.fit = compare(exam.turns, asked.motion);
  if (one_pair_alone(exam) && (!exam.findings.empty() || !asked.fit.holds)) {
    exam.findings.clear();
    exam.facts = {};
    exam.find(Cause::one_pair);
    if (!asked.fit.holds) exam.findings.back().numbers = {{"differs", true}};
    return;
  }
  Facts without = exam.facts;
  set_facts(exam, asked);
  const std::size_t before = exam.findings.size();
  const double wanted = asked.motion.factor;
  if (std::abs(exam.factor - wanted) < coarse_table * wanted) {
    exam.facts.attention_factor = asked.frequencies.attention_factor;
    if (explain_by_precision(exam, asked)) return;
  }
  find_factor(exam, asked);
  asked.motion.factor = exam.factor;
  asked.fit = compare(exam.turns, asked.motion);
  for (const auto& explain : questions) {
    if (explain(exam, asked)) return;
  }
  exam.findings.resize(before);
  without.attention_factor = exam.facts.attention_factor;
  exam.facts = std::move(without);
  if (exam.findings.empty())
    exam.find(has_one_speed_per_pair(asked.used.rope) ? Cause::no_speeds : Cause::no_frequencies);
}

void examine_without_rope(Examination& exam) {
  exam.explained = true;  // the tensors tell no more than is found
  exam.set_pairing();
  exam.facts.first = exam.turns.block.first;
  const double slack = std::max(exam.sample.unit / 2, 1e-6);
  exam.facts.attention_factor = std::abs(exam.factor - 1) <= slack ? 1 : exam.factor;
  exam.residual = exam.turns.spread;
  const bool given = exam.subject.positions.has_value();
  // A usual rope stands for the one that nothing names: what differs from it are facts.
  const int width = exam.turns.block.rotary_dim();
  ModelRope usual;
  usual.rope = {.head_dim = width, .rotary_dim = width, .base = 10000, .pairing = Pairing::half};
  Examination by = exam;
  by.subject.used = &usual;
  by.explained = false;
  if (exam.turns.layout().tokens > 1) examine_with_rope(by);
  if (by.explained && given) {
    exam.facts.clockwise = by.facts.clockwise;
    exam.facts.positions = by.facts.positions;
    exam.facts.inv_freq = by.facts.inv_freq;
    exam.facts.axis = by.facts.axis;
    for (const Finding& one : by.findings) {
      if (one.verdict == Verdict::offset) exam.find(one);
    }
  }
  if (width_is_known(exam)) {
    exam.facts.rotary_dim = width;
    if (by.explained) exam.facts.base = by.facts.base;
    if (by.explained && given) exam.facts.scaling = by.facts.scaling;
  }
  if (exam.findings.empty()) exam.find(described(exam.facts, given));
}

}  // namespace rotary::diagnose
