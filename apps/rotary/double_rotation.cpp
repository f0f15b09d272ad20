#include "double_rotation.h"

#include <cmath>
#include <cstddef>

namespace rotary::cli {

namespace {

struct Turn {
  long double cos;
  long double sin;
};

// The product is high + low without an error: low is what rounding took from it.
Turn turn_by(long double position, long double inv_freq) {
  const long double high = position * inv_freq;
  const long double low = std::fma(position, inv_freq, -high);
  const long double c = std::cos(high), s = std::sin(high), cl = std::cos(low), sl = std::sin(low);
  return {c * cl - s * sl, s * cl + c * sl};
}

struct Pair {
  double a;
  double b;
};

void rotate_head(double* x, const double* cos, const double* sin, const DoubleRows& rows, bool backward,
                 std::vector<Pair>& results) {
  const auto pairs = static_cast<std::size_t>(rows.pairs);
  const bool crosses = rows.pairing == Pairing::interleaved_to_half;
  const bool reads_half = rows.pairing == Pairing::half || (crosses && backward);
  const bool writes_half = rows.pairing == Pairing::half || (crosses && !backward);
  for (std::size_t i = 0; i < pairs; ++i) {
    const Pair in = reads_half ? Pair{x[i], x[pairs + i]} : Pair{x[2 * i], x[2 * i + 1]};
    const double s = backward ? -sin[i] : sin[i];
    results[i] = {in.a * cos[i] - in.b * s, in.b * cos[i] + in.a * s};
  }
  for (std::size_t i = 0; i < pairs; ++i) {
    x[writes_half ? i : 2 * i] = results[i].a;
    x[writes_half ? pairs + i : 2 * i + 1] = results[i].b;
  }
}

}  // namespace

DoubleRows double_rows(const Frequencies& frequencies, const PositionSet& positions) {
  DoubleRows rows;
  rows.pairing = frequencies.pairing;
  rows.pairs = static_cast<int>(frequencies.inv_freq.size());
  rows.batch = positions.batch;
  rows.tokens = positions.tokens;
  const std::size_t pairs = frequencies.inv_freq.size();
  const auto count = static_cast<std::size_t>(positions.batch) * static_cast<std::size_t>(positions.tokens);
  rows.cos.reserve(count * pairs);
  rows.sin.reserve(count * pairs);
  const long double factor = frequencies.attention_factor;
  for (std::size_t row = 0; row < count; ++row) {
    for (std::size_t i = 0; i < pairs; ++i) {
      const std::size_t axis = positions.axes == 1 || frequencies.axis.empty() ? 0 : frequencies.axis[i];
      const std::size_t at = axis * count + row;
      const long double position = positions.reals.empty() ? static_cast<long double>(positions.integers[at])
                                                           : static_cast<long double>(positions.reals[at]);
      const Turn turn = turn_by(position, frequencies.inv_freq[i]);
      rows.cos.push_back(static_cast<double>(factor * turn.cos));
      rows.sin.push_back(static_cast<double>((frequencies.clockwise ? -factor : factor) * turn.sin));
    }
  }
  return rows;
}

DoubleRows double_rows(const Table& table) {
  DoubleRows rows;
  rows.cos.assign(table.cos().begin(), table.cos().end());
  rows.sin.assign(table.sin().begin(), table.sin().end());
  rows.pairing = table.pairing();
  rows.pairs = table.pairs();
  rows.batch = table.batch();
  rows.tokens = table.tokens();
  return rows;
}

void rotate_doubles(const char* operation, const std::string& label, std::span<double> x, const Layout& block,
                    const DoubleRows& rows, Direction direction) {
  if (rows.batch != 1 && rows.batch != block.batch) {
    throw Error(Code::SHAPE, "[" + std::string(operation) + "] positions must have 1 batch row, or the " +
                                 std::to_string(block.batch) + " of " + label + ", but got " +
                                 std::to_string(rows.batch));
  }
  std::vector<Pair> results(static_cast<std::size_t>(rows.pairs));
  for (std::int64_t b = 0; b < block.batch; ++b) {
    for (std::int64_t t = 0; t < block.tokens; ++t) {
      const std::int64_t row = ((rows.batch == 1 ? 0 : b) * rows.tokens + t) * rows.pairs;
      for (std::int64_t h = 0; h < block.heads; ++h) {
        const std::int64_t at = b * block.batch_stride + t * block.token_stride + h * block.head_stride;
        rotate_head(x.data() + at, rows.cos.data() + row, rows.sin.data() + row, rows, direction == Direction::backward,
                    results);
      }
    }
  }
}

}  // namespace rotary::cli
