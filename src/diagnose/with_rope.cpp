// A tensor against the rope that its model asks.
#include <algorithm>
#include <cmath>

#include "examination.h"
#include "explain.h"
#include "unwrap.h"
#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

using detail::significant;

constexpr double coarse_table = 0x1p-8;  // a table rounded to bf16 changes the norms of pairs by less

const char* turning(bool clockwise) { return clockwise ? "clockwise" : "counterclockwise"; }

void set_positions(Examination& exam, const std::vector<double>& position) {
  exam.facts.positions.clear();
  const auto tokens = static_cast<std::ptrdiff_t>(exam.turns.order.tokens);
  for (auto begin = position.begin(); begin != position.end(); begin += tokens) {
    exam.facts.positions.emplace_back(begin, begin + tokens);
  }
  const auto& rows = exam.facts.positions;
  if (std::all_of(rows.begin(), rows.end(), [&](const auto& row) { return row == rows.front(); })) {
    exam.facts.positions.resize(1);
  }
}

// What the config asks is a fact as far as nothing differs.
void set_facts(Examination& exam, const Asked& asked) {
  exam.facts.clockwise = asked.used.rope.clockwise;
  set_positions(exam, exam.expected[0]);
  exam.facts.inv_freq = asked.motion.speed;
  for (double& speed : exam.facts.inv_freq) speed = std::abs(speed);
  if (asked.motion.axis.size() == exam.facts.inv_freq.size() && asked.frequencies.axes() > 1) {
    exam.facts.axis = asked.motion.axis;
  }
  if (asked.used.rope.inv_freq.empty()) exam.facts.base = asked.used.rope.base;
  exam.facts.scaling = asked.used.rope.scaling;
}

void find_factor(Examination& exam, const Asked& asked) {
  const double wanted = asked.frequencies.attention_factor, found = exam.factor;
  const double slack = std::max(exam.sample.unit / 2, 1e-6);
  const auto near = [&](double value) { return std::abs(found - value) <= slack * value; };
  exam.facts.attention_factor = near(wanted) ? wanted : near(1) ? 1 : found;
  if (near(wanted)) return;
  const std::string asks = "the model asks " + significant(wanted, 7);
  std::string text = "is multiplied by " + significant(found, 7) + "; " + asks;
  if (near(1)) text = "is rotated without the attention factor; " + asks;
  if (near(wanted * wanted)) text = "is multiplied by the attention factor twice, " + significant(found, 7) + "; " + asks;
  if (near(wanted / std::sqrt(exam.sample.head_dim))) text += " (it is divided by the root of head_dim too)";
  exam.find(Verdict::attention_factor, text);
}

// ---- positions ----

struct PositionFinding {
  Verdict verdict = Verdict::positions;
  std::string text;
};

PositionFinding finding_of(const Pattern& pattern, const Asked& asked) {
  const double* factor = nullptr;
  if (const Linear* linear = std::get_if<Linear>(&asked.used.rope.scaling)) factor = &linear->factor;
  const bool clockwise = asked.used.rope.clockwise;
  switch (pattern.kind) {
    case Change::offset:
      return {Verdict::offset, "is rotated at positions that " + pattern.words};
    case Change::negated:
      return {Verdict::direction,
              std::string("is rotated ") + turning(!clockwise) + "; the model rotates " + turning(clockwise) +
                  (pattern.words == "are negated" ? "" : "; the positions " + pattern.words)};
    case Change::constant:
      if (pattern.value == 0) {
        return {Verdict::not_rotated,
                "is not rotated: every angle is 0 (position 0 for every token would look the same)"};
      }
      break;
    case Change::doubled:
      return {Verdict::twice,
              "is rotated twice: every angle is double (positions that are doubled, or a speed that is, would look the same)"};
    case Change::step:
      if (factor != nullptr && std::abs(pattern.value - *factor) < 1e-6 * *factor) {
        return {Verdict::scaling, "is rotated without the linear scaling with factor " + significant(*factor, 6) +
                                      " that the model asks"};
      }
      if (pattern.value > 0 && pattern.value < 1) {
        return {Verdict::scaling, "is rotated as by linear scaling with factor " + significant(1 / pattern.value, 6) +
                                      " of what the model asks (positions " + significant(pattern.value, 6) +
                                      " times as large would look the same)"};
      }
      break;
    default:
      break;
  }
  return {Verdict::positions, "is rotated at positions that " + pattern.words};
}

std::string axis_name(int axis) { return "axis " + std::to_string(axis); }

