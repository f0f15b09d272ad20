#include "runtime/arithmetic.h"

#include "measure.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <exception>
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

// ---- one decade ----

using Complex = std::complex<double>;

Complex conjugate_product(const Complex& a, const Complex& b) noexcept {
  return {a.real() * b.real() + a.imag() * b.imag(), a.imag() * b.real() - a.real() * b.imag()};
}

void take(Largest& largest, const CosSin& value, const ExactCosSin& exact, const Position& position, int pair) {
  const double cos_error = distance(static_cast<double>(value.cos), exact.cos);
  const double sin_error = distance(static_cast<double>(value.sin), exact.sin);
  const double error = std::max(cos_error, sin_error);
  if (error > largest.error) largest = {error, position, pair, sin_error > cos_error};
}

// The rows of the positions whose scores are compared, [position][pair].
using Kept = std::vector<Complex>;

// Which positions of a list of `count` are kept: at most score_positions, and of a rope of very many pairs no more rows
// than fit score_entries; the first and the last position among them.
std::vector<bool> kept_positions(std::size_t count, std::size_t pairs) {
  const std::size_t most = std::clamp<std::size_t>(score_entries / pairs, 2, score_positions);
  std::vector<bool> chosen(count, count <= most);
  for (std::size_t k = 0; count > most && k < most; ++k) chosen[k * (count - 1) / (most - 1)] = true;
  return chosen;
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

// q and k of uniform direction in `head_dim` dimensions: a pair holds a share 2 / head_dim of the square of each, with
// phases of its own, so the mean square of the score's error is the sum of (2 / head_dim)^2 |error of the pair|^2 / 2.
ScoreErrors score_errors(const Kept& exact, const Kept& way, const Subject& subject) {
  const auto width = static_cast<std::size_t>(subject.pairs());
  const auto pairs = score_pairs(exact.size() / width);
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
  return {std::sqrt(largest), std::sqrt(2 * mean) / subject.head_dim};
}

// What a part of a decade's positions gives of one way.
struct Found {
  Largest largest = {};
  Kept kept = {};
  std::exception_ptr error = {};  // of the first position where the way failed; it is not run on
};

// Some positions of a decade, for one thread.
struct Task {
  std::size_t begin = 0, end = 0;
  std::vector<Rows> rows = {};    // of the ways that are run; running_rotation has gone to the first position
  std::vector<Found> found = {};  // of each of them
  Kept exact = {};
};

class DecadeOfWays {
 public:
  DecadeOfWays(const Subject& subject, const Decade& decade, std::span<const Way> ways)
      : subject_(subject), positions_(decade.positions), kept_(kept_positions(positions_.size(), width())) {
    for (const Way way : ways) {
      Rows rows(subject, way);
      const bool runs =
          std::all_of(positions_.begin(), positions_.end(), [&](const Position& one) { return rows.has(one); });
      number_.push_back(runs ? static_cast<int>(rows_.size()) : -1);
      if (runs) rows_.push_back(std::move(rows));
    }
    all_.resize(rows_.size());
  }

  // A batch of positions, on all threads.
  void measure(std::size_t begin, std::size_t end, const Executor& executor) {
    tasks_.clear();
    for (; begin < end; begin += task_positions) {
      for (Rows& rows : rows_) rows.go_to(positions_[begin]);
      tasks_.push_back({begin, std::min(begin + task_positions, end), rows_, std::vector<Found>(rows_.size())});
    }
    const auto work = [](void* self, std::int64_t first, std::int64_t last) {
      auto& all = *static_cast<DecadeOfWays*>(self);
      for (std::int64_t k = first; k < last; ++k) all.run(all.tasks_[static_cast<std::size_t>(k)]);
    };
    executor.run(static_cast<std::int64_t>(tasks_.size()), 1, work, this);
    for (std::size_t way = 0; way < all_.size(); ++way) {
      for (const Task& task : tasks_) gather(all_[way], task.found[way]);
    }
    for (const Task& task : tasks_) exact_.insert(exact_.end(), task.exact.begin(), task.exact.end());
  }

  DecadeErrors errors(std::size_t way) const {
    if (number_[way] < 0) return {};
    const Found& found = all_[static_cast<std::size_t>(number_[way])];
    DecadeErrors errors{found.largest};
    if (exact_.size() > width()) errors.scores = score_errors(exact_, found.kept, subject_);
    return errors;
  }

 private:
  static constexpr std::size_t task_positions = 64;

  std::size_t width() const { return subject_.inv_freq.size(); }

  static void gather(Found& all, const Found& part) {
    if (part.error) std::rethrow_exception(part.error);
    if (part.largest.error > all.largest.error) all.largest = part.largest;
    all.kept.insert(all.kept.end(), part.kept.begin(), part.kept.end());
  }

  void run(Task& task) const noexcept {
    std::vector<ExactCosSin> exact(width());
    std::vector<CosSin> row(width());
    for (std::size_t k = task.begin; k < task.end; ++k) {
      for (std::size_t i = 0; i < width(); ++i) {
        exact[i] = exact_cos_sin(positions_[k], subject_.inv_freq[i], subject_.attention_factor);
        if (kept_[k]) task.exact.emplace_back(exact[i].cos.high, exact[i].sin.high);
      }
      for (std::size_t way = 0; way < task.rows.size(); ++way) {
        Found& found = task.found[way];
        if (found.error) continue;
        try {
          task.rows[way].write(positions_[k], row);
        } catch (...) {
          found.error = std::current_exception();
          continue;
        }
        for (std::size_t i = 0; i < width(); ++i) {
          take(found.largest, row[i], exact[i], positions_[k], static_cast<int>(i));
          if (kept_[k]) found.kept.emplace_back(static_cast<double>(row[i].cos), static_cast<double>(row[i].sin));
        }
      }
    }
  }

  const Subject& subject_;
  const std::vector<Position>& positions_;
  std::vector<bool> kept_;   // whether a position's rows are kept for the scores
  std::vector<int> number_;  // of each way, in rows_; -1: it has no row at one of the positions
  std::vector<Rows> rows_;   // of the ways that are run
  std::vector<Found> all_;   // likewise
  Kept exact_;
  std::vector<Task> tasks_;
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
bool exceeds(const CosSin& value, std::int64_t position, double inv_freq, double factor, double tolerance) {
  const double angle = static_cast<double>(position) * inv_freq;
  const double error = std::max(std::fabs(static_cast<double>(value.cos) - factor * std::cos(angle)),
                                std::fabs(static_cast<double>(value.sin) - factor * std::sin(angle)));
  const double doubt = factor * (std::fabs(angle) * 0x1p-51 + 0x1p-50);
  if (error + doubt <= tolerance) return false;
  if (error - doubt > tolerance) return true;
  Largest largest;
  take(largest, value, exact_cos_sin(position, inv_freq, factor), position, 0);
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
  Subject sorted = subject;  // so that the pairs to look at are always the first ones
  for (std::size_t k = 0; k < begins.size(); ++k) {
    sorted.inv_freq[k] = subject.inv_freq[begins[k].pair];
    sorted.inv_freq_float32[k] = subject.inv_freq_float32[begins[k].pair];
  }
  Rows rows(sorted, Way::float32_product);
  std::vector<CosSin> row(begins.size());
  std::size_t pairs = 0;
  std::int64_t entries = 0;
  for (std::int64_t p = begins.front().position; p <= most; ++p) {
    while (pairs < begins.size() && begins[pairs].position <= p) ++pairs;
    entries += static_cast<std::int64_t>(pairs);
    if (entries > most_entries) return {p - 1, true};
    rows.write(p, std::span(row).first(pairs));
    for (std::size_t k = 0; k < pairs; ++k) {
      if (exceeds(row[k], p, sorted.inv_freq[k], sorted.attention_factor, tolerance)) return {p - 1, false};
    }
  }
  return {most, true};
}

}  // namespace rotary::accuracy
