#include "runtime/arithmetic.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "positions.h"
#include "rotary/rotary.h"
#include "round_difference.h"
#include "table_checks.h"
#include "values/fail.h"
#include "values/fraction.h"
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
  int axes() const noexcept { return p_.axes(); }

  // The index of the position of a token on an axis.
  std::int64_t at(int axis, std::int64_t batch_row, std::int64_t token) const noexcept {
    const std::int64_t first = p_.axes() == 1 ? 0 : axis * std::int64_t{p_.batch()};
    return (first + (p_.batch() == 1 ? 0 : batch_row)) * p_.tokens() + token;
  }
  int axis(std::size_t pair) const noexcept { return f_.axis.empty() ? 0 : f_.axis[pair]; }

  Angle angle(std::int64_t batch_row, std::int64_t token, std::size_t pair) const noexcept {
    const std::int64_t k = at(axis(pair), batch_row, token);
    const Dyadic p = values_.integers != nullptr ? dyadic(values_.integers[k]) : dyadic(values_.reals[k]);
    return angle_of(p, f_.inv_freq[pair], f_.clockwise);
  }

  void check_magnitudes() const {
    detail::check_magnitudes(f_);
    const std::int64_t count = values_.reals == nullptr ? 0 : std::int64_t{p_.axes()} * p_.batch() * p_.tokens();
    for (std::int64_t k = 0; k < count; ++k) {
      if (const double p = values_.reals[k]; p != 0 && std::fabs(p) < least_position)
        refuse_between(Code::POSITION, "a position must be 0 or at least 2^-64 in magnitude but got " + shortest(p));
    }
  }

 private:
  const Frequencies& f_;
  const Positions& p_;
  std::vector<std::int64_t> converted_;
  PositionValues values_;
};

// ---- all of them ----

struct DifferenceWork {
  const Place& from;
  const Place& to;
  std::int64_t tokens;
  std::size_t pairs;
  Dyadic factor;
  Format format;
  float zero;  // a sine
  float* cos;
  float* sin;
};

void fill_differences(void* context, std::int64_t begin, std::int64_t end) {
  const DifferenceWork& work = *static_cast<const DifferenceWork*>(context);
  for (std::int64_t row = begin; row < end; ++row) {
    const std::int64_t batch_row = row / work.tokens, token = row % work.tokens;
    for (std::size_t i = 0; i < work.pairs; ++i) {
      const CosSin x = round_difference(work.from.angle(batch_row, token, i), work.to.angle(batch_row, token, i),
                                        work.factor, work.format, work.zero);
      const std::size_t at = static_cast<std::size_t>(row) * work.pairs + i;
      work.cos[at] = x.cos;
      work.sin[at] = x.sin;
    }
  }
}

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

void check_magnitudes(const Frequencies& f) {
  for (const double w : f.inv_freq) {
    if (w != 0 && std::fabs(w) < least_frequency)
      refuse_between(Code::SCALING, "a frequency must be 0 or at least 2^-256 in magnitude but got " + shortest(w));
  }
}

}  // namespace detail

Table between(const Frequencies& from, const Positions& from_positions, const Frequencies& to,
              const Positions& to_positions, const TableOptions& options) {
  check_options(options);
  if (options.angles != Angles::exact) refuse_between(Code::VALUE, "angles must be exact but got float32");
  const Place before(from, from_positions), after(to, to_positions);
  const int pairs = checked_pairs(to);
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
  std::vector<float> cos(checked_size(batch, tokens, pairs)), sin(cos.size());
  DifferenceWork work{before,
                      after,
                      tokens,
                      to.inv_freq.size(),
                      dyadic(turn.attention_factor),
                      format_of(options.rounding),
                      turn.clockwise ? -0.0f : 0.0f,
                      cos.data(),
                      sin.data()};
  options.executor->run(batch * tokens, std::max<std::int64_t>(1, 64 / pairs), fill_differences, &work);
  return Table(cos, sin, pairs, turn.pairing, batch);
}

}  // namespace rotary
