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

using Numbers = std::vector<std::int64_t>;

// The tokens of a sample: a dimension of its shape.
struct Tokens {
  Reading reading;
  std::size_t dimension = 0;
  Asked asked;
};

// By the likeliest reading, of several the one with the most tokens; none where there are few, or no rope is asked.
std::optional<Tokens> tokens_of(const Sample& all, const Subject& subject) {
  const auto block = asked_block(subject, all.head_dim);
  if (!block) return std::nullopt;
  const std::vector<Reading> readings = plausible_readings(all, subject);
  const Reading* longest = &readings.front();
  for (const Reading& one : readings) {
    const bool as_likely = subject.plausibility(one.layout) == subject.plausibility(readings.front().layout);
    if (as_likely && one.layout.tokens > longest->layout.tokens) longest = &one;
  }
  const std::size_t dimension = longest->word.find('t');
  if (longest->layout.tokens <= few || dimension >= all.shape.size() ||
      all.shape[dimension] != longest->layout.tokens) {
    return std::nullopt;
  }
  return Tokens{*longest, dimension, ask(*subject.used, *block, subject, expected_positions(longest->layout, subject))};
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

Sample part_of(const Sample& all, std::size_t dimension, const Numbers& numbers) {
  Sample part = all.without_elements();
  part.shape[dimension] = std::ssize(numbers);
  std::int64_t outer = 1, inner = 1;
  for (std::size_t d = 0; d < all.shape.size(); ++d)
    (d < dimension ? outer : inner) *= d == dimension ? 1 : all.shape[d];
  for (std::int64_t o = 0; o < outer; ++o) {
    for (const std::int64_t number : numbers) {
      const auto begin = (o * all.shape[dimension] + number) * inner;
      part.before.insert(part.before.end(), all.before.begin() + begin, all.before.begin() + begin + inner);
      part.after.insert(part.after.end(), all.after.begin() + begin, all.after.begin() + begin + inner);
    }
  }
  part.numbers[1] = numbers;
  part.sampled = true;
  return part;
}

}  // namespace

Diagnosis diagnose(Sample& all, const Subject& subject) {
  if (!all.finite) return answer(all, subject).diagnosis;
  const std::optional<Tokens> tokens = tokens_of(all, subject);
  if (!tokens) return answer(all, subject).diagnosis;
  const Layout& layout = tokens->reading.layout;
  Numbers rows(static_cast<std::size_t>(layout.batch));
  std::iota(rows.begin(), rows.end(), 0);
  const auto of_some = [&](const Numbers& some) { return subject_of(subject, tokens->asked, layout, rows, some); };
  const Numbers numbers = some_tokens(layout, wrongness_of_rows(all, tokens->reading, tokens->asked));
  const Answer some = answer(part_of(all, tokens->dimension, numbers), of_some(numbers));
  subject.step();
  if (!some.explained || !some.as_one) return some.diagnosis;
  const double unit = all.unit, least = all.least;
  all.noise = some.noise;
  if (some.loose) all.loosen();
  const Answer every = answer_as_one(all, subject);
  all.noise = {};
  all.loose = false;
  all.unit = unit;
  all.least = least;
  if (every.explained) return every.diagnosis;
  // What explains some does not explain all: the tokens that it does not, beside the others.
  std::set<std::int64_t> more(numbers.begin(), numbers.end());
  for (std::int64_t begin = 0; begin < layout.tokens && std::ssize(more) < 2 * few; begin += chunk) {
    Numbers piece;
    for (std::int64_t t = begin; t < std::min(begin + chunk, layout.tokens); ++t) piece.push_back(t);
    Sample part = part_of(all, tokens->dimension, piece);
    part.noise = some.noise;
    if (some.loose) part.loosen();
    if (!answer_as_one(part, of_some(piece)).explained) more.insert(piece.begin(), piece.end());
  }
  const Numbers with_more(more.begin(), more.end());
  return answer(part_of(all, tokens->dimension, with_more), of_some(with_more)).diagnosis;
}

}  // namespace rotary::diagnose
