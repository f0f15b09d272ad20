// A tensor of many tokens: some of them are diagnosed first, and all only by what explains those.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "examination.h"

namespace rotary::diagnose {

namespace {

constexpr std::int64_t few = 256;        // tokens that are all looked at
constexpr std::int64_t spread = 64;      // of many, so many evenly spread
constexpr std::int64_t together = 16;    // and so many in a row at both ends and in the middle
constexpr std::int64_t most_edges = 64;  // and beside so many places where what is wrong begins or ends
constexpr std::int64_t chunk = 128;      // tokens that are tried together where all are not explained

// The likeliest reading, of several the one with the most tokens; none where there are few, or no rope is asked.
std::optional<Reading> long_reading(const Sample& all, const Subject& subject) {
  if (!all.finite || !asked_block(subject, all.head_dim)) return std::nullopt;
  const std::vector<Reading> readings = likeliest_readings(all, subject);
  const Reading& longest =
      *std::ranges::max_element(readings, {}, [](const Reading& one) { return one.layout.tokens; });
  return longest.layout.tokens > few ? std::optional(longest) : std::nullopt;
}

Numbers some_tokens(const Layout& layout, const std::vector<double>& wrong) {
  const std::int64_t count = layout.tokens;
  std::set<std::int64_t> some;
  for (std::int64_t i = 0; i < spread; ++i) some.insert(i * (count - 1) / (spread - 1));
  for (std::int64_t i = 0; i < together; ++i) some.insert({i, count / 2 + i, count - 1 - i});
  std::int64_t edges = 0;
  for (std::int64_t row = 1; row < std::ssize(wrong) && edges < most_edges; ++row) {
    const auto at = static_cast<std::size_t>(row);
    if (row % count == 0 || std::abs(wrong[at] - wrong[at - 1]) < 0.05) continue;
    some.insert({row % count - 1, row % count});
    ++edges;
  }
  return {some.begin(), some.end()};
}

// ---- ropes with a phase or xPos's amplitude ----------------------------------------------------

// What the tensor has of the asked phase and of the logarithm of the asked amplitude.
struct Own {
  double phase = 1, amplitude = 1;
  std::optional<double> center = {};  // another than that of the config
};

// The amplitude by the norms of the asked pairs.
std::optional<Own> measured_amplitude(const Sample& sample, const Subject& subject, const Layout& layout) {
  const Block block = *asked_block(subject, sample.head_dim);
  const Motion motion = ask(subject, block, layout).motion;
  TwoWeights sums;  // log ratio = share growth position - offset growth
  for_each_head(layout, [&](std::int64_t row, std::int64_t head, std::int64_t first) {
    const auto norm = [&](std::span<const double> x, const std::array<int, 2>& of) {
      return std::hypot(x[static_cast<std::size_t>(of[0])], x[static_cast<std::size_t>(of[1])]);
    };
    for (int i = 0; i < block.pairs && !motion.growth.empty(); ++i) {
      const int pair = motion.of(head, i);
      const double ratio = norm(sample.y(first), block.output(i)) / norm(sample.x(first), block.input(i));
      if (!std::isfinite(ratio) || ratio == 0) continue;
      const double growth = motion.growth[static_cast<std::size_t>(pair)];
      sums.add(growth * motion.position_of(row, pair), growth, std::log(ratio / motion.factor));
    }
  });
  if (!sums.solvable(1e-9)) return std::nullopt;
  const auto tidy = [](double value, double steps, double near) {
    const double tidied = std::round(steps * value) / steps;
    return std::abs(value - tidied) < near ? tidied : value;
  };
  const double share = tidy(sums.a(), 8, std::max(1e-3, 4 * sums.error(sums.qq)));
  if (std::abs(share) < 0.01) return std::nullopt;
  return Own{1, share, tidy((share * sums.pq - sums.qn) / sums.qq / share, 2, std::max(0.05, 4 * sums.error(sums.pp)))};
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

std::vector<Finding> found_of(const Own& own, const Subject& subject) {
  const auto of_share = [](double share, Cause none, Cause twice, Cause reversed) {
    return share == 0 ? none : share == 2 ? twice : reversed;
  };
  const XPos& xpos = subject.used->rope.xpos;
  std::vector<Finding> found;
  if (own.phase != 1)
    found = {finding(of_share(own.phase, Cause::phase_left_out, Cause::phase_twice, Cause::phase_reversed))};
  if (own.amplitude < 0) {
    const bool key = subject.role == Role::k;
    found.push_back(
        finding(Cause::amplitude_inverse, {{"found", key ? "queries" : "keys"}, {"asked", key ? "keys" : "queries"}}));
  } else if (own.amplitude == 0 || own.amplitude == 2) {
    found.push_back(finding(own.amplitude == 0 ? Cause::amplitude_left_out : Cause::amplitude_twice));
  } else if (own.amplitude != 1) {
    found.push_back(
        finding(Cause::amplitude_scale, {{"found", xpos.scale / own.amplitude, 6}, {"asked", xpos.scale, 6}}));
  } else if (own.center) {
    found.push_back(finding(Cause::amplitude_center, {{"found", *own.center, 10}, {"asked", xpos.center, 10}}));
  }
  return found;
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
  // Without them, by the rope that has none. 0: as configured; 1: by one fault; 2: by several, or with noise; 3: not.
  int rank(const Own& own, Kind kind, const ModelRope& plain) const {
    Subject rest = subject;
    rest.used = &plain;
    const Answer answered = answer(without(own, sample, subject, layout, kind), rest, 0);
    const Verdict verdict = answered.diagnosis.verdict;
    if (!answered.explained || (own.phase != 1 && verdict == Verdict::cannot_tell)) return 3;
    if (verdict == Verdict::as_configured) return 0;
    return answered.diagnosis.facts.noise || count_faults(answered.diagnosis.found) > 1 ? 2 : 1;
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

Diagnosis diagnose(const Sample& all, const Subject& subject, const std::vector<Compared>& known) {
  if (subject.used != nullptr && has_own_turns(subject.used->rope)) return diagnose_own_turns(all, subject);
  const std::optional<Reading> reading = long_reading(all, subject);
  if (!reading) return answer(all, subject).diagnosis;
  const auto found = std::ranges::find(known, reading->word, [](const Compared& one) { return one.reading.word; });
  const Compared compared = found != known.end() ? *found : compare(all, *reading, subject, std::nullopt);
  const Layout& layout = reading->layout;
  Numbers rows(static_cast<std::size_t>(layout.batch));
  std::iota(rows.begin(), rows.end(), 0);
  const auto answer_of = [&](const Bounds& bounds, const Numbers& tokens, auto answer_by) {
    Sample part = all.within(bounds).part(*reading, 1, tokens);
    part.sampled = true;
    part.off = compared.off;
    return answer_by(part, subject_of(subject, compared.asked, layout, rows, tokens));
  };
  const auto with_parts = [](const Sample& part, const Subject& of_part) { return answer(part, of_part); };
  const Numbers numbers = some_tokens(layout, compared.wrong);
  const Answer some = answer_of(all, numbers, with_parts);
  subject.step();
  if (!some.explained || !some.as_one) return some.diagnosis;
  const Answer every = answer_as_one(all.within(some.bounds), subject);
  if (every.explained) return every.diagnosis;
  // What explains some does not explain all: the tokens that it does not, beside the others.
  std::set<std::int64_t> more(numbers.begin(), numbers.end());
  for (std::int64_t begin = 0; begin < layout.tokens && std::ssize(more) < 2 * few; begin += chunk) {
    Numbers piece(static_cast<std::size_t>(std::min(chunk, layout.tokens - begin)));
    std::iota(piece.begin(), piece.end(), begin);
    if (!answer_of(some.bounds, piece, answer_as_one).explained) more.insert(piece.begin(), piece.end());
  }
  return answer_of(all, {more.begin(), more.end()}, with_parts).diagnosis;
}

bool has_own_turns(const Rope& rope) { return !rope.phase.empty() || rope.xpos.scale != 0; }

Diagnosis diagnose_own_turns(const Sample& all, const Subject& subject) {
  ModelRope plain = *subject.used;
  plain.rope.phase.clear();
  plain.rope.xpos = {};
  const Block block = *asked_block(subject, all.head_dim);
  const bool halves = block.output(0)[1] != block.output(0)[0] + 1;
  const Kind own_kind = halves ? Kind::half : Kind::interleaved, other = halves ? Kind::interleaved : Kind::half;
  const std::vector<Reading> readings = likeliest_readings(all, subject);
  Own chosen;
  Kind kind = own_kind;
  const Reading* by = &readings.front();
  int best = 3;  // rank
  const auto choose = [&] {
    for (const Reading& reading : readings) {
      const Few first(all, subject, reading, block);
      for (const Own& own : owns_of(subject.used->rope, measured_amplitude(all, subject, reading.layout))) {
        for (const Kind of : {own_kind, other}) {
          const int rank = first.rank(own, of, plain);
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
  std::vector<Finding> found = found_of(chosen, subject);
  if (found.empty() || says(one, chosen, all, subject)) return one;
  const bool right = one.verdict == Verdict::as_configured || one.verdict == Verdict::noise;
  if (right) one.verdict = chosen.phase != 1 ? Verdict::phase : Verdict::attention_factor;
  if (!right) std::ranges::move(one.found, std::back_inserter(found));
  one.found = std::move(found);
  return one;
}

}  // namespace rotary::diagnose
