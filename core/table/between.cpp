#include "runtime/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "positions.h"
#include "rotary/rotary.h"
#include "table_checks.h"
#include "turns.h"
#include "values/fail.h"
#include "values/number_text.h"

namespace rotary {
namespace {

using namespace detail;

template <class... Parts>
[[noreturn]] void refuse_between(Code code, const Parts&... sentence) {
  fail(code, "between", sentence...);
}

// A rope and the positions of the keys: one of the two that between() joins.
class RopeAtPositions {
 public:
  RopeAtPositions(const Frequencies& f, const Positions& p) : f_(f), p_(p) {
    checked_pairs(f);
    values_ = PositionsAccess::values(p, converted_);
    check_positions(f, p, values_.reals);
  }

  const std::int64_t* integers() const noexcept { return values_.integers; }
  const double* reals() const noexcept { return values_.reals; }
  bool are_real() const noexcept { return values_.reals != nullptr; }
  int axes() const noexcept { return p_.axes(); }

  // The index of the position of a token on an axis.
  std::int64_t at(int axis, std::int64_t batch_row, std::int64_t token) const noexcept {
    const std::int64_t first = p_.axes() == 1 ? 0 : axis * std::int64_t{p_.batch()};
    return (first + (p_.batch() == 1 ? 0 : batch_row)) * p_.tokens() + token;
  }

  void check_magnitudes() const {
    detail::check_magnitudes("between", f_);
    detail::check_magnitudes("between", p_, values_.reals);
  }

  // Appends the frequencies of each axis, and the phase as those of one more axis, [axes, head_rows, pairs].
  void add_frequencies(bool negative, Frequencies& sum) const {
    std::vector<double> terms;
    fill_terms(f_, f_.axes(), std::int64_t{f_.head_rows} * f_.pairs(), terms);
    for (const double w : terms) sum.inv_freq.push_back(negative ? -w : w);
    sum.summed_axes += f_.axes() + (f_.phase.empty() ? 0 : 1);
  }

  // Appends value(index) for each position, [axes, batch, tokens], and `one` for the axis of the phase.
  template <class T, class Value>
  void add_positions(int batch, std::vector<T>& all, T one, const Value& value) const {
    for (int axis = 0; axis < f_.axes(); ++axis) {
      for (std::int64_t row = 0; row < batch; ++row) {
        for (std::int64_t token = 0; token < p_.tokens(); ++token) all.push_back(value(at(axis, row, token)));
      }
    }
    if (!f_.phase.empty()) all.insert(all.end(), static_cast<std::size_t>(batch * p_.tokens()), one);
  }

  // Appends frequencies and positions as doubles. An integer is two exact doubles, each with the frequencies.
  void add_reals(bool negative, int batch, std::vector<double>& all, Frequencies& sum) const {
    add_frequencies(negative, sum);
    if (are_real()) return add_positions(batch, all, 1.0, [&](std::int64_t k) { return reals()[k]; });
    add_positions(batch, all, 1.0, [&](std::int64_t k) { return static_cast<double>(low_bits(integers()[k])); });
    add_frequencies(negative, sum);
    add_positions(batch, all, 0.0,
                  [&](std::int64_t k) { return static_cast<double>(integers()[k] - low_bits(integers()[k])); });
  }

 private:
  static std::int64_t low_bits(std::int64_t x) noexcept { return x & 0xffffffff; }

