#include "runtime/arithmetic.h"

#include "table_checks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <type_traits>

#include "angle_job.h"
#include "positions.h"
#include "rotate/refuse.h"
#include "runtime/compiler.h"
#include "turns.h"
#include "values/fail.h"
#include "values/number_text.h"
#include "values/pairings.h"

namespace rotary::detail {

namespace {

std::string all_digits(double x) { return significant(x, 17); }

// The index of the first value that is not finite, or values.size(). Finite values are recognised without a branch per
// value: a few nanoseconds for a row.
template <class Real>
std::size_t first_not_finite(std::span<const Real> values) noexcept {
  using Bits = std::conditional_t<sizeof(Real) == 8, std::uint64_t, std::uint32_t>;
  constexpr int fraction_bits = std::numeric_limits<Real>::digits - 1;
  constexpr Bits carry = Bits{1} << fraction_bits, exponent = (~Bits{0} >> 1) / carry * carry;
  Bits top = 0;  // its highest bit is set if some exponent is all ones
  for (const Real x : values) top |= (std::bit_cast<Bits>(x) & exponent) + carry;
  if (top >> (8 * sizeof(Bits) - 1) == 0) return values.size();
  const auto found = std::find_if_not(values.begin(), values.end(), [](Real x) { return std::isfinite(x); });
  return static_cast<std::size_t>(found - values.begin());
}

}  // namespace

int checked_pairs(const Frequencies& f) {
  check_pairing("table", f.pairing);
  const std::size_t pairs = f.inv_freq.size();
  const auto expect = [&](const char* what, std::size_t size) {
    if (size != 0 && size != pairs)
      fail(Code::SHAPE, "table",
           std::string(what) + " must be empty or have one value for each of the " + std::to_string(pairs) +
               " pairs but has " + std::to_string(size));
  };
  if (pairs == 0) fail(Code::SHAPE, "table", "inv_freq must have at least one pair but is empty");
  if (pairs > largest_pairs)
    fail(Code::SHAPE, "table", "inv_freq must have fewer than 2^30 pairs but has " + std::to_string(pairs));
  expect("axis", f.axis.size());
  expect("inv_freq_float32", f.inv_freq_float32.size());
  if (const std::size_t i = first_not_finite<double>(f.inv_freq); i < pairs)
    fail(Code::SCALING, "table",
         "inv_freq must be finite but is " + all_digits(f.inv_freq[i]) + " at pair " + std::to_string(i));
  if (!std::isfinite(f.attention_factor))
    fail(Code::SCALING, "table", "attention_factor must be finite but is " + all_digits(f.attention_factor));
  return static_cast<int>(pairs);
}

void check_axes(const char* operation, int rope_axes, int position_axes) {
  const auto refuse = [&](const std::string& sentence) { fail(Code::SHAPE, operation, sentence); };
  if (position_axes > 1 && rope_axes == 1)
    refuse("a rope of one axis takes positions of one axis but they have " + std::to_string(position_axes));
  if (position_axes > 1 && rope_axes > position_axes)
    refuse("the rope's axes are 0 to " + std::to_string(rope_axes - 1) + " but the positions have " +
           std::to_string(position_axes) + " axes");
}

void check_positions(const Frequencies& f, const Positions& p, const double* reals) {
  const int axes = f.axes();
  if (axes > 1) check_axes("table", axes, p.axes());
  if (reals == nullptr) return;
  const std::int64_t count = static_cast<std::int64_t>(std::min(axes, p.axes())) * p.batch() * p.tokens();
  for (std::int64_t k = 0; k < count; ++k) {
    if (!std::isfinite(reals[k]))
      fail(Code::POSITION, "table",
           "positions must be finite but position " + std::to_string(k) + " is " + all_digits(reals[k]));
  }
}

void check_rows(const char* operation, const Rows& r) {
  check_pairing(operation, r.pairing);
  const auto refuse = [&](Code code, const std::string& sentence) { fail(code, operation, sentence); };
  check_dtype(operation, r.dtype);
  if (r.pairs < 1 || r.pairs > largest_pairs)
    refuse(Code::SHAPE, "rows must have 1 to 2^30 - 1 pairs but have " + std::to_string(r.pairs));
  std::int64_t reach = 0;
  if (r.stride < 0 || r.rows < 0 || multiply_overflows(r.rows, r.stride, &reach) || reach > INT64_MAX / 8)
    refuse(Code::SHAPE, "rows must have a count and a stride that are not negative and fit in memory but have " +
                            std::to_string(r.rows) + " and " + std::to_string(r.stride));
  if (r.numbers.axes() != 1 || PositionsAccess::are_real(r.numbers))
    refuse(Code::POSITION, "the numbers of rows must be integers of one axis");
  const std::int64_t count = r.numbers.batch() * r.numbers.tokens();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t n = PositionsAccess::integer(r.numbers, i);
    if (n < 0 || n >= r.rows)
      refuse(Code::POSITION, "the number of a row must be from 0 to " + std::to_string(r.rows - 1) + " but token " +
                                 std::to_string(i) + " has " + std::to_string(n));
  }
  if (count == 0) return;
  check_pointer(operation, "cos", r.cos, static_cast<std::size_t>(bytes_of(r.dtype)));
  check_pointer(operation, "sin", r.sin, static_cast<std::size_t>(bytes_of(r.dtype)));
}

