// A tensor of many tokens, of which some are diagnosed first; and ropes with a phase or an amplitude of their own.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "examination.h"

namespace rotary::diagnose {

namespace {

constexpr std::int64_t few = 256;        // tokens that are all looked at
constexpr std::int64_t spread = 64;      // so many of them, evenly spread
constexpr std::int64_t together = 16;    // and so many in a row at both ends and in the middle
constexpr std::int64_t most_edges = 64;  // and beside so many places where what is wrong begins or ends

Numbers first_numbers(std::int64_t count) {
  Numbers all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// The likeliest reading, of several the one with the most tokens.
Reading longest_reading(const Sample& all, const Subject& subject) {
  const std::vector<Reading> readings = likeliest_readings(all, subject);
  return *std::ranges::max_element(readings, {}, [](const Reading& one) { return one.layout.tokens; });
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

// Some tokens of a sample, with the subject of their positions.
struct Some {
  Some(const Sample& all, const Subject& of_all, const Reading& reading, const Numbers& tokens)
      : subject(part_of(of_all, ask(of_all, *asked_block(of_all, all.head_dim), reading.layout), reading.layout,
                        first_numbers(reading.layout.batch), tokens)),
        sample(all.part(reading, 1, tokens)) {
    subject.layout = reading.word;
  }
  Subject subject;
  Sample sample;
};

// ---- ropes with a phase or xPos's amplitude ----------------------------------------------------

// The shares of the asked phase and of the logarithm of the asked amplitude that the tensor has.
struct Own {
  double phase = 1, amplitude = 1;
};

std::vector<Own> owns_of(const Rope& rope) {
  const bool phase = !rope.phase.empty(), amplitude = rope.xpos.scale != 0;
  std::vector<Own> list = {{}};
  for (const double share : {0.0, -1.0, 2.0}) {
    if (phase && amplitude) list.push_back({share, share});
    if (phase) list.push_back({share, 1});
    if (amplitude) list.push_back({1, share});
  }
  return list;
}

// The sample without them.
Sample without(const Own& own, const Sample& sample, const Subject& subject) {
  const Layout layout = plausible_readings(sample, subject).front().layout;
  const Block block = *asked_block(subject, sample.head_dim);
  Motion motion = ask(subject, block, layout).motion;
  std::ranges::fill(motion.speed, 0);
  for (double& phase : motion.phase) phase *= -own.phase;
  for (double& growth : motion.growth) growth *= -own.amplitude;
  motion.factor = 1;
  Sample bare = sample;
  std::vector<double> after = sample.after.copied();
  rotate(after, layout, block.in_place(), motion);
  bare.after = std::move(after);
  return bare;
}

std::vector<Finding> found_of(const Own& own, const Subject& subject) {
  std::vector<Finding> found;
  const auto add = [&](double share, Cause left_out, Cause twice, Cause reversed) {
    if (share != 1) found.push_back(finding(share == 0 ? left_out : share == 2 ? twice : reversed));
  };
  add(own.phase, Cause::phase_left_out, Cause::phase_twice, Cause::phase_reversed);
  add(own.amplitude, Cause::amplitude_left_out, Cause::amplitude_twice, Cause::amplitude_inverse);
  const bool key = subject.role == Role::k;
  if (own.amplitude == -1)
    found.back().numbers = {{"found", key ? "queries" : "keys"}, {"asked", key ? "keys" : "queries"}};
  return found;
}

// Whether a fault of the whole rotation says the share too.
bool says_share(Verdict verdict, const Own& own) {
  const auto any_is = [&](double share) { return own.phase == share || own.amplitude == share; };
  return (verdict == Verdict::not_rotated && any_is(0)) || (verdict == Verdict::direction && own.phase == -1) ||
         (verdict == Verdict::twice && any_is(2));
}

// Diagnoses by the rope without a phase and an amplitude, after the share of them that leaves the least unexplained.
Diagnosis diagnose_own_turns(const Sample& all, const Subject& subject) {
  ModelRope plain = *subject.used;
  plain.rope.phase.clear();
  plain.rope.xpos = {};
  Subject as_read = subject;
  const Reading reading = longest_reading(all, subject);
  as_read.layout = reading.word;
  const auto diagnose_without = [&](const Own& own, const Sample& sample, Subject of_sample, auto diagnose_rest) {
    const Sample rest = without(own, sample, of_sample);
    of_sample.used = &plain;
    return diagnose_rest(rest, of_sample);
  };
  // 0: as configured; 1: by one fault; 2: by several, or with noise; 3: not explained.
  const auto rank = [](const Answer& one) {
    if (!one.explained || one.diagnosis.verdict == Verdict::cannot_tell) return 3;
    if (one.diagnosis.verdict == Verdict::as_configured) return 0;
    return one.diagnosis.facts.noise || count_faults(one.diagnosis.found) > 1 ? 2 : 1;
  };
  Own chosen;
  const Some first(all, as_read, reading, first_numbers(std::min<std::int64_t>(64, reading.layout.tokens)));
  for (int best = 3; const Own& own : owns_of(subject.used->rope)) {
    if (!all.finite || best == 0) break;
    const int own_rank =
        rank(diagnose_without(own, first.sample, first.subject,
                              [](const Sample& rest, const Subject& of_rest) { return answer(rest, of_rest, 0); }));
    if (own_rank < best) chosen = own, best = own_rank;
  }
  Diagnosis one = diagnose_without(
      chosen, all, as_read, [](const Sample& rest, const Subject& of_rest) { return diagnose(rest, of_rest, {}); });
  const auto is_offset = [](const Finding& of) { return of.verdict == Verdict::offset; };
  if (std::ranges::any_of(one.found, is_offset)) {  // at other positions xPos has another amplitude too
    std::erase_if(one.found, [&](const Finding& of) { return !is_offset(of); });
    one.verdict = Verdict::offset;
  }
  std::vector<Finding> found = found_of(chosen, subject);
  if (found.empty() || says_share(one.verdict, chosen)) return one;
  const bool right = one.verdict == Verdict::as_configured || one.verdict == Verdict::noise;
  if (right) one.verdict = found.front().verdict;
  if (!right) std::ranges::move(one.found, std::back_inserter(found));
  one.found = std::move(found);
  return one;
}

}  // namespace

Diagnosis diagnose(const Sample& all, const Subject& subject, const std::vector<Compared>& known) {
  if (subject.used != nullptr && (!subject.used->rope.phase.empty() || subject.used->rope.xpos.scale != 0))
    return diagnose_own_turns(all, subject);
  if (!all.finite || !asked_block(subject, all.head_dim)) return answer(all, subject).diagnosis;
  const Reading reading = longest_reading(all, subject);
  if (reading.layout.tokens <= few) return answer(all, subject).diagnosis;
  const auto found = std::ranges::find(known, reading.word, [](const Compared& one) { return one.reading.word; });
  const Compared compared = found != known.end() ? *found : compare(all, reading, subject, std::nullopt);
  Some some(all, subject, reading, some_tokens(reading.layout, compared.wrong));
  some.sample.sampled = true;
  some.sample.off = compared.off;
  const Answer of_some = answer(some.sample, some.subject);
  subject.step();
  if (!of_some.explained || !of_some.as_one) return of_some.diagnosis;
  const Answer every = answer_as_one(all.within(of_some.bounds), subject);
  return every.explained ? every.diagnosis : of_some.diagnosis;
}

}  // namespace rotary::diagnose
