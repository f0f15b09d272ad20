// Ropes with a phase or xPos's amplitude: both are taken from the tensor after, as the config asks them or as engines
// have them wrong, and the rest is diagnosed as by a rope without them.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "examination.h"
#include "values/number_text.h"

namespace rotary::diagnose {

namespace {

using detail::significant;

// What the tensor has of the asked phase and of the logarithm of the asked amplitude.
struct Own {
  double phase = 1, amplitude = 1;
  std::optional<double> center = {};  // another than that of the config
};

// The amplitude by the norms of the asked pairs.
std::optional<Own> measured_amplitude(const Sample& sample, const Subject& subject, const Layout& layout) {
  const Block block = *asked_block(subject, sample.head_dim);
  const Motion motion = ask(subject, block, layout).motion;
  double gg = 0, gp = 0, pp = 0, gy = 0, py = 0;  // y = share growth position - offset growth
  for_each_head(layout, [&](std::int64_t row, std::int64_t head, std::int64_t first) {
    const auto norm = [&](std::span<const double> x, const std::array<int, 2>& of) {
      return std::hypot(x[static_cast<std::size_t>(of[0])], x[static_cast<std::size_t>(of[1])]);
    };
    for (int i = 0; i < block.pairs && !motion.growth.empty(); ++i) {
      const int pair = motion.of(head, i);
      const double ratio = norm(sample.y(first), block.output(i)) / norm(sample.x(first), block.input(i));
      if (!std::isfinite(ratio) || ratio == 0) continue;
      const double g = motion.growth[static_cast<std::size_t>(pair)], p = g * motion.position_of(row, pair),
                   y = std::log(ratio / motion.factor);
      gg += g * g, gp += g * p, pp += p * p, gy += g * y, py += p * y;
    }
  });
  const double determinant = gg * pp - gp * gp;
  if (!(determinant > 1e-9 * gg * pp)) return std::nullopt;
  const auto tidy = [](double value, double steps, double near) {
    const double tidied = std::round(steps * value) / steps;
    return std::abs(value - tidied) < near ? tidied : value;
  };
  const double share = tidy((gg * py - gp * gy) / determinant, 8, 1e-3);
  if (std::abs(share) < 0.01) return std::nullopt;
  return Own{1, share, tidy((share * gp - gy) / gg / share, 2, 0.05)};
}

std::vector<Own> owns_of(const Rope& rope, const std::optional<Own>& measured) {
  std::vector<Own> list = {{}};
  for (const double share : {0.0, -1.0, 2.0}) {
    if (!rope.phase.empty() && rope.xpos.scale != 0) list.push_back({share, share});
    if (!rope.phase.empty()) list.push_back({share, 1});
    if (rope.xpos.scale != 0) list.push_back({1, share});
  }
  if (measured && (measured->amplitude != 1 || measured->center != rope.xpos.center)) list.push_back(*measured);
  return list;
}

// The sample without them, in pairs of that kind.
Sample without(const Own& own, const Sample& sample, const Subject& subject, const Layout& layout, Kind kind) {
  Block block = *asked_block(subject, sample.head_dim);
  block.kind = kind;
  Motion motion = ask(subject, block, layout).motion;
  std::ranges::fill(motion.speed, 0);
  for (double& phase : motion.phase) phase *= -own.phase;
  for (double& growth : motion.growth) growth *= -own.amplitude;
  motion.center = own.center.value_or(motion.center);
  motion.factor = 1;
  Sample bare = sample;
  std::vector<double> after = sample.after.copied();
  rotate(after, layout, block, motion);
  bare.after = std::move(after);
  return bare;
}

std::string words_of(const Own& own, const Subject& subject) {
  const bool key = subject.role == Role::key;
  const XPos& xpos = subject.used->rope.xpos;
  const std::string phase = own.phase == 0   ? "is rotated without the phase that the model asks"
                            : own.phase == 2 ? "is rotated with the phase twice"
                            : own.phase < 0  ? "is rotated with the phase in the other direction"
                                             : "";
  const std::string amplitude =
      own.amplitude == 0   ? "is rotated without xPos's amplitude"
      : own.amplitude == 2 ? "is multiplied by xPos's amplitude twice"
      : own.amplitude < 0  ? std::string("is multiplied by xPos's amplitude of ") +
                                (key ? "queries; of keys" : "keys; of queries") + " its inverse is asked"
      : own.amplitude != 1
          ? "is multiplied by xPos's amplitude of scale " + significant(xpos.scale / own.amplitude, 6) +
                "; the model asks " + significant(xpos.scale, 6)
      : own.center ? "is multiplied by xPos's amplitude around position " + significant(*own.center, 10) +
                         "; the model asks " + significant(xpos.center, 10)
                   : "";
  return phase + (phase.empty() || amplitude.empty() ? "" : "; and it ") + amplitude;
}

// The first tokens by a reading, at their positions.
struct Few {
  Few(const Sample& all, const Subject& subject_of_all, const Reading& reading, const Block& block) {
    Numbers rows(static_cast<std::size_t>(reading.layout.batch)),
        some(static_cast<std::size_t>(std::min<std::int64_t>(64, reading.layout.tokens)));
    std::iota(rows.begin(), rows.end(), 0);
    std::iota(some.begin(), some.end(), 0);
    subject = subject_of(subject_of_all, ask(subject_of_all, block, reading.layout), reading.layout, rows, some);
    subject.layout = reading.word;
    sample = all.part(reading, 1, some);
    layout = plausible_readings(sample, subject).front().layout;
  }
  // Without them, by the rope that has none. 0: as configured; 1: explained; 2: with noise; 3: not.
  int rank(const Own& own, Kind kind, const ModelRope& plain) const {
    Subject rest = subject;
    rest.used = &plain;
    const Answer answered = answer(without(own, sample, subject, layout, kind), rest, 0);
    const Verdict verdict = answered.diagnosis.verdict;
    if (!answered.explained || (own.phase != 1 && verdict == Verdict::cannot_tell)) return 3;
    return answered.diagnosis.facts.noise ? 2 : verdict == Verdict::as_configured ? 0 : 1;
  }
  Subject subject;
  Sample sample;
  Layout layout;
};

// Whether a fault of the whole rotation says the share too.
bool says(const Diagnosis& one, const Own& own, const Sample& sample, const Subject& subject) {
  const Verdict verdict = one.verdict;
  if (verdict == Verdict::offset && own.center && !one.facts.positions.empty()) {
    const Layout layout = plausible_readings(sample, subject).front().layout;
    const double moved = one.facts.positions[0][0] - expected_positions(layout, subject)[0][0];
    return std::abs(moved + *own.center - subject.used->rope.xpos.center) < 0.1;
  }
  const auto all = [&](double share) { return own.phase == share || own.amplitude == share; };
  return (verdict == Verdict::not_rotated && all(0)) || (verdict == Verdict::direction && own.phase == -1) ||
         (verdict == Verdict::twice && all(2));
}

}  // namespace

bool has_own_turns(const Rope& rope) { return !rope.phase.empty() || rope.xpos.scale != 0; }

Diagnosis diagnose_own_turns(const Sample& all, const Subject& subject) {
  ModelRope plain = *subject.used;
  plain.rope.phase.clear();
  plain.rope.xpos = {};
  const Block block = *asked_block(subject, all.head_dim);
  const bool halves = block.output(0)[1] != block.output(0)[0] + 1;
  const Kind own_kind = halves ? Kind::half : Kind::interleaved, other = halves ? Kind::interleaved : Kind::half;
  std::vector<Reading> readings = plausible_readings(all, subject);
  const int most = subject.plausibility(readings.front().layout);
  std::erase_if(readings, [&](const Reading& one) { return subject.plausibility(one.layout) < most; });
  Own chosen;
  Kind kind = own_kind;
  const Reading* by = &readings.front();
  int best = 3;  // 0: as configured; 1: without noise; 2: with it
  const auto choose = [&] {
    for (const Reading& reading : readings) {
      const Few few(all, subject, reading, block);
      for (const Own& own : owns_of(subject.used->rope, measured_amplitude(all, subject, reading.layout))) {
        for (const Kind of : {own_kind, other}) {
          const int rank = few.rank(own, of, plain);
          if (rank < best) chosen = own, kind = of, by = &reading, best = rank;
          if (best == 0) return;
        }
      }
    }
  };
  if (all.finite) choose();
  Subject rest = subject;
  rest.used = &plain;
  if (readings.size() > 1) rest.layout = by->word;
  Diagnosis one = diagnose(without(chosen, all, subject, by->layout, kind), rest, {});
  const std::string words = words_of(chosen, subject);
  if (words.empty() || says(one, chosen, all, subject)) return one;
  const bool right = one.verdict == Verdict::as_configured || one.verdict == Verdict::noise;
  one.sentence = all.name + " " + words + (right ? "" : "; and it" + one.sentence.substr(all.name.size()));
  if (right) one.verdict = chosen.phase != 1 ? Verdict::phase : Verdict::attention_factor;
  one.findings.insert(one.findings.begin(), words);
  return one;
}

}  // namespace rotary::diagnose
