// Finds which dimensions of a tensor are batch, tokens and heads: in the right ones all heads turn alike.
#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "examination.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

// The largest spread of the turns of heads that rotate alike, from rounding and noise; for other heads it is near 1.
double one_turn(const Noise& noise) { return std::max(0.05, 3 * noise.relative); }

// Positions that nobody gives are 0, 1, 2, ...
PositionSet positions_of(const Subject& subject) { return subject.positions.value_or(PositionSet{.open_from = 0}); }

// Pairs that do not visibly move say nothing about the factor.
double measured_factor(const Turns& turns) {
  double norm = 0, weight = 0;
  for (std::size_t at = 0; at < turns.turn.size(); ++at) {
    norm += turns.weight[at] * std::norm(turns.turn[at]) - 2 * turns.noise.rms * turns.noise.rms;
    weight += turns.weight[at];
  }
  return weight > 0 ? std::sqrt(std::max(0.0, norm) / weight) : 1;
}

// Whether every batch row turns as the first does.
bool rows_are_alike(const Turns& turns) {
  double off = 0, all = 0;
  const std::int64_t tokens = turns.layout().tokens;
  for (std::int64_t row = tokens; row < turns.rows(); ++row) {
    for (int pair = 0; pair < turns.pairs(); ++pair) {
      const std::size_t at = turns.at(row, pair), first = turns.at(row % tokens, pair);
      off += turns.weight[at] * std::norm(turns.turn[at] - turns.turn[first]);
      all += turns.weight[at] * std::norm(turns.turn[at]);
    }
  }
  return off <= std::pow(one_turn(turns.noise), 2) * all;
}

bool heads_are_alike(const Turns& turns) { return turns.spread < one_turn(turns.noise) && !turns.heads.empty(); }

// The turns by the reading in which the heads are alike; among several the one of the rope's heads, then of rows of the
// same positions, then of heads that there are several of.
Turns best_turns(const Examination& exam, const std::vector<Reading>& readings) {
  int best_rank = -1;
  Turns best;
  const Subject& subject = exam.subject;
  const bool apart =
      subject.used != nullptr && subject.used->rope.head_rows > 1;  // heads tell no layout: what is asked does
  for (const Reading& reading : readings) {
    Turns turns = measure(exam.sample, reading, exam.search.found.front().block, apart);
    const auto as_asked = [&](const Layout& layout) {
      return compare(turns, ask(subject, turns.block, layout).motion).holds;
    };
    const int rank = (apart && as_asked(reading.layout) ? 50 : 0) + (heads_are_alike(turns) ? 100 : 0) +
                     10 * exam.subject.plausibility(reading.layout) + (rows_are_alike(turns) ? 2 : 0) +
                     (reading.layout.heads > 1 ? 1 : 0);
    if (rank <= best_rank) continue;
    best_rank = rank;
    best = std::move(turns);
    if (rank >= 123 && !apart) break;  // the best rank
  }
  return best;
}

void explain_layout(Examination& exam, const std::vector<Reading>& readings) {
  const Subject& subject = exam.subject;
  const Reading& chosen = exam.turns.reading;
  if (subject.used == nullptr || !subject.layout.empty()) return;
  const bool settled = !subject.layout_of_heads.empty();
  if (settled ? chosen.word == subject.layout_of_heads : subject.plausibility(chosen.layout) == 2) return;
  const auto other = std::ranges::find_if(readings, [&](const Reading& one) {
    if (settled) return one.word == subject.layout_of_heads;
    return one.layout.heads != chosen.layout.heads && subject.plausibility(one.layout) == 2;
  });
  if (other == readings.end()) return;
  exam.find(Cause::head_index, {{"heads", number(other->layout.heads)},
                                {"tokens", number(other->layout.tokens)},
                                {"asked", other->word},
                                {"found", chosen.word}});
}

}  // namespace

bool find_layout(Examination& exam) {
  const std::vector<Reading> readings = plausible_readings(exam.sample, exam.subject);
  exam.turns = best_turns(exam, readings);
  Subject counted = exam.subject;
  if (!heads_are_alike(exam.turns) && !exam.turns.apart && exam.subject.layout.empty() && exam.subject.positions) {
    // Where heads are taken for tokens, the positions number the heads.
    Turns other = best_turns(exam, tools::readings_of(exam.sample.shape));
    if (heads_are_alike(other)) {
      exam.turns = std::move(other);
      counted.positions = PositionSet{};
      counted.positions->open_from = whole(exam.subject.positions->value(0, 0, 0));
    }
  }
  exam.expected = expected_positions(exam.turns.layout(), counted);
  exam.factor = measured_factor(exam.turns);
  exam.facts.layout = exam.turns.reading.word;
  exam.facts.heads = exam.turns.heads;
  if (!heads_are_alike(exam.turns)) return false;
  explain_layout(exam, readings);
  return true;
}

