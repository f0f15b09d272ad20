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
  const std::vector<Reading> readings = plausible_readings(all, subject);
  Reading longest = readings.front();
  for (const Reading& one : readings) {
    const bool as_likely = subject.plausibility(one.layout) == subject.plausibility(readings.front().layout);
    if (as_likely && one.layout.tokens > longest.layout.tokens) longest = one;
  }
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

}  // namespace rotary::diagnose
