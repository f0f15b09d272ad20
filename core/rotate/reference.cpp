// Scalar, slow and obvious: values are decoded and encoded by the definition of their storage type.
#include "runtime/arithmetic.h"

#include "rotary/reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "checks.h"
#include "runtime/compiler.h"
#include "runtime/float_state.h"
#include "table/positions.h"
#include "table/table_checks.h"
#include "values/dtypes.h"
#include "values/fail.h"
#include "values/pairings.h"

namespace rotary::reference {

using namespace detail;
namespace {

// ---- storage types, by definition ----

// The float nearest to x of those with `digits` significant bits and no bit below 2^lowest; ties to even.
float nearest(float x, int digits, int lowest, float largest) {
  if (x == 0 || !std::isfinite(x)) return x;
  const int unit = std::max(std::ilogb(x) - (digits - 1), lowest);
  const double result = std::ldexp(std::nearbyint(std::ldexp(double{x}, -unit)), unit);
  const float infinity = std::numeric_limits<float>::infinity();
  return std::abs(result) > double{largest} ? std::copysign(infinity, x) : std::copysign(static_cast<float>(result), x);
}

float nearest(float x, DType dtype) {
  const StorageType& type = storage_type(dtype);
  return nearest(x, type.digits, type.lowest, type.largest);
}

// Sign, exponent and fraction. The exponent is 0 for zero and subnormals, and all ones for infinity and NaN.
struct Fields {
  explicit Fields(const StorageType& type)
      : fraction_bits(type.digits - 1), sign_bit(8 * type.bytes - 1), lowest(type.lowest) {}
  std::uint32_t sign() const { return std::uint32_t{1} << sign_bit; }
  std::uint32_t implied_one() const { return std::uint32_t{1} << fraction_bits; }
  std::uint32_t infinity() const { return sign() - implied_one(); }
  int smallest_normal() const { return lowest + fraction_bits; }  // the exponent of two
  int fraction_bits, sign_bit, lowest;
};

float decode(std::uint32_t bits, const StorageType& type) {
  const Fields is(type);
  const std::uint32_t magnitude = bits & (is.sign() - 1);
  const std::uint32_t fraction = magnitude & (is.implied_one() - 1);
  const int exponent = static_cast<int>(magnitude >> is.fraction_bits);
  float value;
  if (magnitude > is.infinity()) {
    value = std::numeric_limits<float>::quiet_NaN();
  } else if (magnitude == is.infinity()) {
    value = std::numeric_limits<float>::infinity();
  } else if (exponent == 0) {
    value = std::ldexp(static_cast<float>(fraction), is.lowest);
  } else {
    value = std::ldexp(static_cast<float>(is.implied_one() + fraction), is.lowest + exponent - 1);
  }
  return (bits & is.sign()) != 0 ? -value : value;
}

// The bits of x, which must be a value of the type.
std::uint32_t encode(float x, const StorageType& type) {
  const Fields is(type);
  const float magnitude = std::abs(x);
  std::uint32_t rest;
  if (std::isnan(x)) {
    rest = is.infinity() + is.implied_one() / 2;
  } else if (std::isinf(x)) {
    rest = is.infinity();
  } else if (magnitude < std::ldexp(1.0f, is.smallest_normal())) {
    rest = static_cast<std::uint32_t>(std::ldexp(double{magnitude}, -is.lowest));
  } else {
    const int exponent = std::ilogb(magnitude);
    const auto fraction = static_cast<std::uint32_t>(std::ldexp(magnitude, is.fraction_bits - exponent));
    rest = static_cast<std::uint32_t>(exponent - is.smallest_normal()) * is.implied_one() + fraction;
  }
  return (std::signbit(x) ? is.sign() : 0) | rest;
}

// The lowest `count` bytes of a word.
char* low_bytes(std::uint32_t& word, int count) {
  static_assert(std::endian::native == std::endian::little || std::endian::native == std::endian::big);
  return reinterpret_cast<char*>(&word) + (std::endian::native == std::endian::big ? 4 - count : 0);
}

float read(const void* data, DType dtype, std::int64_t index) {
  const StorageType& type = storage_type(dtype);
  std::uint32_t bits = 0;
  std::memcpy(low_bytes(bits, type.bytes), static_cast<const char*>(data) + index * type.bytes,
              static_cast<std::size_t>(type.bytes));
  return decode(bits, type);
}

void write(void* data, DType dtype, std::int64_t index, float x) {
  const StorageType& type = storage_type(dtype);
  std::uint32_t bits = encode(nearest(x, dtype), type);
  std::memcpy(static_cast<char*>(data) + index * type.bytes, low_bytes(bits, type.bytes),
              static_cast<std::size_t>(type.bytes));
}

// ---- the rotation ----

template <class Real>
struct PairOf {
  Real a;
  Real b;
};
template <class Real>
PairOf<Real> rotated(PairOf<Real> x, Real cos, Real sin) {
  return {x.a * cos - x.b * sin, x.b * cos + x.a * sin};
}

PairOf<float> rotated(PairOf<float> x, float cos, float sin, DType dtype, Arithmetic arithmetic) {
  const auto step = [&](float value) { return arithmetic == Arithmetic::each_step ? nearest(value, dtype) : value; };
  const float c = step(cos);
  const float s = step(sin);
  return {step(step(x.a * c) - step(x.b * s)), step(step(x.b * c) + step(x.a * s))};
}

// Rotates the pairs of a block: reads by read(element), rotates by turn(pair, number), writes by write(element, value).
template <class Real, class Read, class Turn, class Write>
void rotate_block(const TableShape& table, bool backward, const Read& read, const Turn& turn, const Write& write) {
  const bool crosses = table.pairing == Pairing::interleaved_to_half;
  const bool reads_half = table.pairing == Pairing::half || (crosses && backward);
  const bool writes_half = table.pairing == Pairing::half || (crosses && !backward);
  std::vector<PairOf<Real>> results;
  for (int i = 0; i < table.pairs; ++i) {
    results.push_back(turn(
        reads_half ? PairOf<Real>{read(i), read(table.pairs + i)} : PairOf<Real>{read(2 * i), read(2 * i + 1)}, i));
  }
  for (int i = 0; i < table.pairs; ++i) {
    const PairOf<Real> x = results[static_cast<std::size_t>(i)];
    write(writes_half ? i : 2 * i, x.a);
    write(writes_half ? table.pairs + i : 2 * i + 1, x.b);
  }
}

// Calls act(first element read, first element written, first value of the table's row) for each head.
template <class Act>
void for_each_head(const Layout& from, const Layout& to, const TableShape& table, const Act& act) {
  for (std::int64_t b = 0; b < from.batch; ++b) {
    for (std::int64_t t = 0; t < from.tokens; ++t) {
      const std::int64_t token = (table.batch == 1 ? 0 : b) * table.tokens + t;
      for (std::int64_t h = 0; h < from.heads; ++h) {
        act(b * from.batch_stride + t * from.token_stride + h * from.head_stride,
            b * to.batch_stride + t * to.token_stride + h * to.head_stride,
            (token * table.head_rows + h / (from.heads / table.head_rows)) * table.pairs);
      }
    }
  }
}

// Not inlined: the arithmetic must not move across the change of the floating-point state.
ROTARY_NOINLINE void rotate_all(const ConstHeads& x, const Heads& out, const Table& table, bool backward,
                                Arithmetic arithmetic) {
  const std::size_t size = size_of(x.dtype);
  for_each_head(x.layout, out.layout, shape_of(table), [&](std::int64_t in_at, std::int64_t out_at, std::int64_t row) {
    const float *cos = table.cos().data() + row, *sin = table.sin().data() + row;
    rotate_block<float>(
        shape_of(table), backward, [&](int d) { return read(x.data, x.dtype, in_at + d); },
        [&](PairOf<float> pair, int i) {
          return rotated(pair, cos[i], backward ? -sin[i] : sin[i], x.dtype, arithmetic);
        },
        [&](int d, float value) { write(out.data, x.dtype, out_at + d, value); });
    for (int d = table.rotary_dim(); d < x.layout.head_dim && x.data != out.data; ++d) {
      std::memcpy(static_cast<char*>(out.data) + static_cast<std::size_t>(out_at + d) * size,
                  static_cast<const char*>(x.data) + static_cast<std::size_t>(in_at + d) * size, size);
    }
  });
}

// ---- tables of doubles, by the formula ----

using LongTurn = PairOf<long double>;  // cos and sin

// The product is exactly high + low: low is its rounding error.
LongTurn turn_by(long double position, long double inv_freq) {
  const long double high = position * inv_freq;
  const long double low = std::fma(position, inv_freq, -high);
  return rotated<long double>({std::cos(high), std::sin(high)}, std::cos(low), std::sin(low));
}

// The amplitude of xPos for a pair.
long double amplitude(const Frequencies& f, long double position, std::size_t pair) {
  if (f.xpos.scale == 0) return 1;
  const long double zeta = (10.0L * static_cast<long double>(pair) + 4.0L * f.pairs()) / (14.0L * f.pairs());
  const long double power = (position - f.xpos.center) / f.xpos.scale;
  return std::pow(zeta, f.xpos.reciprocal ? -power : power);
}

}  // namespace

void rotate(const ConstHeads& x, const Heads& out, const Table& table, Direction direction, Arithmetic arithmetic) {
  check_rotate("reference::rotate", {x, out}, table, direction);
  if (arithmetic > Arithmetic::each_step)
    fail(Code::VALUE, "reference::rotate", "arithmetic must be f32 or each_step but got value ",
         static_cast<int>(arithmetic));
  const FloatState ours;
  rotate_all(x, out, table, direction == Direction::backward, arithmetic);
}

DoubleTable double_table(const Frequencies& frequencies, const Positions& positions) {
  std::vector<std::int64_t> converted;
  const PositionValues values = PositionsAccess::values(positions, converted);
  DoubleTable table;
  table.pairing = frequencies.pairing;
  table.pairs = frequencies.pairs();
  table.heads = frequencies.head_rows;
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
  if (frequencies.axes() > 1) check_axes("reference::double_table", frequencies, positions.axes());
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
  table.heads = given.head_rows();
  return table;
}

void rotate(std::span<double> x, const Layout& layout, const DoubleTable& table, Direction direction) {
  check_pairing("reference::rotate", table.pairing);
  if ((table.batch != 1 && table.batch != layout.batch) || table.tokens != layout.tokens)
    fail(Code::SHAPE, "reference::rotate", "the table must have the layout's rows but got ", table.batch, " x ",
         table.tokens, " for ", layout.batch, " x ", layout.tokens);
  if (2 * table.pairs > layout.head_dim)
    fail(Code::SHAPE, "reference::rotate", "the block must fit head_dim ", layout.head_dim, " but got ",
         2 * table.pairs, " elements");
  if (table.heads < 1 || layout.heads % table.heads != 0)
    fail(Code::SHAPE, "reference::rotate", "the layout must have a multiple of the ", table.heads,
         " heads that the table has rows for but has ", layout.heads);
  std::int64_t extent = layout.head_dim;
  if (has_elements(layout) && (!extend(extent, layout) || extent > std::ssize(x)))
    fail(Code::SHAPE, "reference::rotate", "x must hold the elements of its layout but has ", std::ssize(x));
  const std::int64_t rows = std::int64_t{table.batch} * table.tokens * table.heads;
  if (std::ssize(table.cos) < rows * table.pairs || std::ssize(table.sin) < rows * table.pairs)
    fail(Code::SHAPE, "reference::rotate", "cos and sin must hold the rows of the table but have ",
         std::ssize(table.cos), " and ", std::ssize(table.sin), " values");
  const TableShape shape{table.pairing, table.pairs, table.batch, table.tokens, table.heads};
  const bool backward = direction == Direction::backward;
  for_each_head(layout, layout, shape, [&](std::int64_t at, std::int64_t, std::int64_t row) {
    double* const head = x.data() + at;
    const double *cos = table.cos.data() + row, *sin = table.sin.data() + row;
    rotate_block<double>(
        shape, backward, [&](int d) { return head[d]; },
        [&](PairOf<double> pair, int i) { return rotated(pair, cos[i], backward ? -sin[i] : sin[i]); },
        [&](int d, double value) { head[d] = value; });
  });
}

}  // namespace rotary::reference