std::vector<Reading> plausible_readings(const Sample& sample, const Subject& subject) {
  std::vector<Reading> readings = tools::readings_of(sample.shape);
  if (!subject.layout.empty()) {
    std::string words;
    for (const Reading& reading : readings) words += (words.empty() ? "" : ", ") + reading.word;
    const std::string wanted = subject.layout == "flat" ? readings.front().word : subject.layout;
    std::erase_if(readings, [&](const Reading& reading) { return reading.word != wanted; });
    if (readings.empty()) {
      fail(Code::SHAPE, "check",
           "the layout must be one of a tensor of so many dimensions, " + words + ", but got " + subject.layout);
    }
  }
  const int rows = subject.used == nullptr ? 1 : subject.used->rope.head_rows;
  if (subject.head_rows.empty() && rows > 1) {
    const std::int64_t heads = readings.front().layout.heads;
    std::erase_if(readings, [&](const Reading& one) { return one.layout.heads % rows != 0; });
    if (readings.empty()) {
      fail(Code::SHAPE, "check",
           sample.name + " must have a multiple of the " + std::to_string(rows) +
               " heads that the rope has rows for but has " + std::to_string(heads));
    }
  }
  const PositionSet given = positions_of(subject);
  const auto fits = [](const PositionSet& set, const Layout& layout) {
    const bool fits_tokens = set.open_from ? set.tokens <= layout.tokens : set.tokens == layout.tokens;
    return fits_tokens && (set.batch == 1 || set.batch == layout.batch);
  };
  std::erase_if(readings, [&](const Reading& reading) {
    return !fits(given, reading.layout) || (subject.from && !fits(*subject.from, reading.layout));
  });
  if (readings.empty()) {
    const bool may_be_pages =
        sample.shape.size() == 4 && sample.shape[0] > 1 && given.tokens < sample.shape[0] * sample.shape[1];
    fail(Code::SHAPE, "check",
         "positions must name one position per token but got " + std::to_string(given.tokens) + " for " + sample.name +
             ", whose dimensions are " + detail::shape_text(sample.shape) +
             (may_be_pages ? ": take the tokens out of the pages of a cache, x.reshape(-1, *x.shape[2:])[slots]" : ""));
  }
  std::ranges::stable_sort(readings, std::greater(),
                           [&](const Reading& reading) { return subject.plausibility(reading.layout); });
  return readings;
}

std::vector<Reading> likeliest_readings(const Sample& sample, const Subject& subject) {
  std::vector<Reading> readings = plausible_readings(sample, subject);
  const int most = subject.plausibility(readings.front().layout);
  std::erase_if(readings, [&](const Reading& one) { return subject.plausibility(one.layout) < most; });
  return readings;
}

std::vector<std::vector<double>> rows_of(const PositionSet& given, const Layout& layout, const Subject& subject) {
  const int rope_axes = subject.used == nullptr ? 1 : subject.used->rope.axes();
  std::vector<std::vector<double>> positions(static_cast<std::size_t>(std::max(rope_axes, given.axes)));
  const auto tokens = static_cast<std::size_t>(layout.tokens), rows = static_cast<std::size_t>(layout.batch) * tokens;
  for (std::size_t axis = 0; axis < positions.size(); ++axis) {
    for (std::size_t row = 0; row < rows; ++row)
      positions[axis].push_back(given.value(axis, row / tokens, row % tokens));
  }
  return positions;
}

std::vector<std::vector<double>> expected_positions(const Layout& layout, const Subject& subject) {
  return rows_of(positions_of(subject), layout, subject);
}

// ---- the block and the motion that a rope asks for ----

std::optional<Block> asked_block(const Subject& subject, int head_dim) {
  if (subject.used == nullptr) return std::nullopt;
  const Rope& rope = subject.used->rope;
  const std::optional<Kind> kind = kind_of(rope.pairing);
  if (!kind) return std::nullopt;
  const Block block{*kind, subject.is_bare(head_dim) ? 0 : subject.used->first, rope.rotary_dim / 2};
  return subject.backward ? block.reversed() : block;
}