  const Frequencies& f_;
  const Positions& p_;
  std::vector<std::int64_t> converted_;
  PositionValues values_;
};

Pairing written(Pairing pairing) noexcept { return pairing == Pairing::interleaved_to_half ? Pairing::half : pairing; }

bool are_one_rope(const Frequencies& a, const Frequencies& b) {
  return a.inv_freq == b.inv_freq && a.clockwise == b.clockwise && a.head_rows == b.head_rows &&
         a.summed_axes == b.summed_axes && a.phase == b.phase && (a.axis == b.axis || (a.axes() == 1 && b.axes() == 1));
}

// The difference of numbers with the same sign always fits.
bool subtract(std::int64_t b, std::int64_t a, std::int64_t& result) {
  if ((a < 0) != (b < 0) && std::fabs(static_cast<double>(b) - static_cast<double>(a)) >= 0x1p62) return false;
  result = b - a;
  return true;
}
bool subtract(double b, double a, double& result) {
  result = b - a;
  const double rest = result - b;
  return (b - (result - rest)) + (-a - rest) == 0;  // Knuth's error of a sum
}

// The distances of positions, [axes, batch, tokens]; false if one is not exact.
template <class T>
bool distances(const RopeAtPositions& from, const T* a, const RopeAtPositions& to, const T* b, int axes, int batch,
               std::int64_t tokens, std::vector<T>& result) {
  for (int axis = 0; axis < axes; ++axis) {
    for (std::int64_t row = 0; row < batch; ++row) {
      for (std::int64_t token = 0; token < tokens; ++token) {
        if (!subtract(b[to.at(axis, row, token)], a[from.at(axis, row, token)], result.emplace_back())) return false;
      }
    }
  }
  return true;
}

// From [axes, head_rows, pairs] to [head_rows, axes, pairs].
std::vector<double> by_head(const std::vector<double>& terms, int head_rows, int pairs) {
  std::vector<double> rows;
  const auto row = static_cast<std::size_t>(head_rows) * static_cast<std::size_t>(pairs);
  for (std::size_t head = 0; head < row; head += static_cast<std::size_t>(pairs)) {
    for (std::size_t axis = 0; axis < terms.size(); axis += row) {
      const auto first = terms.begin() + static_cast<std::ptrdiff_t>(axis + head);
      rows.insert(rows.end(), first, first + pairs);
    }
  }
  return rows;
}

}  // namespace

Frequencies detail::check_between(const Frequencies& from, Extent from_positions, const Frequencies& to,
                                  Extent to_positions) {
  if (from.pairs() != to.pairs())
    refuse_between(Code::SHAPE, "from and to must have the same number of pairs but have ", from.pairs(), " and ",
                   to.pairs());
  if (from.head_rows != to.head_rows)
    refuse_between(Code::SHAPE, "from and to must have the same head_rows but have ", from.head_rows, " and ",
                   to.head_rows);
  if (from.xpos != to.xpos || (to.xpos.scale != 0 && !are_one_rope(from, to)))
    refuse_between(Code::SHAPE, "with xpos from and to must be one rope, with one scale and center, but are two");
  if (written(from.pairing) != written(to.pairing))
    refuse_between(Code::PAIRING, "from and to must leave keys in one order but are ", name(from.pairing), " and ",
                   name(to.pairing));
  if (from_positions.tokens != to_positions.tokens)
    refuse_between(Code::SHAPE, "both positions must have the same number of tokens but have ", from_positions.tokens,
                   " and ", to_positions.tokens);
  const int batch = std::max(from_positions.batch, to_positions.batch);
  for (const int given : {from_positions.batch, to_positions.batch}) {
    if (given != 1 && given != batch)
      refuse_between(Code::SHAPE, "the batches of the positions must be equal, or one of them 1, but are ",
                     from_positions.batch, " and ", to_positions.batch);
  }
  Frequencies turn = to;
  turn.pairing = written(to.pairing);
  turn.xpos.center = 0;  // the quotient of two amplitudes is that of their distance
  turn.attention_factor =
      to.attention_factor == from.attention_factor ? 1 : to.attention_factor / from.attention_factor;
  if (from.attention_factor == 0 || !std::isfinite(turn.attention_factor))
    refuse_between(Code::SCALING, "the attention factors must have a finite ratio but are ", from.attention_factor,
                   " and ", to.attention_factor);
  return turn;
}

Table between(const Frequencies& from, const Positions& from_positions, const Frequencies& to,
              const Positions& to_positions, const TableOptions& options) {
  check_options(options);
  if (options.angles != Angles::exact) refuse_between(Code::VALUE, "angles must be exact but got float32");
  const RopeAtPositions before(from, from_positions), after(to, to_positions);
  const Frequencies turn = check_between(from, {from_positions.batch(), from_positions.tokens()}, to,
                                         {to_positions.batch(), to_positions.tokens()});
  const std::int64_t tokens = to_positions.tokens();
  const int batch = std::max(from_positions.batch(), to_positions.batch());

  if (are_one_rope(from, to)) {
    const int axes = std::max({before.axes(), after.axes(), from.summed_axes});
    Frequencies by = turn;
    by.phase.clear();
    std::vector<std::int64_t> moved;
    if (before.integers() != nullptr && after.integers() != nullptr &&
        distances(before, before.integers(), after, after.integers(), axes, batch, tokens, moved))
      return Table(by, Positions(std::move(moved), axes, batch), options);
    std::vector<double> reals;
    if (by.xpos.scale != 0 && before.are_real() && after.are_real() &&
        distances(before, before.reals(), after, after.reals(), axes, batch, tokens, reals))
      return Table(by, Positions(std::move(reals), axes, batch), options);
  }
  if (turn.xpos.scale != 0)
    refuse_between(Code::POSITION, "with xpos both positions must be integers, or doubles, whose distances are exact");
  before.check_magnitudes();
  after.check_magnitudes();
  // The angle is a sum over the axes of both ropes; those of `from` are negative.
  Frequencies sum = turn;
  sum.inv_freq.clear();
  sum.inv_freq_float32.clear();
  sum.axis.clear();
  sum.phase.clear();
  sum.summed_axes = 0;
  const bool back = from.clockwise == to.clockwise;
  if (!before.are_real() && !after.are_real()) {
    std::vector<std::int64_t> all;
    for (const RopeAtPositions* one : {&after, &before}) {
      one->add_frequencies(back && one == &before, sum);
      one->add_positions(batch, all, std::int64_t{1}, [&](std::int64_t k) { return one->integers()[k]; });
    }
    sum.inv_freq = by_head(sum.inv_freq, to.head_rows, to.pairs());
    return Table(sum, Positions(std::move(all), sum.summed_axes, batch), options);
  }
  std::vector<double> all;
  after.add_reals(false, batch, all, sum);
  before.add_reals(back, batch, all, sum);
  sum.inv_freq = by_head(sum.inv_freq, to.head_rows, to.pairs());
  return Table(sum, Positions(std::move(all), sum.summed_axes, batch), options);
}

}  // namespace rotary
