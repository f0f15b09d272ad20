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

void take(Largest& largest, const CosSin& value, const ExactCosSin& exact, const Position& position, std::size_t pair) {
  const double cos_error = distance(static_cast<double>(value.cos), exact.cos);
  const double sin_error = distance(static_cast<double>(value.sin), exact.sin);
  const double error = std::max(cos_error, sin_error);
  if (error > largest.error) largest = {error, position, static_cast<int>(pair), sin_error > cos_error};
}

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

// A way that has a row at every position of the decade.
struct RunningWay {
  Rows rows;
  Largest largest = {};
  Kept kept = {};

  bool rotates() const noexcept { return rows.way() == Way::running_rotation; }
};

// Consecutive positions, for one thread, and the largest error of each way there.
struct Chunk {
  std::size_t begin = 0, end = 0;
  std::vector<Largest> largest = {};
};

class DecadeOfWays {
 public:
  DecadeOfWays(const Subject& subject, const Decade& decade, std::span<const Way> ways)
      : subject_(subject), positions_(decade.positions), kept_row_(kept_rows(positions_.size(), width())) {
    const auto kept = static_cast<std::size_t>(*std::max_element(kept_row_.begin(), kept_row_.end()) + 1);
    exact_.resize(kept * width());
    for (const Way way : ways) {
      const Rows rows(subject, way);
      const bool runs =
          std::all_of(positions_.begin(), positions_.end(), [&](const Position& one) { return rows.has(one); });
      number_.push_back(runs ? static_cast<std::ptrdiff_t>(ways_.size()) : -1);
      if (runs) ways_.push_back({.rows = rows, .kept = Kept(exact_.size())});
    }
    check_angles();
  }

  // The positions [begin, end), on all threads.
  void measure(std::size_t begin, std::size_t end, const Executor& executor) {
    rotate(begin, end);
    chunks_.clear();
    for (std::size_t at = begin; at < end; at += chunk_positions) {
      chunks_.push_back({at, std::min(at + chunk_positions, end), std::vector<Largest>(ways_.size())});
    }
    const auto work = [](void* self, std::int64_t first, std::int64_t last) {
      auto& all = *static_cast<DecadeOfWays*>(self);
      for (std::int64_t k = first; k < last; ++k) all.run(all.chunks_[static_cast<std::size_t>(k)]);
    };
    executor.run(static_cast<std::int64_t>(chunks_.size()), 1, work, this);
    for (std::size_t way = 0; way < ways_.size(); ++way) {
      for (const Chunk& chunk : chunks_) {
        if (chunk.largest[way].error > ways_[way].largest.error) ways_[way].largest = chunk.largest[way];
      }
    }
  }

  DecadeErrors errors(std::size_t way) const {
    if (number_[way] < 0) return {};
    const RunningWay& found = ways_[static_cast<std::size_t>(number_[way])];
    return {found.largest, score_errors(exact_, found.kept, subject_)};
  }

 private:
  static constexpr std::size_t chunk_positions = 64;

  std::size_t width() const { return subject_.inv_freq.size(); }

  // Throws POSITION: an angle that overflows float32 anywhere does so at the position of the largest magnitude.
  void check_angles() const {
    std::vector<CosSin> row(width());
    for (const RunningWay& way : ways_) {
      for (const Position& position : {positions_.front(), positions_.back()}) {
        if (!way.rotates()) way.rows.write(Basis(subject_, position), row);
      }
    }
  }

  // running_rotation needs the positions in their order: its rows are made beforehand.
  void rotate(std::size_t begin, std::size_t end) {
    first_rotated_ = begin;
    for (RunningWay& way : ways_) {
      if (!way.rotates()) continue;
      rotated_.resize((end - begin) * width());
      for (std::size_t k = begin; k < end; ++k) way.rows.rotate_to(positions_[k], rotated_row(k));
    }
  }
  std::span<CosSin> rotated_row(std::size_t k) {
    return std::span(rotated_).subspan((k - first_rotated_) * width(), width());
  }

  void run(Chunk& chunk) {
    std::vector<CosSin> written(width());
    for (std::size_t k = chunk.begin; k < chunk.end; ++k) {
      const Basis basis(subject_, positions_[k]);
      for (std::size_t i = 0; kept_row_[k] >= 0 && i < width(); ++i) {
        exact_[kept_entry(k, i)] = {basis.exact[i].cos.high, basis.exact[i].sin.high};
      }
      for (std::size_t way = 0; way < ways_.size(); ++way) {
        if (!ways_[way].rotates()) ways_[way].rows.write(basis, written);
        judge(ways_[way], k, basis, ways_[way].rotates() ? rotated_row(k) : written, chunk.largest[way]);
      }
    }
  }

  void judge(RunningWay& way, std::size_t k, const Basis& basis, std::span<const CosSin> row, Largest& largest) const {
    for (std::size_t i = 0; i < width(); ++i) {
      take(largest, row[i], basis.exact[i], basis.position, i);
      if (kept_row_[k] < 0) continue;
      way.kept[kept_entry(k, i)] = {static_cast<double>(row[i].cos), static_cast<double>(row[i].sin)};
    }
  }
  std::size_t kept_entry(std::size_t k, std::size_t pair) const {
    return static_cast<std::size_t>(kept_row_[k]) * width() + pair;
  }

  const Subject& subject_;
  const std::vector<Position>& positions_;
  std::vector<std::ptrdiff_t> kept_row_;
  std::vector<std::ptrdiff_t> number_;  // of each way, in ways_; -1: it has no row at one of the positions
  std::vector<RunningWay> ways_;
  Kept exact_;
  std::size_t first_rotated_ = 0;
  std::vector<CosSin> rotated_;  // rows of running_rotation, of the positions that are measured now
  std::vector<Chunk> chunks_;
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
  Largest largest;
  take(largest, value, exact_cos_sin(position, subject.inv_freq[pair], factor), position, pair);
  return largest.error > tolerance;
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

std::vector<WayErrors> measure(const Subject& subject, std::span<const Way> ways, const std::vector<Decade>& decades,
                               const Executor& executor, const std::function<void(std::int64_t)>& done) {
  constexpr std::size_t batch_entries = std::size_t{1} << 18;
  const std::size_t batch = std::max<std::size_t>(1, batch_entries / subject.inv_freq.size());
  std::vector<WayErrors> result;
  for (const Way way : ways) result.push_back({way, {}});
  std::int64_t measured = 0;
  for (const Decade& decade : decades) {
    DecadeOfWays all(subject, decade, ways);
    const std::size_t count = decade.positions.size();
    for (std::size_t begin = 0; begin < count; begin += batch) {
      const std::size_t end = std::min(begin + batch, count);
      all.measure(begin, end, executor);
      measured += static_cast<std::int64_t>(end - begin);
      if (done) done(measured);
    }
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
