// A tensor against the rope that its model asks.
#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "examination.h"
#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

using detail::significant;

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
  std::string words;
};
std::vector<KnownFactor> known_factors(const Rope& rope, double wanted) {
  std::vector<KnownFactor> known;
  const auto add = [&](double value, const std::string& words) {
    known.push_back({value, words});
    known.push_back({value * value, "the square of " + words});
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
  exam.facts.attention_factor_error = near(wanted) || near(1) ? 0 : slack * found;
  if (near(wanted)) return;
  std::string text = "is multiplied by " + significant(found, 7);
  if (near(1)) {
    text = "is rotated without the attention factor";
  } else if (near(wanted * wanted)) {
    text = "is multiplied by the attention factor twice, " + significant(found, 7);
  } else {
    const std::vector<KnownFactor> known = known_factors(asked.used.rope, wanted);
    const auto cause = std::ranges::find_if(known, [&](const KnownFactor& one) { return near(one.value); });
    if (cause != known.end()) text += " = " + cause->words;
  }
  text += "; the model asks " + significant(wanted, 7);
  if (near(wanted / std::sqrt(exam.sample.head_dim))) text += " (it is divided by the root of head_dim too)";
  exam.find(Verdict::attention_factor, text);
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
  exam.take(found.fit);
  exam.find(Verdict::precision,
            "is rotated with coarse angles: " + found.words + evidence(found.fit.residual, plain.residual));
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
  std::string words;
  Motion motion;
};
std::vector<KnownMap> known_maps(const Asked& asked, std::size_t axes) {
  const std::vector<std::uint8_t>& own = asked.motion.axis;
  const std::size_t pairs = own.size();
  std::vector<KnownMap> list;
  const auto add = [&](const std::string& words, const std::function<std::size_t(std::size_t pair)>& axis_of) {
    list.push_back({words, asked.motion});
    for (std::size_t i = 0; i < pairs; ++i) list.back().motion.axis[i] = static_cast<std::uint8_t>(axis_of(i));
  };
  const auto of = [&](std::size_t axis) { return axis_name(asked.used, static_cast<int>(axis)); };
  std::vector<int> sections(axes);
  for (const std::uint8_t axis : own) ++sections[axis];
  for (std::size_t a = 0; a < axes; ++a) {
    add("with " + of(a) + " alone instead of all axes", [=](std::size_t) { return a; });
    for (std::size_t b = 0; b < a; ++b) {
      add("with " + of(b) + " and " + of(a) + " exchanged among its axes", [&, a, b](std::size_t i) {
        return own[i] == a ? b : own[i] == b ? a : own[i];
      });
    }
    for (const bool others : {true, false}) {  // dropped
      std::string dropped;
      for (std::size_t b = 0; b < axes; ++b) {
        if ((b == a) != others) dropped += (dropped.empty() ? "" : " and ") + of(b);
      }
      const bool sums = asked.motion.terms > 1;
      add("without " + dropped + (sums ? "" : ", whose pairs do not rotate"), [&](std::size_t i) { return own[i]; });
      for (std::size_t i = 0; i < pairs; ++i) {
        if ((own[i] == a) != others) list.back().motion.speed[i] = 0;
      }
    }
  }
  if (asked.motion.terms > 1) {
    add("with the axes in reverse order", [&](std::size_t i) { return axes - 1 - own[i]; });
    return list;
  }
  const std::vector<std::uint8_t> runs = sectioned_axes(sections);
  add("with the axes in runs", [&](std::size_t i) { return runs[i]; });
  const std::vector<std::uint8_t> turns = axes == 3 ? interleaved_axes(sections) : own;
  add("with the axes in turns", [&](std::size_t i) { return turns[i]; });
  add("with the axes in turns", [&](std::size_t i) { return i % axes; });
  add("with the axes in reverse order", [&](std::size_t i) { return axes - 1 - own[i]; });
  for (const std::size_t end : {pairs - 1, std::size_t{0}}) {
    add("with the axes shifted one pair further", [&](std::size_t i) { return own[i > 0 ? i - 1 : end]; });
    add("with the axes shifted one pair back",
        [&](std::size_t i) { return own[i + 1 < pairs ? i + 1 : pairs - 1 - end]; });
  }
  return list;
}

// Each head by the row of some head.
bool explain_by_heads(Examination& exam, const Asked& asked) {
  const std::int64_t heads = exam.turns.layout().heads, rows = asked.frequencies.heads;
  if (rows == 1) return false;
  Numbers all(static_cast<std::size_t>(rows)), found = asked.rows;
  std::iota(all.begin(), all.end(), 0);
  const Motion of_rows = motion_of(asked.frequencies, asked.motion, all);
  const auto fits = [&](std::int64_t head, std::int64_t row) {
    bool all_fit = true;
    for (int i = 0; all_fit && i < exam.turns.block.pairs; ++i)
      all_fit = largest_misfit(exam.turns, of_rows.of(head, i), of_rows, of_rows.of(row, i)) <= 1;
    return all_fit;
  };
  for (std::int64_t head = 0; head < heads; ++head) {
    std::int64_t& own = found[static_cast<std::size_t>(head)];
    if (fits(head, own)) continue;
    const auto other = std::ranges::find_if(all, [&](std::int64_t row) { return fits(head, row); });
    if (other == all.end()) return false;
    own = *other;
  }
  const Fit fit = compare(exam.turns, motion_of(asked.frequencies, asked.motion, found));
  if (found == asked.rows || !fit.holds) return false;
  const auto first = std::ranges::mismatch(found, asked.rows).in1;
  const std::string head = std::to_string(first - found.begin()), row = std::to_string(*first),
                    own = std::to_string(asked.rows[static_cast<std::size_t>(first - found.begin())]);
  const bool one_row = std::ranges::count(found, *first) == heads;
  exam.take(fit);
  exam.find(Verdict::heads,
            "is rotated with the frequencies of " +
                (one_row ? "row " + row + " in all heads; the model asks row " + own + " in head " + head
                         : "other heads: head " + head + " by row " + row + "; the model asks row " + own) +
                evidence(fit.residual, asked.fit.residual));
  return true;
}

// Each pair at the asked speed listens to the positions of some axis.
bool explain_by_axes(Examination& exam, const Asked& asked) {
  const int axes = static_cast<int>(exam.expected.size());
  if (axes < 2) return false;
  const auto take = [&](const Motion& motion, const Fit& fit, const std::string& words) {
    exam.take(fit);
    exam.facts.axis = motion.axis;
    const std::size_t pair =
        static_cast<std::size_t>(std::ranges::mismatch(motion.axis, asked.motion.axis).in1 - motion.axis.begin());
    std::string listens;
    if (pair < motion.axis.size() && motion.terms == 1) {
      const int other = motion.axis[pair], own = asked.motion.axis_of(static_cast<int>(pair));
      listens = ": pair " + std::to_string(pair) + " listens to " + axis_name(asked.used, other) + ", the model asks " +
                axis_name(asked.used, own);
    }
    exam.find(Verdict::axis, "is rotated " + words + listens + evidence(fit.residual, asked.fit.residual));
    return true;
  };
  if (asked.motion.axis.size() == asked.motion.speed.size()) {
    for (const KnownMap& known : known_maps(asked, exam.expected.size())) {
      if (const Fit fit = compare(exam.turns, known.motion); fit.holds) return take(known.motion, fit, known.words);
    }
  }
  if (asked.motion.terms > 1) return false;
  Motion motion = asked.motion, on_axis = motion;
  motion.axis.resize(motion.speed.size(), 0);
  int moved = 0;
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
    ++moved;
  }
  if (moved == 0) return false;
  const Fit fit = compare(exam.turns, motion);
  if (!fit.holds) return false;
  return take(
      motion, fit,
      "with other axes in " + std::to_string(moved) + " of its " + std::to_string(exam.turns.pairs()) + " pairs");
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

std::string direction_text(bool clockwise, bool asked) {
  const auto word = [](bool is_clockwise) { return is_clockwise ? "clockwise" : "counterclockwise"; };
  return std::string("is rotated ") + word(clockwise) + "; the model rotates " + word(asked);
}

std::string axis_name(const ModelRope& used, int axis) {
  const auto i = static_cast<std::size_t>(axis);
  return i < used.axis_names.size() ? used.axis_names[i] : "axis " + std::to_string(axis);
}

std::string residual_said(double residual, const std::string& more) {
  return " (residual " + significant(residual, 2) + more + ")";
}

std::string scaling_asked(const Asked& asked) {
  const Scaling& scaling = asked.used.rope.scaling;
  if (!depends_on_length(scaling)) return words_of(scaling);
  const std::string tokens = " for " + std::to_string(asked.length) + " tokens";
  const LongRope* lists = std::get_if<LongRope>(&scaling);
  if (lists == nullptr) return words_of(scaling) + tokens;
  return (asked.length > lists->trained_length ? "the long list of longrope" : "the short list of longrope") + tokens;
}

std::string evidence(double found, double asked) { return residual_said(found, " against " + significant(asked, 2)); }
bool says_more(const Fit& fit, double asked) { return fit.residual <= (fit.holds ? 1 : 0.2) * asked; }

void examine_with_rope(Examination& exam) {
  Asked asked = ask(exam.subject, exam.turns.block, exam.turns.layout(), exam.expected);
  asked.fit = compare(exam.turns, asked.motion);
  if (one_pair_alone(exam) && (!exam.findings.empty() || !asked.fit.holds)) {
    exam.findings.clear();
    exam.facts = {};
    exam.find(Verdict::cannot_tell,
              std::string("cannot tell, because one pair of the head alone is not 0, which tells position times speed "
                          "and no more") +
                  (asked.fit.holds ? "" : "; it is not what the config asks"));
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
  if (explain_by_precision(exam, asked) || explain_by_axes(exam, asked) || explain_by_heads(exam, asked)) return;
  if (explain_by_positions(exam, asked)) {
    const auto is_twice = [](const Finding& one) { return one.verdict == Verdict::twice; };
    if (std::ranges::any_of(exam.findings, is_twice)) exam.drop(Verdict::attention_factor);  // it has its factor twice
    return;
  }
  const bool one_each = has_one_speed_per_pair(asked.used.rope);
  if (one_each &&
      (explain_by_rivals(exam, asked, false) || explain_by_own_time(exam, asked) || explain_by_speeds(exam, asked))) {
    return;
  }
  exam.findings.resize(before);
  exam.facts.positions.clear();
  exam.facts.inv_freq.clear();
  exam.facts.base.reset();
  exam.facts.scaling.reset();
  exam.facts.clockwise.reset();
  if (exam.findings.empty()) {
    exam.find(
        Verdict::cannot_tell,
        std::string("cannot tell, because its angles are not those of ") +
            (one_each ? "one speed per pair at one position per token, neither at the speeds nor at the positions "
                        "that the config asks"
                      : "the rope's frequencies at any positions, in any order of axes or heads (frequencies that "
                        "are given for each head or axis have no base and no scaling that others could be)"));
  }
}

}  // namespace rotary::diagnose
