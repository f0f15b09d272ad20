// A tensor against the rope that its model asks.
#include <algorithm>
#include <cmath>
#include <functional>

#include "examination.h"

namespace rotary::diagnose {

namespace {

constexpr double coarse_table = 0x1p-8;  // a table rounded to bf16 changes the norms of pairs by less

// What the config asks is a fact as far as nothing differs.
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
  double sum = 0, squares = 0;  // of weights: a few large ones leave the rounding of few cos and sin
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
    if (has_one_speed_per_pair(asked.used.rope) && explain_by_rivals(exam, asked, true)) return true;
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

// The largest misfit of a pair's turns to those of a motion's pair.
double largest_misfit(const Turns& turns, int pair, const Motion& motion, int by) {
  double worst = 0;
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    worst = std::max(
        worst, misfit(turns, turns.at(row, pair), motion.size(row, by), motion.turn(row, by), slack_of(turns, pair)));
  }
  return worst;
}

// What engines are known to do with several axes instead of what is asked.
struct KnownMap {
  Finding found;
  Motion motion;
};
std::vector<KnownMap> known_maps(const Asked& asked, std::size_t axes) {
  const std::vector<std::uint8_t>& own = asked.motion.axis;
  const std::size_t pairs = own.size();
  std::vector<KnownMap> list;
  const auto add = [&](Finding found, const std::function<std::size_t(std::size_t pair)>& axis_of) {
    list.push_back({std::move(found), asked.motion});
    for (std::size_t i = 0; i < pairs; ++i) list.back().motion.axis[i] = static_cast<std::uint8_t>(axis_of(i));
  };
  const auto of = [&](std::size_t axis) { return axis_name(asked.used, static_cast<int>(axis)); };
  std::vector<int> sections(axes);
  for (const std::uint8_t axis : own) ++sections[axis];
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
      if (asked.motion.terms == 1) found.numbers.push_back({"still", true});
      add(std::move(found), [&](std::size_t i) { return own[i]; });
      for (std::size_t i = 0; i < pairs; ++i) {
        if ((own[i] == a) != others) list.back().motion.speed[i] = 0;
      }
    }
  }
  const bool sums = asked.motion.terms > 1;
  const std::vector<std::uint8_t> runs = sums ? own : sectioned_axes(sections),
                                  turns = sums || axes != 3 ? own : interleaved_axes(sections);
  if (!sums) {
    add(finding(Cause::axes_in_runs), [&](std::size_t i) { return runs[i]; });
    add(finding(Cause::axes_in_turns), [&](std::size_t i) { return turns[i]; });
    add(finding(Cause::axes_in_turns), [&](std::size_t i) { return i % axes; });
  }
  add(finding(Cause::axes_reversed), [&](std::size_t i) { return axes - 1 - own[i]; });
  if (sums) return list;
  for (const std::size_t end : {pairs - 1, std::size_t{0}}) {
    add(finding(Cause::axes_further), [&](std::size_t i) { return own[i > 0 ? i - 1 : end]; });
    add(finding(Cause::axes_back), [&](std::size_t i) { return own[i + 1 < pairs ? i + 1 : pairs - 1 - end]; });
  }
  return list;
}

// Heads by other rows of the rope's frequencies: all by one, in reverse order, or by the next.
bool explain_by_heads(Examination& exam, const Asked& asked) {
  const std::int64_t rows = asked.frequencies.heads;
  const auto try_rows = [&](const Numbers& found, bool one_row) {
    const Fit fit = compare_while_it_holds(exam.turns, motion_of(asked.frequencies, asked.motion, found));
    if (found == asked.rows || !fit.holds) return false;
    const auto head = std::ranges::mismatch(found, asked.rows).in1 - found.begin(); 
    const auto at = static_cast<std::size_t>(head);
    exam.claim(finding(one_row ? Cause::one_row_of_heads : Cause::rows_of_heads,
                       {{"head", number(head)}, {"found", number(found[at])}, {"asked", number(asked.rows[at])}}),
               fit, asked.fit);
    return true;
  };
  for (std::int64_t row = 0; row < rows && rows > 1; ++row) {
    if (try_rows(Numbers(asked.rows.size(), row), true)) return true;
  }
  Numbers reversed = asked.rows, next = asked.rows;
  std::ranges::reverse(reversed);
  std::rotate(next.begin(), next.begin() + 1, next.end());
  return rows > 1 && (try_rows(reversed, false) || try_rows(next, false));
}

// Each pair at the asked speed listens to the positions of some axis.
bool explain_by_axes(Examination& exam, const Asked& asked) {
  const int axes = static_cast<int>(exam.expected.size());
  if (axes < 2) return false;
  const auto take = [&](const Motion& motion, const Fit& fit, Finding found) {
    exam.facts.axis = motion.axis;
    const auto pair = std::ranges::mismatch(motion.axis, asked.motion.axis).in1 - motion.axis.begin();
    if (pair < std::ssize(motion.axis) && motion.terms == 1) {
      const int other = motion.axis_of(static_cast<int>(pair)), own = asked.motion.axis_of(static_cast<int>(pair));
      found.numbers.push_back({"pair", number(pair)});
      found.numbers.push_back({"found", axis_name(asked.used, other)});
      found.numbers.push_back({"asked", axis_name(asked.used, own)});
    }
    exam.claim(std::move(found), fit, asked.fit);
    return true;
  };
  if (asked.motion.axis.size() == asked.motion.speed.size()) {
    for (const KnownMap& known : known_maps(asked, exam.expected.size())) {
      if (const Fit fit = compare(exam.turns, known.motion); fit.holds) return take(known.motion, fit, known.found);
    }
  }
  if (asked.motion.terms > 1) return false;
  Motion motion = asked.motion, on_axis = motion;
  motion.axis.resize(motion.speed.size(), 0);
  Numbers moved;
  for (int pair = 0; pair < exam.turns.pairs(); ++pair) {
    double least = largest_misfit(exam.turns, pair, asked.motion, pair);
    if (least <= 1) continue;
    for (int axis = 0; axis < axes; ++axis) {
      on_axis.axis.assign(on_axis.speed.size(), static_cast<std::uint8_t>(axis));
      const double misfit = largest_misfit(exam.turns, pair, on_axis, pair);
      if (misfit >= least) continue;
      least = misfit;
      motion.axis[static_cast<std::size_t>(pair)] = static_cast<std::uint8_t>(axis);
    }
    if (least > 1) return false;
    moved.push_back(pair);
  }
  if (moved.empty()) return false;
  const Fit fit = compare(exam.turns, motion);
  if (!fit.holds) return false;
  const double count = number(moved.size());
  return take(motion, fit,
              finding(Cause::other_axes, {{"moved", count}, {"pairs", number(exam.turns.pairs())}}, {.pairs = moved}));
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

bool explain_by_other_ropes(Examination& exam, const Asked& asked) { return explain_by_rivals(exam, asked, false); }

// The order of questions: what is asked in another precision; then candidates, the likeliest change first; what is
// measured blindly, positions at the asked speeds and speeds at the expected positions, where no candidate holds.
constexpr bool (*questions[])(Examination&, const Asked&) = {
    explain_by_precision, explain_by_axes,     explain_by_heads, explain_by_positions,
    explain_by_other_ropes, explain_by_own_time, explain_by_speeds};

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
  if (exam.findings.empty()) exam.find(has_one_speed_per_pair(asked.used.rope) ? Cause::no_speeds : Cause::no_frequencies);
}

}  // namespace rotary::diagnose
