// A tensor of many tokens, of which some are diagnosed first; and ropes with a phase or an amplitude.
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

// A rope's phase and xPos's amplitude are divided out, and the rest is diagnosed by the rope without them.
Diagnosis diagnose_own_turns(const Sample& all, const Subject& subject) {
  ModelRope plain = *subject.used;
  plain.rope.phase.clear();
  plain.rope.xpos = {};
  Subject of_rest = subject;
  const Reading reading = longest_reading(all, subject);
  of_rest.layout = reading.word;
  of_rest.used = &plain;
  const Block block = *asked_block(subject, all.head_dim);
  Motion motion = ask(subject, block, reading.layout).motion;
  std::ranges::fill(motion.speed, 0);
  for (double& phase : motion.phase) phase = -phase;
  for (double& growth : motion.growth) growth = -growth;
  motion.factor = 1;
  Sample rest = all;
  std::vector<double> after = all.after.copied();
  rotate(after, reading.layout, block.in_place(), motion);
  rest.after = std::move(after);
  Diagnosis one = diagnose(rest, of_rest, {});
  const auto is_offset = [](const Finding& of) { return of.verdict == Verdict::offset; };
  if (std::ranges::any_of(one.found, is_offset)) {  // at other positions xPos has another amplitude too
    std::erase_if(one.found, [&](const Finding& of) { return !is_offset(of); });
    one.verdict = Verdict::offset;
  }
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
  const Numbers tokens = some_tokens(reading.layout, compared.wrong);
  Numbers rows(static_cast<std::size_t>(reading.layout.batch));
  std::iota(rows.begin(), rows.end(), 0);
  Sample some = all.part(reading, 1, tokens);
  some.sampled = true;
  some.off = compared.off;
  Subject subject_of_some = part_of(subject, compared.asked, reading.layout, rows, tokens);
  subject_of_some.layout = reading.word;
  const Answer of_some = answer(some, subject_of_some);
  subject.step();
  if (!of_some.explained || !of_some.as_one) return of_some.diagnosis;
  const Answer every = answer_as_one(all.within(of_some.bounds), subject);
  return every.explained ? every.diagnosis : of_some.diagnosis;
}

}  // namespace rotary::diagnose
