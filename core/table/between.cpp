#include "runtime/arithmetic.h"

#include <algorithm>
#include <cmath>
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

// A rope and the positions of the keys: one of the two that between() joins. The view keeps converted positions in
// `converted`.
class RopeAtPositions {
 public:
  RopeAtPositions(const Frequencies& f, const Positions& p, std::vector<std::int64_t>& converted) : f_(f), p_(p) {
    values_ = PositionsAccess::values(p, converted);
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

  // Appends the frequencies of each axis, and its positions, as doubles or not. An integer is two exact doubles, each
  // with the frequencies.
  void add(bool negative, int batch, bool as_doubles, BetweenMemory& memory) const {
    const std::int64_t* const p = integers();
    if (!as_doubles)
      return add(negative, batch, memory.integers, std::int64_t{1}, memory, [=](auto k) { return p[k]; });
    if (are_real()) return add(negative, batch, memory.doubles, 1.0, memory, [this](auto k) { return reals()[k]; });
    add(negative, batch, memory.doubles, 1.0, memory, [=](auto k) { return static_cast<double>(low_bits(p[k])); });
    add(negative, batch, memory.doubles, 0.0, memory,
        [=](auto k) { return static_cast<double>(p[k] - low_bits(p[k])); });
  }

 private:
  // Appends the frequencies, [axes, head_rows, pairs], and value(index) of each position, [axes, batch, tokens]. A
  // phase is those of one more axis, at the position `one`.
  template <class T, class Value>
  void add(bool negative, int batch, std::vector<T>& all, T one, BetweenMemory& memory, const Value& value) const {
    fill_terms(f_, f_.axes(), std::int64_t{f_.head_rows} * f_.pairs(), memory.rope_terms);
    for (const double w : memory.rope_terms) memory.terms.push_back(negative ? -w : w);
    for (int axis = 0; axis < f_.axes(); ++axis) {
      for (std::int64_t row = 0; row < batch; ++row) {
        for (std::int64_t token = 0; token < p_.tokens(); ++token) all.push_back(value(at(axis, row, token)));
      }
    }
    if (!f_.phase.empty()) all.insert(all.end(), static_cast<std::size_t>(batch * p_.tokens()), one);
  }
  static std::int64_t low_bits(std::int64_t x) noexcept { return x & 0xffffffff; }

  const Frequencies& f_;
  const Positions& p_;
  PositionValues values_;
};

Pairing written(Pairing pairing) noexcept { return pairing == Pairing::interleaved_to_half ? Pairing::half : pairing; }

// For ropes with as many pairs and rows of heads.
bool are_one_rope(const Frequencies& a, const Frequencies& b) {
  return a.inv_freq == b.inv_freq && a.clockwise == b.clockwise && a.phase == b.phase &&
         (a.axis == b.axis || (a.axes() == 1 && b.axes() == 1));
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

// Sets the frequencies of a sum to terms, [axes, head_rows, pairs].
void set_sum(const std::vector<double>& terms, int pairs, Frequencies& sum) {
  const auto row = static_cast<std::size_t>(sum.head_rows) * static_cast<std::size_t>(pairs);
  sum.summed_axes = static_cast<int>(terms.size() / row);
  sum.inv_freq.clear();
  for (std::size_t head = 0; head < row; head += static_cast<std::size_t>(pairs)) {
    for (std::size_t axis = 0; axis < terms.size(); axis += row) {
      const auto first = terms.begin() + static_cast<std::ptrdiff_t>(axis + head);
      sum.inv_freq.insert(sum.inv_freq.end(), first, first + pairs);
    }
  }
  sum.inv_freq_float32.clear();
  sum.axis.clear();
  sum.phase.clear();
}

}  // namespace

void detail::check_between(const Frequencies& from, Extent from_positions, const Frequencies& to, Extent to_positions,
                           Frequencies& turn) {
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
  turn = to;
  turn.pairing = written(to.pairing);
  turn.xpos.center = 0;  // the quotient of two amplitudes is that of their distance
  turn.attention_factor = to.attention_factor / from.attention_factor;
  if (!std::isfinite(turn.attention_factor))
    refuse_between(Code::SCALING, "the attention factors must have a finite ratio but are ", from.attention_factor,
                   " and ", to.attention_factor);
}

Positions detail::set_between(const Frequencies& from, const Positions& from_positions, const Frequencies& to,
                              const Positions& to_positions, const TableOptions& options, BetweenMemory& memory) {
  check_options(options);
  if (options.angles != Angles::exact) refuse_between(Code::VALUE, "angles must be exact but got float32");
  checked_pairs(from);
  checked_pairs(to);
  Frequencies& turn = memory.turn;
  check_between(from, {from_positions.batch(), from_positions.tokens()}, to,
                {to_positions.batch(), to_positions.tokens()}, turn);
  const RopeAtPositions before(from, from_positions, memory.from), after(to, to_positions, memory.to);
  const std::int64_t tokens = to_positions.tokens();
  const int batch = std::max(from_positions.batch(), to_positions.batch());
  memory.integers.clear();
  memory.doubles.clear();

  if (are_one_rope(from, to)) {
    const int given = std::max(before.axes(), after.axes());  // axes beyond the rope's are left out
    const int axes = std::max(std::min(given, from.axes()), from.summed_axes);
    turn.phase.clear();
    if (before.integers() != nullptr && after.integers() != nullptr &&
        distances(before, before.integers(), after, after.integers(), axes, batch, tokens, memory.integers))
      return Positions(memory.integers, axes, batch);
    if (turn.xpos.scale != 0 && before.are_real() && after.are_real() &&
        distances(before, before.reals(), after, after.reals(), axes, batch, tokens, memory.doubles))
      return Positions(memory.doubles, axes, batch);
    memory.integers.clear();
  }
  if (turn.xpos.scale != 0)
    refuse_between(Code::POSITION, "with xpos both positions must be integers, or doubles, whose distances are exact");
  before.check_magnitudes();
  after.check_magnitudes();
  // The angle is a sum over the axes of both ropes; those of `from` are negative.
  const bool as_doubles = before.are_real() || after.are_real();
  memory.terms.clear();
  after.add(false, batch, as_doubles, memory);
  before.add(from.clockwise == to.clockwise, batch, as_doubles, memory);
  set_sum(memory.terms, to.pairs(), turn);
  if (as_doubles) return Positions(memory.doubles, turn.summed_axes, batch);
  return Positions(memory.integers, turn.summed_axes, batch);
}

Table between(const Frequencies& from, const Positions& from_positions, const Frequencies& to,
              const Positions& to_positions, const TableOptions& options) {
  Table table;
  table.assign_between(from, from_positions, to, to_positions, options);
  return table;
}

}  // namespace rotary
