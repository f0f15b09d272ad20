#include "runtime/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <string>
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

[[noreturn]] void refuse_between(Code code, const std::string& sentence) { fail(code, "between", sentence); }

// Where keys stand, before or after: a rope and their positions.
class Place {
 public:
  Place(const Frequencies& f, const Positions& p) : f_(f), p_(p) {
    checked_pairs(f);
    values_ = PositionsAccess::values(p, converted_);
    check_positions(f, p, values_.reals);
  }

  const std::int64_t* integers() const noexcept { return values_.integers; }
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

  // Appends the frequencies of each axis, [axes, pairs], to a rope whose pairs turn by sums.
  void add_frequencies(bool negative, Frequencies& sum) const {
    std::vector<double> terms;
    fill_terms(f_, f_.axes(), f_.pairs(), terms);
    for (const double w : terms) sum.inv_freq.push_back(negative ? -w : w);
    sum.summed_axes += f_.axes();
  }

  // Appends what `value` makes of each position, [axes, batch, tokens].
  template <class T, class Value>
  void add_positions(int batch, std::vector<T>& all, const Value& value) const {
    for (int axis = 0; axis < f_.axes(); ++axis) {
      for (std::int64_t row = 0; row < batch; ++row) {
        for (std::int64_t token = 0; token < p_.tokens(); ++token) all.push_back(value(at(axis, row, token)));
      }
    }
  }

  // The same of doubles. Integers are the sum of two that are exact, each with the frequencies.
  void add_reals(bool negative, int batch, std::vector<double>& all, Frequencies& sum) const {
    add_frequencies(negative, sum);
    if (values_.reals != nullptr) return add_positions(batch, all, [&](std::int64_t k) { return values_.reals[k]; });
    add_positions(batch, all, [&](std::int64_t k) { return static_cast<double>(low_bits(integers()[k])); });
    add_frequencies(negative, sum);
    add_positions(batch, all,
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
  return a.inv_freq == b.inv_freq && a.clockwise == b.clockwise &&
         (a.axis == b.axis || (a.axes() == 1 && b.axes() == 1));
}

// The distances of integer positions, [axes, batch, tokens]; false where one leaves 64 bits.
bool distances(const Place& from, const Place& to, int axes, int batch, std::int64_t tokens,
               std::vector<std::int64_t>& result) {
  for (int axis = 0; axis < axes; ++axis) {
    for (std::int64_t row = 0; row < batch; ++row) {
      for (std::int64_t token = 0; token < tokens; ++token) {
        const std::int64_t a = from.integers()[from.at(axis, row, token)], b = to.integers()[to.at(axis, row, token)];
        // The difference of the same signs always fits.
        if ((a < 0) != (b < 0) && std::fabs(static_cast<double>(b) - static_cast<double>(a)) >= 0x1p62) return false;
        result.push_back(b - a);
      }
    }
  }
  return true;
}

}  // namespace

namespace detail {

Frequencies check_between(const Frequencies& from, Extent from_positions, const Frequencies& to, Extent to_positions) {
  for (const Frequencies* f : {&from, &to}) {
    if (f->heads != 1 || is_sum(*f))
      refuse_between(
          Code::SHAPE,
          "from and to must have one frequency for each pair, without rows per head, sums of axes, phases or "
          "xpos");
  }
  if (from.inv_freq.size() != to.inv_freq.size())
    refuse_between(Code::SHAPE, "from and to must have the same number of pairs but have " +
                                    std::to_string(from.inv_freq.size()) + " and " +
                                    std::to_string(to.inv_freq.size()));
  if (written(from.pairing) != written(to.pairing))
    refuse_between(Code::PAIRING, std::string("from and to must leave keys in one order but are ") +
                                      name(from.pairing) + " and " + name(to.pairing));
  if (from_positions.tokens != to_positions.tokens)
    refuse_between(Code::SHAPE, "the positions must be of as many tokens but are of " +
                                    std::to_string(from_positions.tokens) + " and " +
                                    std::to_string(to_positions.tokens));
  const int batch = std::max(from_positions.batch, to_positions.batch);
  for (const int given : {from_positions.batch, to_positions.batch}) {
    if (given != 1 && given != batch)
      refuse_between(Code::SHAPE, "the batches of the positions must be equal, or one of them 1, but are " +
                                      std::to_string(from_positions.batch) + " and " +
                                      std::to_string(to_positions.batch));
  }
  Frequencies turn = to;
  turn.pairing = written(to.pairing);
  turn.attention_factor =
      to.attention_factor == from.attention_factor ? 1 : to.attention_factor / from.attention_factor;
  if (from.attention_factor == 0 || !std::isfinite(turn.attention_factor))
    refuse_between(Code::SCALING, "the attention factors must have a finite ratio but are " +
                                      shortest(from.attention_factor) + " and " + shortest(to.attention_factor));
  return turn;
}

}  // namespace detail

Table between(const Frequencies& from, const Positions& from_positions, const Frequencies& to,
              const Positions& to_positions, const TableOptions& options) {
  check_options(options);
  if (options.angles != Angles::exact) refuse_between(Code::VALUE, "angles must be exact but got float32");
  const Place before(from, from_positions), after(to, to_positions);
  const Frequencies turn = check_between(from, {from_positions.batch(), from_positions.tokens()}, to,
                                         {to_positions.batch(), to_positions.tokens()});
  const std::int64_t tokens = to_positions.tokens();
  const int batch = std::max(from_positions.batch(), to_positions.batch());

  if (are_one_rope(from, to) && before.integers() != nullptr && after.integers() != nullptr) {
    const int axes = std::max(before.axes(), after.axes());
    std::vector<std::int64_t> moved;
    if (distances(before, after, axes, batch, tokens, moved))
      return Table(turn, Positions(std::move(moved), axes, batch), options);
  }
  before.check_magnitudes();
  after.check_magnitudes();
  // The angle is a sum with the axes of both, those of `from` backwards.
  Frequencies sum = turn;
  sum.inv_freq.clear();
  sum.inv_freq_float32.clear();
  sum.axis.clear();
  const bool back = from.clockwise == to.clockwise;
  if (!before.are_real() && !after.are_real()) {
    std::vector<std::int64_t> all;
    for (const Place* place : {&after, &before}) {
      place->add_frequencies(back && place == &before, sum);
      place->add_positions(batch, all, [&](std::int64_t k) { return place->integers()[k]; });
    }
    return Table(sum, Positions(std::move(all), sum.summed_axes, batch), options);
  }
  std::vector<double> all;
  after.add_reals(false, batch, all, sum);
  before.add_reals(back, batch, all, sum);
  return Table(sum, Positions(std::move(all), sum.summed_axes, batch), options);
}

}  // namespace rotary