// Positions that are those of a known pattern but for their sign.
void mirror(Pattern& pattern, const FoundPositions& found, const std::vector<double>& expected, std::int64_t batch) {
  if (pattern.kind != Change::other && pattern.kind != Change::rows) return;
  std::vector<double> negative = found.position;
  for (double& position : negative) position = -position;
  Pattern mirrored = pattern_of(negative, expected, batch, found.error);
  if (mirrored.kind == Change::other || mirrored.kind == Change::rows) return;
  pattern = {Change::negated, 0, "are negated and then " + mirrored.words};
}

// The same speeds at other positions.
bool explain_by_positions(Examination& exam, const Asked& asked) {
  Motion motion = asked.motion;
  const Fit before = compare(exam.turns, motion);
  std::vector<Pattern> patterns;
  for (int axis = 0; axis < static_cast<int>(exam.expected.size()); ++axis) {
    const auto& expected = exam.expected[static_cast<std::size_t>(axis)];
    const FoundPositions found = find_positions(exam.turns, asked.motion, axis, expected);
    if (!found.holds) return false;
    motion.position[static_cast<std::size_t>(axis)] = found.position;
    patterns.push_back(pattern_of(found.position, expected, exam.turns.order.batch, found.error));
    mirror(patterns.back(), found, expected, exam.turns.order.batch);
  }
  const Fit fit = compare(exam.turns, motion);
  if (!fit.holds && fit.residual > 0.2 * before.residual) return false;
  exam.residual = fit.residual;
  set_positions(exam, motion.position[0]);
  const std::string evidence = " (" + residuals(fit.residual, before.residual) + ")";
  for (std::size_t axis = 0; axis < patterns.size(); ++axis) {
    if (patterns[axis].kind == Change::none) continue;
    const PositionFinding finding = finding_of(patterns[axis], asked);
    if (finding.verdict == Verdict::direction) exam.facts.clockwise = !asked.used.rope.clockwise;
    if (finding.verdict == Verdict::direction || finding.verdict == Verdict::scaling || finding.verdict == Verdict::twice) {
      set_positions(exam, exam.expected[0]);
    }
    if (finding.verdict == Verdict::scaling) {
      exam.facts.scaling.reset();
      for (double& speed : exam.facts.inv_freq) speed *= patterns[axis].value;
    }
    const bool one_kind = std::all_of(patterns.begin(), patterns.end(),
                                      [&](const Pattern& other) { return other.kind == patterns[axis].kind; });
    if (finding.verdict == Verdict::not_rotated) {
      std::erase_if(exam.findings, [](const Finding& one) { return one.verdict != Verdict::attention_factor; });
      exam.findings.insert(exam.findings.begin(), {finding.verdict, finding.text});
      return true;
    }
    exam.find(finding.verdict, finding.text + (one_kind ? "" : " on " + axis_name(static_cast<int>(axis))) + evidence);
    if (one_kind) return true;
  }
  return !exam.findings.empty() || fit.holds;
}

// ---- axes ----

// For each pair an axis whose positions explain it at the asked speed.
bool explain_by_axes(Examination& exam, const Asked& asked) {
  const int axes = static_cast<int>(exam.expected.size());
  if (axes < 2) return false;
  const Fit before = compare(exam.turns, asked.motion);
  Motion motion = asked.motion;
  int moved = 0, first_moved = -1;
  for (int pair = 0; pair < exam.turns.block.pairs; ++pair) {
    const auto i = static_cast<std::size_t>(pair);
    const auto misfit = [&](int axis) {
      Motion one = asked.motion;
      one.axis.assign(one.speed.size(), static_cast<std::uint8_t>(axis));
      double worst = 0;
      for (std::int64_t row = 0; row < exam.turns.rows(); ++row) {
        const std::complex<double> turn = one.turn(row, pair), off = exam.turns.turn[exam.turns.at(row, pair)] - turn;
        const auto allowed = tolerance(exam.turns, exam.turns.at(row, pair), one.angle(row, pair), turn);
        worst = std::max({worst, std::abs(off.real()) / allowed.real(), std::abs(off.imag()) / allowed.imag()});
      }
      return worst;
    };
    if (misfit(asked.motion.axis_of(pair)) <= 1) continue;
    int best = asked.motion.axis_of(pair);
    for (int axis = 0; axis < axes; ++axis) {
      if (misfit(axis) < misfit(best)) best = axis;
    }
    if (misfit(best) > 1) return false;
    motion.axis[i] = static_cast<std::uint8_t>(best);
    if (moved++ == 0) first_moved = pair;
  }
  if (moved == 0) return false;
  const Fit fit = compare(exam.turns, motion);
  exam.residual = fit.residual;
  exam.facts.axis = motion.axis;
  exam.find(Verdict::axis, "is rotated with other axes in " + std::to_string(moved) + " of its " +
                               std::to_string(exam.turns.block.pairs) + " pairs: pair " + std::to_string(first_moved) +
                               " listens to " + axis_name(motion.axis_of(first_moved)) + ", the model asks " +
                               axis_name(asked.motion.axis_of(first_moved)) + " (" +
                               residuals(fit.residual, before.residual) + ")");
  return true;
}

