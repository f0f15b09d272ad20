#include "runtime/arithmetic.h"

#include "measure.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <utility>

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

Largest error_of(const CosSin& value, const ExactCosSin& exact, const Position& position, std::size_t pair) {
  const double cos_error = distance(static_cast<double>(value.cos), exact.cos);
  const double sin_error = distance(static_cast<double>(value.sin), exact.sin);
  return {std::max(cos_error, sin_error), position, static_cast<int>(pair), sin_error > cos_error};
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
// phases of its own, so the mean square of the score's error is the sum of (2 / head_dim)^2 |error of the pair|^2 / 2.
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
  const double mean = sum / static_cast<double>(pairs.size());
  return ScoreErrors{std::sqrt(largest), std::sqrt(2 * mean) / subject.head_dim};
}

// ---- one decade ----

// The largest error of a way, at the first of the positions that have it.
struct Peak {
  Largest largest = {};
  std::size_t at = 0;  // in the decade's positions

  void take(const Peak& other) {
    const bool first = other.largest.error == largest.error && other.at < at;
    if (other.largest.error > largest.error || first) *this = other;
  }
};

struct MeasuredWay {
  Way way = Way::exact;
  std::vector<Peak> peaks = {};  // of each pair; empty: the way has no row at one of the positions
  Kept kept = {};
};

class DecadeOfWays {
 public:
  // Throws POSITION: an angle that overflows float32 anywhere does so at the position of the largest magnitude.
  DecadeOfWays(const Subject& subject, const Decade& decade)
      : subject_(subject), positions_(decade.positions), kept_row_(kept_rows(positions_.size(), width())) {
    const auto kept = static_cast<std::size_t>(*std::max_element(kept_row_.begin(), kept_row_.end()) + 1);
    exact_.resize(kept * width());
    for (const WayInfo& known : all_ways()) {
      MeasuredWay& way = ways_.emplace_back();
      way.way = known.way;
      const auto has = [&](const Position& position) { return has_row(subject, known.way, position); };
      if (!std::all_of(positions_.begin(), positions_.end(), has)) continue;
      way.peaks.resize(width());
      way.kept.resize(exact_.size());
      if (known.way != Way::running_rotation) errors_at(subject, known.way, {positions_.front(), positions_.back()});
    }
  }

  // The pairs [first, last), on all threads.
  void measure(std::size_t first, std::size_t last, const Executor& executor) {
    first_ = first;
    const auto work = [](void* self, std::int64_t begin, std::int64_t end) {
      auto& all = *static_cast<DecadeOfWays*>(self);
      all.run(all.first_ + static_cast<std::size_t>(begin), all.first_ + static_cast<std::size_t>(end));
    };
    executor.run(static_cast<std::int64_t>(last - first), 1, work, this);
  }

  DecadeErrors errors(std::size_t way) const {
    const MeasuredWay& found = ways_[way];
    if (found.peaks.empty()) return {};
    Peak peak;
    for (const Peak& of_pair : found.peaks) peak.take(of_pair);
    return {peak.largest, score_errors(exact_, found.kept, subject_)};
  }

 private:
  std::size_t width() const { return subject_.inv_freq.size(); }

  void run(std::size_t first, std::size_t last) {
    Rows rows(subject_, first, last);
    for (std::size_t k = 0; k < positions_.size(); ++k) {
      rows.go_to(positions_[k]);
      for (std::size_t pair = first; pair < last; ++pair) {
        const ExactCosSin& exact = rows.exact(pair);
        const bool keeps = kept_row_[k] >= 0;
        const std::size_t kept = keeps ? static_cast<std::size_t>(kept_row_[k]) * width() + pair : 0;
        if (keeps) exact_[kept] = {exact.cos.high, exact.sin.high};
        for (MeasuredWay& way : ways_) {
          if (way.peaks.empty()) continue;
          const CosSin value = rows.value(way.way, pair);
          way.peaks[pair].take({error_of(value, exact, positions_[k], pair), k});
          if (keeps) way.kept[kept] = {static_cast<double>(value.cos), static_cast<double>(value.sin)};
        }
      }
    }
  }

  const Subject& subject_;
  const std::vector<Position>& positions_;
  std::vector<std::ptrdiff_t> kept_row_;
  Kept exact_;
  std::vector<MeasuredWay> ways_;  // all
  std::size_t first_ = 0;          // of the pairs that are measured now
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
  constexpr std::size_t slice_entries = std::size_t{1} << 18;
  const std::size_t pairs = subject.inv_freq.size();
  std::vector<WayErrors> result;
  for (const WayInfo& way : all_ways()) result.push_back({way.way, {}});
  std::size_t measured = 0;
  for (const Decade& decade : decades) {
    DecadeOfWays all(subject, decade);
    const std::size_t count = decade.positions.size(), slice = std::max<std::size_t>(1, slice_entries / count);
    for (std::size_t first = 0; first < pairs; first += slice) {
      const std::size_t last = std::min(first + slice, pairs);
      all.measure(first, last, executor);
      if (done) done(static_cast<std::int64_t>(measured + count * last / pairs));
    }
    measured += count;
    for (std::size_t way = 0; way < result.size(); ++way) result[way].decades.push_back(all.errors(way));
  }
  return result;
}

Reach float32_reach(const Subject& subject, double tolerance, std::int64_t most, std::int64_t most_entries) {
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
