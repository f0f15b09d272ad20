// The rotation in double, by the formula.
#include "runtime/arithmetic.h"

#include "rotary/reference.h"

#include <cmath>
#include <string>

#include "table/positions.h"
#include "table/table_checks.h"
#include "values/fail.h"
#include "values/pairings.h"

namespace rotary::reference {

using namespace detail;
namespace {

template <class Real>
struct PairOf {
  Real a;
  Real b;
};
template <class Real>
PairOf<Real> rotated(PairOf<Real> x, Real cos, Real sin) {
  return {x.a * cos - x.b * sin, x.b * cos + x.a * sin};
}

using LongTurn = PairOf<long double>;  // cos and sin

// The product is high + low without an error: low is what rounding took from it.
LongTurn turn_by(long double position, long double inv_freq) {
  const long double high = position * inv_freq;
  const long double low = std::fma(position, inv_freq, -high);
  return rotated<long double>({std::cos(high), std::sin(high)}, std::cos(low), std::sin(low));
}

// xPos's of a pair.
long double amplitude(const Frequencies& f, long double position, std::size_t pair) {
  if (f.xpos.scale == 0) return 1;
  const long double zeta = (10.0L * static_cast<long double>(pair) + 4.0L * f.pairs()) / (14.0L * f.pairs());
  const long double power = (position - f.xpos.center) / f.xpos.scale;
  return std::pow(zeta, f.xpos.reciprocal ? -power : power);
}

void rotate_head(double* x, const double* cos, const double* sin, int pairs, const Order& order, bool backward,
                 std::vector<PairOf<double>>& results) {
  const auto a_of = [](int pair, bool interleaved) { return interleaved ? 2 * pair : pair; };
  const auto b_of = [pairs](int pair, bool interleaved) { return interleaved ? 2 * pair + 1 : pairs + pair; };
  for (int i = 0; i < pairs; ++i) {
    const PairOf<double> in{x[a_of(i, order.read_interleaved)], x[b_of(i, order.read_interleaved)]};
    results[static_cast<std::size_t>(i)] = rotated(in, cos[i], backward ? -sin[i] : sin[i]);
  }
  for (int i = 0; i < pairs; ++i) {
    x[a_of(i, order.write_interleaved)] = results[static_cast<std::size_t>(i)].a;
    x[b_of(i, order.write_interleaved)] = results[static_cast<std::size_t>(i)].b;
  }
}

}  // namespace

DoubleTable double_table(const Frequencies& frequencies, const Positions& positions) {
  std::vector<std::int64_t> converted;
  const PositionValues values = PositionsAccess::values(positions, converted);
  DoubleTable table;
  table.pairing = frequencies.pairing;
  table.pairs = frequencies.pairs();
  table.heads = frequencies.heads;
  table.batch = positions.batch();
  table.tokens = positions.tokens();
  const std::size_t pairs = static_cast<std::size_t>(table.pairs), heads = static_cast<std::size_t>(table.heads);
  const auto count = static_cast<std::size_t>(table.batch) * static_cast<std::size_t>(table.tokens);
  table.cos.reserve(count * heads * pairs);
  table.sin.reserve(count * heads * pairs);
  const auto position = [&](std::size_t axis, std::size_t row) {
    const std::size_t at = axis * count + row;
    return values.integers != nullptr ? static_cast<long double>(values.integers[at])
                                      : static_cast<long double>(values.reals[at]);
  };
  const std::size_t summed = static_cast<std::size_t>(frequencies.summed_axes);
  if (summed > 0) check_axes("reference::double_table", frequencies, positions.axes());
  for (std::size_t k = 0; k < count * heads; ++k) {
    const std::size_t row = k / heads, head = k % heads;
    for (std::size_t i = 0; i < pairs; ++i) {
      const std::size_t axis = positions.axes() == 1 || frequencies.axis.empty() ? 0 : frequencies.axis[i];
      const double* speed = frequencies.inv_freq.data() + head * std::max<std::size_t>(1, summed) * pairs + i;
      LongTurn turn = turn_by(position(axis, row), speed[0]);
      for (std::size_t a = 1; a < summed; ++a) {
        const LongTurn more = turn_by(position(a, row), speed[a * pairs]);
        turn = rotated(turn, more.a, more.b);
      }
      if (!frequencies.phase.empty()) {
        const long double phase = frequencies.phase[(head * pairs + i) % frequencies.phase.size()];
        turn = rotated(turn, std::cos(phase), std::sin(phase));
      }
      const long double factor = frequencies.attention_factor * amplitude(frequencies, position(0, row), i);
      table.cos.push_back(static_cast<double>(factor * turn.a));
      table.sin.push_back(static_cast<double>((frequencies.clockwise ? -factor : factor) * turn.b));
    }
  }
  return table;
}

DoubleTable double_table(const Table& given) {
  DoubleTable table;
  table.cos.assign(given.cos().begin(), given.cos().end());
  table.sin.assign(given.sin().begin(), given.sin().end());
  table.pairing = given.pairing();
  table.pairs = given.pairs();
  table.batch = given.batch();
  table.tokens = given.tokens();
  table.heads = given.heads();
  return table;
}

void rotate(std::span<double> x, const Layout& layout, const DoubleTable& table, Direction direction) {
  check_pairing("reference::rotate", table.pairing);
  if ((table.batch != 1 && table.batch != layout.batch) || table.tokens != layout.tokens) {
    fail(Code::SHAPE, "reference::rotate", "the table must have the layout's rows but got ", table.batch, " x ",
         table.tokens, " for ", layout.batch, " x ", layout.tokens);
  }
  if (2 * table.pairs > layout.head_dim) {
    fail(Code::SHAPE, "reference::rotate", "the block must fit head_dim ", layout.head_dim, " but got ",
         2 * table.pairs, " elements");
  }
  if (table.heads < 1 || layout.heads % table.heads != 0) {
    fail(Code::SHAPE, "reference::rotate", "the layout must have a multiple of the ", table.heads,
         " heads that the table has rows for but has ", layout.heads);
  }
  const std::int64_t group = layout.heads / table.heads;
  const Order order = order_of(table.pairing, direction);
  std::vector<PairOf<double>> results(static_cast<std::size_t>(table.pairs));
  for (std::int64_t b = 0; b < layout.batch; ++b) {
    for (std::int64_t t = 0; t < layout.tokens; ++t) {
      const std::int64_t token = (table.batch == 1 ? 0 : b) * table.tokens + t;
      for (std::int64_t h = 0; h < layout.heads; ++h) {
        const std::int64_t at = b * layout.batch_stride + t * layout.token_stride + h * layout.head_stride;
        const std::int64_t row = (token * table.heads + h / group) * table.pairs;
        rotate_head(x.data() + at, table.cos.data() + row, table.sin.data() + row, table.pairs, order,
                    direction == Direction::backward, results);
      }
    }
  }
}

}  // namespace rotary::reference
