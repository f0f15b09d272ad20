#include "runtime/arithmetic.h"

#include "measure.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <exception>
#include <utility>

namespace rotary::accuracy {

namespace {

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

void keep(Kept& kept, std::span<const CosSin> row) {
  for (const CosSin& z : row) kept.emplace_back(static_cast<double>(z.cos), static_cast<double>(z.sin));
}

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

// What is gathered of one way in one decade.
struct Gathered {
  Rows rows;
  bool complete = true;
  Largest largest = {};
  Kept kept = {};
};

// Some positions of a batch, for one thread.
struct Task {
  Gathered* way = nullptr;
  std::size_t begin = 0, end = 0;
  Largest largest = {};
  Kept kept = {};
  std::exception_ptr error = {};
};

class DecadeOfWays {
 public:
  DecadeOfWays(const Subject& subject, std::vector<Gathered>& ways, const Executor& executor)
      : subject_(subject),
        ways_(ways),
        executor_(executor),
        product_rows_(subject, Way::float32_product),
        shares_product_(std::count_if(ways.begin(), ways.end(),
                                      [](const Gathered& one) { return begins_with_product(one.rows.way()); }) > 1) {}

  // done: told the number of positions of each batch.
  void measure(const Decade& decade, const std::function<void(std::size_t)>& done) {
    for (Gathered& one : ways_) {
      one.largest = {};
      one.kept.clear();
      one.complete = std::all_of(decade.positions.begin(), decade.positions.end(),
                                 [&](const Position& position) { return one.rows.has(position); });
    }
    kept_ = kept_positions(decade.positions.size(), width());
    const std::size_t most = std::max<std::size_t>(1, batch_entries / width());
    for (first_ = 0; first_ < decade.positions.size(); first_ += batch_.size()) {
      batch_ = std::span(decade.positions).subspan(first_, std::min(most, decade.positions.size() - first_));
      measure_batch();
      done(batch_.size());
    }
  }

  DecadeErrors errors(const Gathered& one) const {
    if (!one.complete) return {};
    DecadeErrors found{one.largest};
    if (truth_.size() > width()) found.scores = score_errors(truth_, one.kept, subject_);
    return found;
  }
  void clear() { truth_.clear(); }

 private:
  static constexpr std::size_t batch_entries = std::size_t{1} << 18;  // of exact_
  static constexpr std::size_t task_positions = 128;

  std::size_t width() const { return subject_.inv_freq.size(); }

  void measure_batch() {
    exact_.resize(batch_.size() * width());
    product_.resize(shares_product_ ? exact_.size() : 0);
    failed_.resize(batch_.size());
    const auto compute = [](void* self, std::int64_t begin, std::int64_t end) {
      static_cast<DecadeOfWays*>(self)->compute_known(static_cast<std::size_t>(begin), static_cast<std::size_t>(end));
    };
    executor_.run(static_cast<std::int64_t>(batch_.size()), 16, compute, this);
    for (std::size_t k = 0; k < exact_.size(); ++k) {
      if (kept_[first_ + k / width()]) truth_.emplace_back(exact_[k].cos.high, exact_[k].sin.high);
    }
    share_out();
    const auto work = [](void* self, std::int64_t begin, std::int64_t end) {
      auto& all = *static_cast<DecadeOfWays*>(self);
      for (std::int64_t k = begin; k < end; ++k) all.run(all.tasks_[static_cast<std::size_t>(k)]);
    };
    executor_.run(static_cast<std::int64_t>(tasks_.size()), 1, work, this);
    for (Task& task : tasks_) {  // of each way in the order of the positions
      if (task.error) std::rethrow_exception(task.error);
      if (task.largest.error > task.way->largest.error) task.way->largest = task.largest;
      task.way->kept.insert(task.way->kept.end(), task.kept.begin(), task.kept.end());
    }
  }

  // running_rotation goes on from row to row, and is one task, the first.
  void share_out() {
    tasks_.clear();
    for (Gathered& one : ways_) {
      if (!one.complete) continue;
      const bool goes_on = one.rows.way() == Way::running_rotation;
      if (goes_on) tasks_.insert(tasks_.begin(), Task{&one, 0, batch_.size()});
      for (std::size_t begin = 0; !goes_on && begin < batch_.size(); begin += task_positions) {
        tasks_.push_back({&one, begin, std::min(begin + task_positions, batch_.size())});
      }
    }
  }

  void compute_known(std::size_t begin, std::size_t end) noexcept {
    Rows product = product_rows_;
    for (std::size_t k = begin; k < end; ++k) {
      for (std::size_t i = 0; i < width(); ++i) {
        exact_[k * width() + i] = exact_cos_sin(batch_[k], subject_.inv_freq[i], subject_.attention_factor);
      }
      failed_[k] = 0;
      if (!shares_product_) continue;
      try {
        product.write(batch_[k], std::span(product_).subspan(k * width(), width()));
      } catch (const Error&) {
        failed_[k] = 1;  // the ways that begin with it say so themselves
      }
    }
  }

  Rows::Known known(std::size_t k) const {
    Rows::Known known;
    known.exact = std::span(exact_).subspan(k * width(), width());
    if (shares_product_ && failed_[k] == 0) known.product = std::span(product_).subspan(k * width(), width());
    return known;
  }

  void run(Task& task) noexcept {
    try {
      if (task.way->rows.way() == Way::running_rotation) return visit(task, task.way->rows);
      Rows rows = task.way->rows;
      visit(task, rows);
    } catch (...) {
      task.error = std::current_exception();
    }
  }

  void visit(Task& task, Rows& rows) const {
    std::vector<CosSin> row(width());
    for (std::size_t k = task.begin; k < task.end; ++k) {
      rows.write(batch_[k], row, known(k));
      for (std::size_t i = 0; i < row.size(); ++i) {
        take(task.largest, row[i], exact_[k * width() + i], batch_[k], static_cast<int>(i));
      }
      if (kept_[first_ + k]) keep(task.kept, row);
    }
  }

  const Subject& subject_;
  std::vector<Gathered>& ways_;
  const Executor& executor_;
  std::vector<bool> kept_;           // of the decade's positions
  std::size_t first_ = 0;            // of the batch
  std::span<const Position> batch_;  // positions that are measured at a time
  std::vector<ExactCosSin> exact_;   // [position of the batch][pair]
  Rows product_rows_;
  bool shares_product_;                // several ways begin with float32_product
  std::vector<CosSin> product_;        // its rows, likewise
  std::vector<unsigned char> failed_;  // whether there is none, of each position of the batch
  std::vector<Task> tasks_;
  Kept truth_;
};

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

std::vector<WayErrors> measure(const Subject& subject, std::span<const Way> ways, const std::vector<Decade>& decades,
                               const Executor& executor, const std::function<void(std::int64_t)>& done) {
  std::vector<Gathered> gathered;
  std::vector<WayErrors> result;
  for (const Way way : ways) {
    gathered.push_back({Rows(subject, way)});
    result.push_back({way, {}});
  }
  DecadeOfWays all(subject, gathered, executor);
  std::int64_t measured = 0;
  for (const Decade& decade : decades) {
    all.measure(decade, [&](std::size_t positions) {
      measured += static_cast<std::int64_t>(positions);
      if (done) done(measured);
    });
    for (std::size_t k = 0; k < result.size(); ++k) result[k].decades.push_back(all.errors(gathered[k]));
    all.clear();
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