Rope rope_for_block(Rope rope, const Block& block) {
  if (rope.rotary_dim == block.rotary_dim()) return rope;
  const auto own = static_cast<std::size_t>(rope.rotary_dim / 2), pairs = static_cast<std::size_t>(block.pairs);
  rope.rotary_dim = block.rotary_dim();
  rope.head_dim = std::max(rope.head_dim, rope.rotary_dim);
  for (std::vector<double>* list : {&rope.inv_freq, &rope.multiplier, &rope.phase}) {  // rows of pairs
    std::vector<double> rows;
    for (std::size_t row = 0; row < list->size(); row += own) {
      for (std::size_t i = 0; i < pairs; ++i) rows.push_back(i < own ? (*list)[row + i] : 0);
    }
    *list = std::move(rows);
  }
  rope.axis.clear();
  rope.index.clear();
  rope.exponent_dim = 0;
  if (std::holds_alternative<LongRope>(rope.scaling)) rope.scaling = Unscaled{};
  return rope;
}

Motion motion_of(const Frequencies& f, const Motion& at, const Numbers& rows) {
  Motion motion = at;
  const auto pairs = static_cast<std::size_t>(f.pairs());
  const double sign = f.clockwise ? -1 : 1;
  const Numbers heads = f.head_rows > 1 ? rows : Numbers{0};
  motion.terms = std::max(1, f.summed_axes);
  motion.apart = f.head_rows > 1 ? f.pairs() : 0;
  for (auto* list : {&motion.speed, &motion.phase, &motion.growth}) list->clear();
  motion.axis.clear();
  for (std::size_t term = 0; term < static_cast<std::size_t>(motion.terms); ++term) {
    for (const std::int64_t row : heads) {
      const std::size_t first = static_cast<std::size_t>(row * motion.terms) * pairs + term * pairs;
      for (std::size_t i = 0; i < pairs; ++i) {
        motion.speed.push_back(sign * f.inv_freq[first + i]);
        if (motion.terms > 1 || !f.axis.empty())
          motion.axis.push_back(motion.terms > 1 ? static_cast<std::uint8_t>(term) : f.axis[i]);
      }
    }
  }
  const double n = f.pairs();
  for (const std::int64_t row : heads) {
    for (std::size_t i = 0; i < pairs; ++i) {
      if (!f.phase.empty())
        motion.phase.push_back(sign * f.phase[(static_cast<std::size_t>(row) * pairs + i) % f.phase.size()]);
      const double growth = std::log((static_cast<double>(i) + 0.4 * n) / (1.4 * n)) / f.xpos.scale;
      if (f.xpos.scale != 0) motion.growth.push_back(f.xpos.reciprocal ? -growth : growth);
    }
  }
  motion.center = f.xpos.center;
  return motion;
}

Motion motion_of(const Explanation& one, const Asked& asked) {
  Frequencies f = frequencies(one.rope, one.length);
  f.xpos.reciprocal = asked.frequencies.xpos.reciprocal;
  f.clockwise = asked.frequencies.clockwise;
  Motion motion = motion_of(f, asked.motion, asked.rows);
  if (motion.terms == 1) motion.axis = asked.motion.axis;  // another block's rope has axes without positions here
  return motion;
}

Asked ask(const Subject& subject, const Block& block, const Layout& layout,
          const std::vector<std::vector<double>>& expected) {
  double last = 0;
  std::vector<std::vector<double>> from;
  if (subject.from) from = rows_of(*subject.from, layout, subject);
  for (const auto* lists : {&expected, &std::as_const(from)}) {
    for (const std::vector<double>& positions : *lists) last = std::max(last, std::ranges::max(positions));
  }
  const auto length = subject.length.value_or(whole(last) + 1);
  Asked asked{*subject.used, block, length, subject.context, subject.head_rows, {}, {}};
  for (std::int64_t head = 0; subject.head_rows.empty() && head < layout.heads; ++head)
    asked.rows.push_back(head * subject.used->rope.head_rows / layout.heads);
  asked.frequencies = frequencies(rope_for_block(subject.used->rope, block), asked.length);
  Frequencies& f = asked.frequencies;
  f.xpos.reciprocal = f.xpos.scale != 0 && subject.role == Role::k;
  f.clockwise = f.clockwise != subject.backward;
  if (subject.from) f.phase.clear();  // the tensor before has the phase and the attention factor already
  asked.motion.position = expected;
  asked.motion.from = std::move(from);
  asked.motion.factor = f.attention_factor / asked.factor_before();
  asked.motion = motion_of(asked.frequencies, asked.motion, asked.rows);
  return asked;
}

Asked ask(const Subject& subject, const Block& block, const Layout& layout) {
  return ask(subject, block, layout, expected_positions(layout, subject));
}

}  // namespace rotary::diagnose