// ---- speeds ----

struct MeasuredSpeeds {
  FoundSpeeds found;
  bool holds = true;  // angles rise evenly with the positions
  double sign = 1;    // of most pairs, against the asked direction
};

MeasuredSpeeds measured_speeds(const Examination& exam, const Asked& asked) {
  MeasuredSpeeds measured;
  std::vector<FoundSpeeds> of_axis;
  for (const std::vector<double>& positions : exam.expected) of_axis.push_back(find_speeds(exam.turns, positions));
  measured.found = of_axis[0];
  double sign = 0;
  for (int pair = 0; pair < exam.turns.block.pairs; ++pair) {
    const auto i = static_cast<std::size_t>(pair);
    const FoundSpeeds& own = of_axis[static_cast<std::size_t>(asked.motion.axis_of(pair))];
    measured.found.speed[i] = own.speed[i];
    measured.found.error[i] = own.error[i];
    measured.found.phase[i] = own.phase[i];
    measured.found.phase_error[i] = own.phase_error[i];
    measured.holds = measured.holds && own.holds[i];
    const double weight = std::isfinite(own.error[i]) ? 1 : 0;
    if (std::abs(own.speed[i]) > 3 * own.error[i]) sign += weight * std::copysign(1.0, own.speed[i]);
  }
  const double asked_sign = asked.used.rope.clockwise ? -1 : 1;
  measured.sign = sign < 0 ? -asked_sign : asked_sign;
  return measured;
}

// Adds an offset to the findings if the angles at position 0 are those of one.
bool explain_phases(Examination& exam, const MeasuredSpeeds& measured, Motion& motion) {
  std::vector<Phase> phases;
  bool zero = true;
  for (std::size_t i = 0; i < measured.found.speed.size(); ++i) {
    const double sigma = measured.found.phase_error[i];
    if (std::abs(measured.found.phase[i]) > 6 * sigma) zero = false;
    if (std::isfinite(sigma)) phases.push_back({measured.found.phase[i], sigma, measured.found.speed[i], 0});
  }
  if (zero) return true;
  const Unwrapped offset = unwrap(phases, 0, 0x1p20);
  if (offset.misfit > 1 || !std::isfinite(offset.error)) return false;
  const double shift = std::abs(offset.value - std::round(offset.value)) < 0.02 ? std::round(offset.value) : offset.value;
  for (std::vector<double>& positions : motion.position) {
    for (double& position : positions) position += shift;
  }
  const Pattern pattern = pattern_of(motion.position[0], exam.expected[0], exam.turns.order.batch);
  set_positions(exam, motion.position[0]);
  exam.find(Verdict::offset, "is rotated at positions that " + pattern.words);
  return true;
}

// Drops the finding on the attention factor where it is the one that this rope has.
void take_explanation(Examination& exam, const Explanation& explained, const Asked& asked, const std::string& evidence) {
  const Rope& rope = explained.rope;
  const Frequencies frequencies = rotary::frequencies(rope, explained.length);
  exam.facts.base = rope.inv_freq.empty() ? std::optional<double>(rope.base) : std::nullopt;
  exam.facts.scaling = rope.inv_freq.empty() ? std::optional<Scaling>(rope.scaling) : std::nullopt;
  exam.facts.inv_freq = frequencies.inv_freq;
  if (std::abs(exam.factor - frequencies.attention_factor) < std::max(exam.sample.unit, 1e-5)) {
    std::erase_if(exam.findings, [](const Finding& one) { return one.verdict == Verdict::attention_factor; });
  }
  const bool other_base = rope.base != asked.used.rope.base;
  const bool other_scaling = rope.scaling != asked.used.rope.scaling || explained.length != asked.length || !rope.inv_freq.empty();
  std::string asks = other_base ? "base " + significant(asked.used.rope.base, 10) : words_of(asked.used.rope.scaling);
  if (other_base && other_scaling) asks += " and " + words_of(asked.used.rope.scaling);
  exam.find(other_base ? Verdict::base : Verdict::scaling,
            "is rotated " + explained.words + "; the model asks " + asks + evidence);
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
      const std::complex<double> a = asked.turn(row, pair), b = other.turn(row, pair);
      if (std::abs(a - b) < turns.unit / 4) continue;
      of_asked += turns.weight[at] * std::norm(turns.turn[at] - a);
      of_other += turns.weight[at] * std::norm(turns.turn[at] - b);
      ++count;
    }
  }
  return count < 8 || of_other == 0 ? 1 : of_asked / of_other;
}