void check_options(const TableOptions& options) {
  if (options.angles > Angles::float32)
    fail(Code::VALUE, "table",
         "angles must be exact or float32 but got value " + std::to_string(static_cast<int>(options.angles)));
  if (options.rounding > Rounding::bf16)
    fail(Code::VALUE, "table",
         "rounding must be f32, f16 or bf16 but got value " + std::to_string(static_cast<int>(options.rounding)));
}

std::size_t checked_size(int batch, std::int64_t tokens, int pairs) {
  std::int64_t size = 0;
  if (multiply_overflows(std::int64_t{batch}, tokens, &size) ||
      multiply_overflows(size, static_cast<std::int64_t>(pairs), &size) ||
      size > std::numeric_limits<std::ptrdiff_t>::max() / static_cast<std::int64_t>(sizeof(float)))
    fail(Code::SHAPE, "table",
         "batch * tokens * pairs must fit in memory but is " + std::to_string(batch) + " * " + std::to_string(tokens) +
             " * " + std::to_string(pairs));
  return static_cast<std::size_t>(size);
}

std::int64_t checked_tokens(std::size_t cos, std::size_t sin, int pairs, int batch) {
  if (pairs < 1 || pairs > largest_pairs)
    fail(Code::SHAPE, "table", "pairs must be from 1 to 2^30 - 1 but is " + std::to_string(pairs));
  if (batch < 1) fail(Code::SHAPE, "table", "batch must be at least 1 but is " + std::to_string(batch));
  if (cos != sin)
    fail(Code::SHAPE, "table",
         "cos and sin must have the same length but have " + std::to_string(cos) + " and " + std::to_string(sin));
  const std::size_t row = static_cast<std::size_t>(batch) * static_cast<std::size_t>(pairs);
  if (cos % row != 0)
    fail(Code::SHAPE, "table",
         "the length of cos must be a multiple of batch * pairs = " + std::to_string(row) + " but is " +
             std::to_string(cos));
  return static_cast<std::int64_t>(cos / row);
}

// ---- the float32 formula's inputs ----------------------------------------------------------------

void prepare_float32(const Frequencies& f, std::vector<float>& result) {
  const std::size_t pairs = f.inv_freq.size();
  result.resize(static_cast<std::size_t>(padded_pairs(static_cast<int>(pairs))));
  std::fill(result.begin() + static_cast<std::ptrdiff_t>(pairs), result.end(), 0.0f);
  if (f.inv_freq_float32.empty()) {
    for (std::size_t i = 0; i < pairs; ++i) result[i] = static_cast<float>(f.inv_freq[i]);
  } else {
    std::copy(f.inv_freq_float32.begin(), f.inv_freq_float32.end(), result.begin());
  }
}

void check_float32(const Frequencies& f, const std::vector<float>& prepared) {
  if (const std::size_t i = first_not_finite<float>(prepared); i < f.inv_freq.size())
    fail(Code::SCALING, "table",
         "inv_freq must be finite in float32 but is " + all_digits(f.inv_freq[i]) + " at pair " + std::to_string(i));
  if (!std::isfinite(static_cast<float>(f.attention_factor)))
    fail(Code::SCALING, "table", "attention_factor must be finite in float32 but is " + all_digits(f.attention_factor));
}

namespace {

// The largest magnitude among the pairs of one axis. Magnitudes compare like their bits.
float fastest_of(const AngleJob& job, int axis) noexcept {
  std::uint32_t fastest = 0;
  for (int i = 0; i < job.pairs; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(job.inv_freq_float32[i]) & 0x7fffffffu;
    const bool listens = job.axis == nullptr || job.axis[i] == axis;
    fastest = listens && magnitude > fastest ? magnitude : fastest;
  }
  return std::bit_cast<float>(fastest);
}

}  // namespace

void check_float32(const AngleJob& job) {
  for (int axis = 0; axis < job.axes; ++axis) {
    const float fastest = fastest_of(job, axis);
    for (std::int64_t k = axis * job.rows; k < (axis + 1) * job.rows; ++k) {
      const double p = job.integers != nullptr ? static_cast<double>(job.integers[k]) : job.reals[k];
      const float rounded = static_cast<float>(p);
      if (!std::isfinite(rounded) || !std::isfinite(rounded * fastest))
        fail(Code::POSITION, "table",
             "position * inv_freq must be finite in float32 but is " + all_digits(p) + " * " + all_digits(fastest) +
                 " at position " + std::to_string(k));
    }
  }
}

}  // namespace rotary::detail
