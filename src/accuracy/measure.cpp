#include "runtime/arithmetic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>

#include "ways.h"

namespace rotary::accuracy {

namespace {

// ---- decades ----

constexpr std::int64_t largest_position = std::numeric_limits<std::int64_t>::max();

Decade next(const Decade& before) {
  Decade decade{before.last + 1, largest_position};
  if (decade.first <= largest_position / 10) decade.last = decade.first * 10 - 1;
  return decade;
}

std::vector<Position> sample(const Decade& decade) {
  std::vector<std::int64_t> chosen;
  const std::int64_t count = decade.last - decade.first + 1;
  if (decade.last < all_below) {
    for (std::int64_t p = decade.first; p <= decade.last; ++p) chosen.push_back(p);
    return {chosen.begin(), chosen.end()};
  }
  for (std::int64_t k = 0; k < spread; ++k) {
    chosen.push_back(decade.first + count / spread * k);
    chosen.push_back(decade.last - k);
  }
  for (int bit = 0; bit < 63; ++bit) {
    const std::int64_t power = std::int64_t{1} << bit;
    for (const std::int64_t p : {power - 1, power, power + 1}) {
      if (p >= decade.first && p <= decade.last) chosen.push_back(p);
    }
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return {chosen.begin(), chosen.end()};
}

// ---- errors ----

using Complex = std::complex<double>;

Complex conjugate_product(const Complex& a, const Complex& b) noexcept {
  return {a.real() * b.real() + a.imag() * b.imag(), a.imag() * b.real() - a.real() * b.imag()};
}

// The scores of a decade are measured at no more than score_positions of its positions, which divide them evenly. Up to
// score_all_pairs positions, each m is compared with each n; more, each with score_partners others at random, the same
// in every run.
constexpr std::size_t score_positions = 512;
constexpr std::size_t score_all_pairs = 64;
constexpr std::size_t score_partners = 4;
// Positions times pairs that are kept for the scores of a decade: fewer positions where a rope has over 2048 pairs.
constexpr std::size_t score_entries = std::size_t{1} << 20;

// Of each position its row among those whose scores are compared, or -1: at most score_positions, and of a rope of very
// many pairs no more rows than fit score_entries; the first and the last position among them.
std::vector<std::ptrdiff_t> kept_rows(std::size_t count, std::size_t pairs) {
  const std::size_t most = std::min(count, std::clamp<std::size_t>(score_entries / pairs, 2, score_positions));
  std::vector<std::ptrdiff_t> rows(count, -1);
  for (std::size_t k = 0; k < most; ++k) rows[most == 1 ? 0 : k * (count - 1) / (most - 1)] = 0;
  std::ptrdiff_t next = 0;
  for (std::ptrdiff_t& row : rows) row = row < 0 ? row : next++;
  return rows;
}

std::vector<std::pair<std::size_t, std::size_t>> score_pairs(std::size_t count) {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;
  if (count <= score_all_pairs) {
    for (std::size_t m = 0; m < count; ++m) {
      for (std::size_t n = 0; n < m; ++n) pairs.emplace_back(m, n);
    }
    return pairs;
  }
  std::uint64_t state = 18;
  for (std::size_t m = 0; m < count; ++m) {
    for (std::size_t k = 0; k < score_partners; ++k) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      const auto n = static_cast<std::size_t>((state >> 33) % (count - 1));
      pairs.emplace_back(m, n < m ? n : n + 1);
    }
  }
  return pairs;
}

// [row][pair] of z = cos + i sin.
using Kept = std::vector<Complex>;

// q and k of uniform direction in `head_dim` dimensions: a pair holds a share 2 / head_dim of the square of each, with
// phases of its own, so the mean square of the score's error is the sum of (2 / head_dim)^2 |error of the pair|^2 / 2;
// of several rows their mean.
std::optional<ScoreErrors> score_errors(const Kept& exact, const Kept& way, const Subject& subject) {
  const std::size_t width = subject.inv_freq.size();
  const auto pairs = score_pairs(exact.size() / width);
  if (pairs.empty()) return std::nullopt;
  double largest = 0, sum = 0;
  for (const auto& [m, n] : pairs) {
    for (std::size_t i = 0; i < width; ++i) {
      const std::size_t a = m * width + i, b = n * width + i;
      const double square = std::norm(conjugate_product(way[a], way[b]) - conjugate_product(exact[a], exact[b]));
      largest = std::max(largest, square);
      sum += square;
    }
  }
  const double mean = sum / static_cast<double>(pairs.size() * subject.rows);
  return ScoreErrors{std::sqrt(largest), std::sqrt(2 * mean) / subject.head_dim};
}

// ---- one decade ----

// Calls body(i) for each i < count, on all threads.
template <class Body>
void for_each(const Executor& executor, std::size_t count, Body body) {
  const auto run = [](void* self, std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) (*static_cast<Body*>(self))(static_cast<std::size_t>(i));
  };
  executor.run(static_cast<std::int64_t>(count), 1, run, &body);
}

struct MeasuredWay {
  WayRows rows;
  bool is_run;           // it has a row at all of the positions
  Largest largest = {};  // at the first of the positions that have it
  Kept kept = {};
};

class DecadeOfWays {
 public:
  // Throws POSITION: an angle that overflows float32 anywhere does so at the position of the largest magnitude.
  DecadeOfWays(const Subject& subject, const Decade& decade)
      : subject_(subject), positions_(decade.positions), kept_row_(kept_rows(positions_.size(), width())) {
    const auto kept = static_cast<std::size_t>(*std::max_element(kept_row_.begin(), kept_row_.end()) + 1);
    exact_.resize(kept * width());
    const std::array<SharedRow, 2> ends = {SharedRow(subject, positions_.front()),
                                           SharedRow(subject, positions_.back())};
    for (const WayInfo& known : all_ways()) {
      const auto has = [&](const Position& position) { return has_row(subject, known.way, position); };
      const bool is_run = std::all_of(positions_.begin(), positions_.end(), has);
      MeasuredWay& way = ways_.emplace_back(MeasuredWay{{subject, known.way}, is_run});
      if (!is_run) continue;
      way.kept.resize(exact_.size());
      if (known.way == Way::running_rotation) continue;
      for (const SharedRow& end : ends) way.rows.at(end);
    }
  }