// The asked rope with one thing changed. holds: the asked rope itself explains the turns within their rounding, and a
// rival has to be better by far.
bool explain_by_rivals(Examination& exam, const Asked& asked, bool holds) {
  const Fit before = compare(exam.turns, asked.motion);
  const Rope rope = rope_for_block(asked.used.rope, exam.turns.block);
  const Explanation* best = nullptr;
  Fit best_fit;
  const std::vector<Explanation> list = rivals(rope, asked.length, asked.used.context);
  double most = 4;
  for (const Explanation& one : list) {
    Motion motion = asked.motion;
    motion.speed = frequencies(one.rope, one.length).inv_freq;
    if (asked.used.rope.clockwise) {
      for (double& speed : motion.speed) speed = -speed;
    }
    const Fit fit = compare(exam.turns, motion);
    if (!fit.holds) continue;
    if (holds) {
      const double better = advantage(exam.turns, asked.motion, motion);
      if (better <= most) continue;
      most = better;
    } else if (best != nullptr && fit.residual > 0.8 * best_fit.residual) {
      continue;
    }
    best = &one;
    best_fit = fit;
  }
  if (best == nullptr) return false;
  exam.residual = best_fit.residual;
  take_explanation(exam, *best, asked, " (" + residuals(best_fit.residual, before.residual) + ")");
  return true;
}

// Other speeds at the expected positions.
bool explain_by_speeds(Examination& exam, const Asked& asked) {
  const MeasuredSpeeds measured = measured_speeds(exam, asked);
  if (!measured.holds) return false;
  const Fit before = compare(exam.turns, asked.motion);
  std::vector<Speed> speeds;
  for (std::size_t i = 0; i < measured.found.speed.size(); ++i) {
    const double value = measured.sign * measured.found.speed[i];
    const double error = 6 * measured.found.error[i] + float32_slack * std::abs(value);
    speeds.push_back({std::max(value, 0.0), value < -error ? 0 : error});
  }
  const Rope rope = rope_for_block(asked.used.rope, exam.turns.block);
  const std::optional<Explanation> explained = explain_speeds(speeds, rope, asked.length);
  Motion motion = asked.motion;
  motion.speed = measured.found.speed;
  if (explained) {
    motion.speed = frequencies(explained->rope, explained->length).inv_freq;
    for (double& speed : motion.speed) speed *= measured.sign;
  }
  const std::size_t known = exam.findings.size();
  const bool phases = explain_phases(exam, measured, motion);
  const Fit fit = compare(exam.turns, motion);
  if (!phases || (!fit.holds && fit.residual > 0.2 * before.residual)) {
    exam.findings.resize(known);
    set_positions(exam, exam.expected[0]);
    return false;
  }
  exam.residual = fit.residual;
  exam.facts.inv_freq = motion.speed;
  for (double& speed : exam.facts.inv_freq) speed = std::abs(speed);
  exam.facts.clockwise = measured.sign < 0;
  if ((measured.sign < 0) != asked.used.rope.clockwise) {
    exam.find(Verdict::direction, std::string("is rotated ") + turning(measured.sign < 0) + "; the model rotates " +
                                      turning(asked.used.rope.clockwise));
  }
  const std::string evidence = " (" + residuals(fit.residual, before.residual) + ")";
  if (explained) {
    take_explanation(exam, *explained, asked, evidence);
  } else {
    exam.facts.base.reset();
    exam.facts.scaling.reset();
    exam.find(Verdict::scaling, "is rotated at speeds that no known base and scaling gives; the model asks base " +
                                    significant(asked.used.rope.base, 10) + " and the scaling " +
                                    name(asked.used.rope.scaling) + evidence);
  }
  return true;
}

// ---- precision ----

