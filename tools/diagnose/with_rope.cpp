// A tensor against the rope that its model asks.
#include <algorithm>
#include <cmath>
#include <functional>

#include "examination.h"

namespace rotary::diagnose {

namespace {

constexpr double coarse_table = 0x1p-8;  // a table rounded to bf16 changes the norms of pairs by less

// The config's values are facts as far as nothing differs.
void set_facts(Examination& exam, const Asked& asked) {
  exam.facts.clockwise = asked.used.rope.clockwise;
  exam.set_positions(exam.expected[0]);
  const bool one_each = has_one_speed_per_pair(asked.used.rope);
  if (one_each) exam.set_speeds(asked.motion.speed);
  if (one_each && asked.motion.axis.size() == exam.facts.inv_freq.size() && asked.frequencies.axes() > 1) {
    exam.facts.axis = asked.motion.axis;
  }
  if (asked.used.rope.inv_freq.empty()) exam.facts.base = asked.used.rope.base;
  if (one_each) exam.facts.scaling = asked.used.rope.scaling;
}

// The attention factors of other formulas than the config's, each a formula that an engine has.
struct KnownFactor {
  double value;
  std::string formula;
};
std::vector<KnownFactor> known_factors(const Rope& rope, double wanted) {
  std::vector<KnownFactor> known;
  const auto add = [&](double value, const std::string& formula) {
    known.push_back({value, formula});
    known.push_back({value * value, "the square of " + formula});
  };
  const auto magnitude = [](double factor, double mscale) {
    return 0.1 * mscale * std::log(std::max(factor, 1.0)) + 1;
  };
  if (const Yarn* yarn = std::get_if<Yarn>(&rope.scaling)) {
    const std::string own = ", DeepSeek's, which belongs to the softmax's scale";
    if (yarn->mscale) add(magnitude(yarn->factor, *yarn->mscale), "0.1 mscale ln(factor) + 1" + own);
    if (yarn->mscale_all_dim) {
      add(magnitude(yarn->factor, *yarn->mscale_all_dim), "0.1 mscale_all_dim ln(factor) + 1" + own);
    }
    add(magnitude(yarn->factor, 1), "0.1 ln(factor) + 1, yarn's own");
  }
  if (const LongRope* lists = std::get_if<LongRope>(&rope.scaling)) {
    const double factor = std::max(lists->factor, 1.0), trained = static_cast<double>(lists->trained_length);
    add(std::sqrt(1 + std::log(factor) / std::log(trained)),
        "sqrt(1 + ln(factor) / ln(trained length)), longrope's own");
    add(magnitude(factor, 1), "0.1 ln(factor) + 1, that of yarn");
    if (lists->short_mscale) add(*lists->short_mscale, "that of the short list");
    if (lists->long_mscale) add(*lists->long_mscale, "that of the long list");
  }
  add(1 / wanted, "the inverse of the attention factor");
  return known;
}

void find_factor(Examination& exam, const Asked& asked) {
  const double wanted = asked.frequencies.attention_factor, found = exam.factor;
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
  const std::vector<KnownFactor> known = known_factors(asked.used.rope, wanted);
  const auto formula = std::ranges::find_if(known, [&](const KnownFactor& of) { return near(of.value); });
  if (formula != known.end()) one.numbers.push_back({"formula", formula->formula});
  if (near(wanted / std::sqrt(exam.sample.head_dim))) one.numbers.push_back({"root", true});
  exam.find(std::move(one));
}

// The asked rope explains the turns, or would with angles of fewer bits.
bool explain_by_precision(Examination& exam, const Asked& asked) {
  const Fit& plain = asked.fit;
  const FoundPrecision found = find_precision(
      exam.turns, asked.motion,
      has_one_speed_per_pair(asked.used.rope) ? asked.frequencies.inv_freq_float32 : std::vector<float>{});
  const bool coarse = found.precision == Precision::f16 || found.precision == Precision::bf16;
  if (plain.holds && !(coarse && found.angles)) {
    if (explain_by_rivals(exam, asked)) return true;
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

// The largest misfit of a pair's turns to those of a motion.
double largest_misfit(const Turns& turns, int pair, const Motion& motion) {
  double worst = 0;
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    worst = std::max(worst, misfit(turns, turns.at(row, pair), motion.size(row, pair), motion.turn(row, pair),
                                   slack_of(turns, pair)));
  }
  return worst;
}

// ---- the asked motion with one thing changed ------------------------------------------------------

struct Candidate {
  Finding found;
  Motion motion;
};
using Candidates = std::vector<Candidate>;

void add_turned(Candidates& list, const Asked& asked) {
  const bool clockwise = asked.used.rope.clockwise;
  for (const auto& [times, found] : {std::pair(-1.0, direction_found(!clockwise, clockwise)),
                                     {2.0, finding(Cause::doubled)},
                                     {0.0, finding(Cause::no_angles)}}) {
    list.push_back({found, asked.motion});
    for (double& speed : list.back().motion.speed) speed *= times;
  }
}

// Heads by other rows of the rope's frequencies: all by one, in reverse order, or by the next.
void add_rows_of_heads(Candidates& list, const Asked& asked) {
  const std::int64_t rows = asked.frequencies.heads;
  if (rows == 1) return;
  const auto add = [&](Cause cause, const Numbers& found) {
    if (found == asked.rows) return;
    const auto head = static_cast<std::size_t>(std::ranges::mismatch(found, asked.rows).in1 - found.begin());
    list.push_back(
        {finding(cause, {{"head", number(head)}, {"found", number(found[head])}, {"asked", number(asked.rows[head])}}),
         motion_of(asked.frequencies, asked.motion, found)});
  };
  for (std::int64_t row = 0; row < rows; ++row) add(Cause::one_row_of_heads, Numbers(asked.rows.size(), row));
  Numbers other = asked.rows;
  std::ranges::reverse(other);
  add(Cause::rows_of_heads, other);
  other = asked.rows;
  std::rotate(other.begin(), other.begin() + 1, other.end());
  add(Cause::rows_of_heads, other);
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
      Finding found = finding(Cause::axes_left_out, {{"left_out", list_of(left_out)}});
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

// The finding with the first pair that listens to another axis than is asked.
Finding with_pair(Finding found, const Motion& motion, const Asked& asked) {
  const auto pair = std::ranges::mismatch(motion.axis, asked.motion.axis).in1 - motion.axis.begin();
  if (pair == std::ssize(motion.axis) || motion.terms > 1) return found;
  const auto name_of = [&](const Motion& of) { return axis_name(asked.used, of.axis_of(static_cast<int>(pair))); };
  found.numbers.push_back({"pair", number(pair)});
  found.numbers.push_back({"found", name_of(motion)});
  found.numbers.push_back({"asked", name_of(asked.motion)});
  return found;
}

// The candidate that holds with the least residual; among equals the first.
bool explain_by_candidates(Examination& exam, const Asked& asked) {
  Candidates list;
  for (auto* add : {add_turned, add_rows_of_heads, add_axes}) add(list, asked);
  const Candidate* best = nullptr;
  Fit fit;
  for (const Candidate& one : list) {
    const Fit own = compare_while_it_holds(exam.turns, one.motion);
    if (!own.holds || (best != nullptr && own.residual > 0.8 * fit.residual)) continue;
    best = &one;
    fit = own;
  }
  if (best == nullptr) return false;
  const Verdict verdict = best->found.verdict;
  if (verdict == Verdict::direction) exam.facts.clockwise = !asked.used.rope.clockwise;
  if (verdict == Verdict::twice) exam.drop(Verdict::attention_factor);  // it has its factor twice
  if (verdict == Verdict::axis) exam.facts.axis = best->motion.axis;
  if (verdict == Verdict::not_rotated) {  // which leaves nothing to be said but the factor
    std::erase_if(exam.findings, [](const Finding& of) { return of.verdict != Verdict::attention_factor; });
    exam.take(fit);
    exam.findings.insert(exam.findings.begin(), best->found);
    return true;
  }
  exam.claim(verdict == Verdict::axis ? with_pair(best->found, best->motion, asked) : best->found, fit, asked.fit);
  return true;
}

// Each pair at the asked speed listens to the positions of some axis.
bool explain_by_axes(Examination& exam, const Asked& asked) {
  const int axes = static_cast<int>(exam.expected.size());
  if (axes < 2 || asked.motion.terms > 1) return false;
  Motion motion = asked.motion, on_axis = motion;
  motion.axis.resize(motion.speed.size(), 0);
  Numbers moved;
  for (int pair = 0; pair < exam.turns.pairs(); ++pair) {
    double least = largest_misfit(exam.turns, pair, asked.motion);
    if (least <= 1) continue;
    for (int axis = 0; axis < axes; ++axis) {
      on_axis.axis.assign(on_axis.speed.size(), static_cast<std::uint8_t>(axis));
      const double misfit = largest_misfit(exam.turns, pair, on_axis);
      if (misfit >= least) continue;
      least = misfit;
      motion.axis[static_cast<std::size_t>(pair)] = static_cast<std::uint8_t>(axis);
    }
    if (least > 1) return false;
    moved.push_back(pair);
  }
  const Fit fit = compare(exam.turns, motion);
  if (moved.empty() || !fit.holds) return false;
  exam.facts.axis = motion.axis;
  Finding found = finding(Cause::other_axes, {{"moved", number(moved.size())}, {"pairs", number(exam.turns.pairs())}},
                          {.pairs = moved});
  exam.claim(with_pair(std::move(found), motion, asked), fit, asked.fit);
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

}  // namespace

Finding direction_found(bool clockwise, bool asked) {
  const auto word = [](bool is_clockwise) { return is_clockwise ? "clockwise" : "counterclockwise"; };
  return finding(Cause::direction, {{"found", word(clockwise)}, {"asked", word(asked)}});
}

std::string axis_name(const ModelRope& used, int axis) {
  const auto i = static_cast<std::size_t>(axis);
  return i < used.axis_names.size() ? used.axis_names[i] : "axis " + std::to_string(axis);
}

Number scaling_asked(const Asked& asked) {
  const Scaling& scaling = asked.used.rope.scaling;
  return {"asked", NamedRope{{}, scaling, depends_on_length(scaling) ? asked.length : 0}};
}

bool says_more(const Fit& fit, double asked) { return fit.residual <= (fit.holds ? 1 : 0.2) * asked; }

namespace {

// The order of questions: what is asked, in another precision; candidates, each the asked motion or the asked rope with
// one thing changed; and where none holds, what is measured blindly: axes, positions at the asked speeds, speeds at the
// expected positions.
constexpr bool (*questions[])(Examination&, const Asked&) = {
    explain_by_precision, explain_by_candidates, explain_by_rivals, explain_by_own_time,
    explain_by_axes,      explain_by_positions,  explain_by_speeds};

}  // namespace

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
  set_facts(exam, asked);
  const std::size_t before = exam.findings.size();
  const double wanted = asked.frequencies.attention_factor;
  if (std::abs(exam.factor - wanted) < coarse_table * wanted) {
    exam.facts.attention_factor = wanted;
    if (explain_by_precision(exam, asked)) return;
  }
  find_factor(exam, asked);
  asked.motion.factor = exam.factor;
  asked.fit = compare(exam.turns, asked.motion);
  for (const auto& explain : questions) {
    if (explain(exam, asked)) return;
  }
  exam.findings.resize(before);
  exam.facts.positions.clear();
  exam.facts.inv_freq.clear();
  exam.facts.base.reset();
  exam.facts.scaling.reset();
  exam.facts.clockwise.reset();
  if (exam.findings.empty())
    exam.find(has_one_speed_per_pair(asked.used.rope) ? Cause::no_speeds : Cause::no_frequencies);
}

}  // namespace rotary::diagnose