  // The positions [first, last): what all ways share, a position on each thread; then a way on each.
  void measure(std::size_t first, std::size_t last, const Executor& executor) {
    shared_.resize(last - first);
    for_each(executor, shared_.size(), [&](std::size_t k) { shared_[k] = SharedRow(subject_, positions_[first + k]); });
    for (std::size_t k = 0; k < shared_.size(); ++k) {
      Complex* kept = kept_at(exact_, first + k);
      for (std::size_t i = 0; kept != nullptr && i < width(); ++i)
        kept[i] = {shared_[k].exact[i].cos.high, shared_[k].exact[i].sin.high};
    }
    for_each(executor, ways_.size(), [&](std::size_t way) { measure(ways_[way], first); });
  }

  DecadeErrors errors(std::size_t index) const {
    const MeasuredWay& way = ways_[index];
    if (!way.is_run) return {};
    Largest largest = way.largest;
    largest.pair %= static_cast<int>(width() / subject_.rows);
    return {largest, score_errors(exact_, way.kept, subject_)};
  }

 private:
  std::size_t width() const { return subject_.inv_freq.size(); }

  // The kept row of a position; nullptr: none is kept.
  Complex* kept_at(Kept& rows, std::size_t position) const {
    const std::ptrdiff_t row = kept_row_[position];
    return row < 0 ? nullptr : &rows[static_cast<std::size_t>(row) * width()];
  }

  void measure(MeasuredWay& way, std::size_t first) const {
    for (std::size_t k = 0; way.is_run && k < shared_.size(); ++k) {
      const std::vector<CosSin>& row = way.rows.at(shared_[k]);
      Complex* kept = kept_at(way.kept, first + k);
      for (std::size_t i = 0; i < row.size(); ++i) {
        const Largest error = error_of(row[i], shared_[k].exact[i], shared_[k].position, i);
        if (error.error > way.largest.error) way.largest = error;
        if (kept != nullptr) kept[i] = {static_cast<double>(row[i].cos), static_cast<double>(row[i].sin)};
      }
    }
  }