bool explain_by_precision(Examination& exam, const Asked& asked) {
  const Fit plain = compare(exam.turns, asked.motion);
  const FoundPrecision found = find_precision(exam.turns, asked.motion, asked.frequencies.inv_freq_float32);
  const bool coarse = found.precision == Precision::f16 || found.precision == Precision::bf16;
  if (plain.holds && !(coarse && found.angles)) {
    if (explain_by_rivals(exam, asked, true)) return true;
    exam.facts.precision = found.precision;
    exam.residual = std::min(plain.residual, found.fit.residual);
    return true;
  }
  if (!coarse) return false;
  exam.facts.precision = found.precision;
  exam.residual = found.fit.residual;
  exam.find(Verdict::precision, "is rotated with coarse angles: " + found.words + " (" +
                                    residuals(found.fit.residual, plain.residual) + ")");
  return true;
}

}  // namespace

std::optional<Block> asked_block(const Question& question, int head_dim) {
  if (question.rope == nullptr) return std::nullopt;
  const Rope& rope = question.rope->rope;
  const std::optional<Kind> kind = kind_of(rope.pairing);
  if (!kind) return std::nullopt;
  const bool bare = question.rope->first > 0 && head_dim == rope.rotary_dim;
  return Block{*kind, bare ? 0 : question.rope->first, rope.rotary_dim / 2};
}

Rope rope_for_block(Rope rope, const Block& block) {
  if (rope.rotary_dim == block.rotary_dim()) return rope;
  rope.rotary_dim = block.rotary_dim();
  rope.head_dim = std::max(rope.head_dim, rope.rotary_dim);
  for (std::vector<double>* list : {&rope.inv_freq, &rope.multiplier}) {
    if (!list->empty()) list->resize(static_cast<std::size_t>(block.pairs), 0);
  }
  rope.axis.clear();
  rope.index.clear();
  rope.exponent_dim = 0;
  if (std::holds_alternative<LongRope>(rope.scaling)) rope.scaling = Unscaled{};
  return rope;
}

Asked ask(const ModelRope& used, const Block& block, const Question& question,
          const std::vector<std::vector<double>>& expected) {
  Asked asked{used, block, 0, {}, {}};
  double last = 0;
  for (const std::vector<double>& positions : expected) {
    for (const double position : positions) last = std::max(last, position);
  }
  asked.length = question.length.value_or(static_cast<std::int64_t>(std::floor(last)) + 1);
  const Rope rope = rope_for_block(used.rope, block);
  asked.frequencies = frequencies(rope, asked.length);
  asked.motion.speed = asked.frequencies.inv_freq;
  if (rope.clockwise) {
    for (double& speed : asked.motion.speed) speed = -speed;
  }
  asked.motion.axis = asked.frequencies.axis;
  asked.motion.position = expected;
  asked.motion.factor = asked.frequencies.attention_factor;
  return asked;
}

void examine_with_rope(Examination& exam) {
  Asked asked = ask(*exam.question.rope, exam.turns.block, exam.question, exam.expected);
  set_facts(exam, asked);
  const std::size_t before = exam.findings.size();
  const double wanted = asked.frequencies.attention_factor;
  if (std::abs(exam.factor - wanted) < coarse_table * wanted) {
    exam.facts.attention_factor = wanted;
    if (explain_by_precision(exam, asked)) return;
  }
  find_factor(exam, asked);
  asked.motion.factor = exam.factor;
  if (explain_by_precision(exam, asked)) return;
  if (explain_by_axes(exam, asked)) return;
  if (explain_by_positions(exam, asked)) {
    const auto twice = std::find_if(exam.findings.begin(), exam.findings.end(),
                                    [](const Finding& one) { return one.verdict == Verdict::twice; });
    // A rope applied twice has its factor twice.
    if (twice != exam.findings.end()) {
      std::erase_if(exam.findings, [](const Finding& one) { return one.verdict == Verdict::attention_factor; });
    }
    return;
  }
  if (explain_by_rivals(exam, asked, false)) return;
  if (explain_by_speeds(exam, asked)) return;
  exam.findings.resize(before);
  exam.facts.positions.clear();
  exam.facts.inv_freq.clear();
  exam.facts.base.reset();
  exam.facts.scaling.reset();
  exam.facts.clockwise.reset();
  if (exam.findings.empty()) {
    exam.find(Verdict::cannot_tell, "cannot tell, because its angles are not those of one speed per pair at one position per "
                                    "token, neither at the speeds nor at the positions that the config asks");
  }
}

}  // namespace rotary::diagnose