  const Subject& subject_;
  const std::vector<Position>& positions_;
  std::vector<std::ptrdiff_t> kept_row_;
  Kept exact_;
  std::vector<SharedRow> shared_;  // of the positions that are measured now
  std::vector<MeasuredWay> ways_;  // all
};

// ---- how far float32 reaches ----

// A position below which no entry of a pair can be off by the tolerance.
struct Begin {
  std::int64_t position = 0;
  std::size_t pair = 0;
};

// Those of the pairs that can be off at all up to `most`, rising. The angle is off by what inv_freq is off, times the
// position, and by two roundings, of the position and of the product; cos and sin by two more and the factor's. Up to
// 2^24 the product with a power of two is exact.
std::vector<Begin> begins_of(const Subject& subject, double tolerance, std::int64_t most) {
  std::vector<Begin> begins;
  const double allowed = tolerance / std::fabs(subject.attention_factor) - 0x1p-21;
  for (std::size_t i = 0; i < subject.inv_freq.size(); ++i) {
    const double w = std::fabs(subject.inv_freq[i]);
    const double off = std::fabs(static_cast<double>(subject.inv_freq_float32[i]) - subject.inv_freq[i]);
    int exponent = 0;
    const bool is_exact =
        most <= std::int64_t{1} << 24 && std::frexp(std::fabs(subject.inv_freq_float32[i]), &exponent) == 0.5F;
    const double first = allowed / (off + (is_exact ? 0 : w * 0x1p-22));  // infinite: never
    if (first <= static_cast<double>(most)) begins.push_back({static_cast<std::int64_t>(std::max(0.0, first)), i});
  }
  std::sort(begins.begin(), begins.end(), [](const Begin& a, const Begin& b) { return a.position < b.position; });
  return begins;
}

// Whether an entry is off by more than the tolerance. The double angle is off by a part in 2^52 of it, and tells unless
// the error is near the tolerance.
bool exceeds(const Subject& subject, std::int64_t position, std::size_t pair, double tolerance) {
  const CosSin value = float32_product(subject, position, pair);
  const double factor = subject.attention_factor;
  const double angle = static_cast<double>(position) * subject.inv_freq[pair];
  const double error = std::max(std::fabs(static_cast<double>(value.cos) - factor * std::cos(angle)),
                                std::fabs(static_cast<double>(value.sin) - factor * std::sin(angle)));
  const double doubt = factor * (std::fabs(angle) * 0x1p-51 + 0x1p-50);
  if (error + doubt <= tolerance) return false;
  if (error - doubt > tolerance) return true;
  return error_of(value, exact_cos_sin(position, subject.inv_freq[pair], factor), position, pair).error > tolerance;
}

}  // namespace

std::vector<Decade> default_decades(std::int64_t last) {
  std::vector<Decade> decades;
  for (Decade decade;; decade = next(decade)) {
    decades.push_back(decade);
    decades.back().positions = sample(decade);
    if (decade.last >= last) return decades;
  }
}

std::vector<Decade> decades_of(std::vector<Position> positions) {
  std::stable_sort(positions.begin(), positions.end(),
                   [](const Position& a, const Position& b) { return a.magnitude() < b.magnitude(); });
  std::vector<Decade> decades;
  Decade decade;
  for (const Position& position : positions) {
    // -2^63 is one beyond the last decade's end, and belongs to it.
    while (decade.last != largest_position && position.magnitude() > static_cast<std::uint64_t>(decade.last))
      decade = next(decade);
    if (decades.empty() || decades.back().first != decade.first) decades.push_back(decade);
    decades.back().positions.push_back(position);
  }
  return decades;
}

std::vector<WayErrors> measure(const Subject& subject, const std::vector<Decade>& decades, const Executor& executor,
                               const std::function<void(std::int64_t)>& done) {
  constexpr std::size_t entries_at_once = std::size_t{1} << 14;
  const std::size_t block = std::max<std::size_t>(1, entries_at_once / subject.inv_freq.size());
  std::vector<WayErrors> result;
  for (const WayInfo& way : all_ways()) result.push_back({way.way, {}});
  std::int64_t measured = 0;
  for (const Decade& decade : decades) {
    DecadeOfWays all(subject, decade);
    for (std::size_t first = 0, last = 0; first < decade.positions.size(); first = last) {
      last = std::min(first + block, decade.positions.size());
      all.measure(first, last, executor);
      measured += static_cast<std::int64_t>(last - first);
      if (done) done(measured);
    }
    for (std::size_t way = 0; way < result.size(); ++way) result[way].decades.push_back(all.errors(way));
  }
  return result;
}

Reach float32_reach(const Subject& subject, double tolerance, std::int64_t most) {
  constexpr std::int64_t most_entries = std::int64_t{1} << 24;
  const std::vector<Begin> begins = begins_of(subject, tolerance, most);
  if (begins.empty()) return {most, true};
  std::size_t pairs = 0;
  std::int64_t entries = 0;
  for (std::int64_t p = begins.front().position; p <= most; ++p) {
    while (pairs < begins.size() && begins[pairs].position <= p) ++pairs;
    entries += static_cast<std::int64_t>(pairs);
    if (entries > most_entries) return {p - 1, true};
    for (std::size_t k = 0; k < pairs; ++k) {
      if (exceeds(subject, p, begins[k].pair, tolerance)) return {p - 1, false};
    }
  }
  return {most, true};
}

}  // namespace rotary::accuracy
