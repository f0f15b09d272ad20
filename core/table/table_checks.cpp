#include "runtime/arithmetic.h"

#include "table_checks.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "amplitude.h"
#include "angle_job.h"
#include "rotate/refuse.h"
#include "round_sum.h"
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

template <class... Parts>
[[noreturn]] void refuse_table(Code code, const Parts&... sentence) {
  fail(code, "table", sentence...);
}

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

void check_xpos(const Frequencies& f) {
  const XPos& x = f.xpos;
  if (!std::isfinite(x.scale) || x.scale < 0)
    refuse_table(Code::SCALING, "xpos's scale must be finite and above 0 but is ", x.scale);
  if (!std::isfinite(x.center)) refuse_table(Code::SCALING, "xpos's center must be finite but is ", x.center);
  if (x.scale > 0 && f.axes() != 1) refuse_table(Code::SHAPE, "xpos needs a rope of one axis but it has ", f.axes());
}

}  // namespace

int checked_pairs(const Frequencies& f) {
  check_pairing("table", f.pairing);
  const auto expect = [&](const char* what, const std::vector<double>::size_type size, std::size_t each) {
    if (size != 0 && size != each)
      refuse_table(Code::SHAPE, what, " must be empty or have one value for each of the ", each, " pairs but has ",
                   size);
  };
  const std::size_t size = f.inv_freq.size();
  if (size == 0) refuse_table(Code::SHAPE, "inv_freq must have at least one pair but is empty");
  if (size > largest_pairs) refuse_table(Code::SHAPE, "inv_freq must have fewer than 2^30 pairs but has ", size);
  if (f.head_rows < 1) refuse_table(Code::SHAPE, "head_rows must be at least 1 but is ", f.head_rows);
  if (f.summed_axes < 0 || f.summed_axes > 1024)  // between() has them, four times a rope's
    refuse_table(Code::SHAPE, "summed_axes must be from 0 to 1024 but is ", f.summed_axes);
  const std::size_t rows = static_cast<std::size_t>(f.head_rows) * static_cast<std::size_t>(std::max(1, f.summed_axes));
  if (size % rows != 0)
    refuse_table(Code::SHAPE, "inv_freq must have a value for each pair of ", f.head_rows, " head_rows and ",
                 std::max(1, f.summed_axes), " axes but has ", size, advice_on(f.head_rows));
  const std::size_t pairs = size / rows;
  expect("axis", f.axis.size(), pairs);
  if (f.summed_axes > 0 && !f.axis.empty())
    refuse_table(Code::SHAPE, "axis must be empty where axes are summed but has ", f.axis.size());
  expect("inv_freq_float32", f.inv_freq_float32.size(), size);
  if (f.phase.size() != pairs * static_cast<std::size_t>(f.head_rows)) expect("phase", f.phase.size(), pairs);
  if (const std::size_t i = first_not_finite<double>(f.inv_freq); i < size)
    refuse_table(Code::SCALING, "inv_freq must be finite but is ", all_digits(f.inv_freq[i]), " at pair ", i);
  if (const std::size_t i = first_not_finite<double>(f.phase); i < f.phase.size())
    refuse_table(Code::SCALING, "phase must be finite but is ", all_digits(f.phase[i]), " at pair ", i);
  if (!std::isfinite(f.attention_factor))
    refuse_table(Code::SCALING, "attention_factor must be finite but is ", all_digits(f.attention_factor));
  check_xpos(f);
  return static_cast<int>(pairs);
}

void check_magnitudes(const char* operation, const Frequencies& f) {
  for (const auto& [name, values] : {std::pair{"a frequency", &f.inv_freq}, std::pair{"a phase", &f.phase}}) {
    for (const double w : *values) {
      if (w != 0 && std::fabs(w) < least_frequency)
        fail(Code::SCALING, operation, name, " must be 0 or at least 2^-256 in magnitude but got ", w);
    }
  }
}

void check_magnitudes(const char* operation, const Positions& p, const double* reals) {
  const std::int64_t count = reals == nullptr ? 0 : std::int64_t{p.axes()} * p.batch() * p.tokens();
  for (std::int64_t k = 0; k < count; ++k) {
    if (reals[k] != 0 && std::fabs(reals[k]) < least_position)
      fail(Code::POSITION, operation, "a position must be 0 or at least 2^-64 in magnitude but got ", reals[k]);
  }
}

void check_amplitudes(const Frequencies& f, const PositionValues& values, std::int64_t count) {
  for (std::int64_t k = 0; k < count; ++k) {
    const double p = values.integers != nullptr ? static_cast<double>(values.integers[k]) : values.reals[k];
    if (!has_amplitude(f.xpos, p))
      refuse_table(Code::POSITION,
                   "xpos's amplitude must be finite in float32, with positions within 70 scales of the "
                   "center, but position ",
                   k, " is ", all_digits(p));
  }
}

void check_sum(const Frequencies& f, Angles angles) {
  if (angles != Angles::exact)
    refuse_table(Code::VALUE, "angles must be exact where axes are summed, or with a phase or xpos, but got float32");
  check_magnitudes("table", f);
}

void check_axes(const char* operation, const Frequencies& f, int position_axes) {
  const int axes = f.axes();
  const auto refuse = [&](const auto&... sentence) { fail(Code::SHAPE, operation, sentence...); };
  if (f.summed_axes > position_axes)
    refuse("the positions must have the ", axes, " axes of inv_freq but have ", position_axes);
  if (position_axes > 1 && axes == 1)
    refuse("a rope of one axis takes positions of one axis but they have ", position_axes);
  if (position_axes > 1 && axes > position_axes)
    refuse("the rope's axes are 0 to ", axes - 1, " but the positions have ", position_axes, " axes");
}

void check_positions(const Frequencies& f, const Positions& p, const double* reals) {
  const int axes = f.axes();
  if (axes > 1) check_axes("table", f, p.axes());
  if (reals == nullptr) return;
  const std::int64_t count = static_cast<std::int64_t>(std::min(axes, p.axes())) * p.batch() * p.tokens();
  for (std::int64_t k = 0; k < count; ++k) {
    if (!std::isfinite(reals[k]))
      fail(Code::POSITION, "table", "positions must be finite but position ", k, " is ", all_digits(reals[k]));
  }
}

void check_rows(const char* operation, const Rows& r) {
  check_pairing(operation, r.pairing);
  const auto refuse = [&](Code code, const auto&... sentence) { fail(code, operation, sentence...); };
  check_dtype(operation, r.dtype);
  if (r.pairs < 1 || r.pairs > largest_pairs)
    refuse(Code::SHAPE, "rows must have 1 to 2^30 - 1 pairs but have ", r.pairs);
  if (r.head_rows < 1 || r.head_rows > largest_pairs / r.pairs)
    refuse(Code::SHAPE, "head_rows must be at least 1, and head_rows * pairs below 2^30, but head_rows is ",
           r.head_rows);
  std::int64_t reach = 0;
  if (r.stride < 0 || r.rows < 0 || multiply_overflows(r.rows, r.stride, &reach) || reach > INT64_MAX / 8)
    refuse(Code::SHAPE, "rows must have a count and a stride that are not negative and fit in memory but have ", r.rows,
           " and ", r.stride);
  if (r.rows > 1 && r.stride < std::int64_t{r.head_rows} * r.pairs)
    refuse(Code::SHAPE, "stride must be at least the ", std::int64_t{r.head_rows} * r.pairs,
           " values of a row but got ", r.stride);
  if (PositionsAccess::are_real(r.numbers))
    refuse(Code::POSITION, "the numbers of rows must be integers of one axis but are doubles");
  if (r.numbers.axes() != 1)
    refuse(Code::POSITION, "the numbers of rows must be integers of one axis but have ", r.numbers.axes(), " axes");
  const std::int64_t count = r.numbers.batch() * r.numbers.tokens();
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t n = PositionsAccess::integer(r.numbers, i);
    if (n < 0 || n >= r.rows)
      refuse(Code::POSITION, "the number of a row must be from 0 to ", r.rows - 1, " but token ", i, " has ", n);
  }
  if (count == 0) return;
  check_pointer(operation, "cos", r.cos, static_cast<std::size_t>(bytes_of(r.dtype)));
  check_pointer(operation, "sin", r.sin, static_cast<std::size_t>(bytes_of(r.dtype)));
}

void check_options(const TableOptions& options) {
  if (options.angles > Angles::float32)
    fail(Code::VALUE, "table", "angles must be exact or float32 but got value ", static_cast<int>(options.angles));
  if (options.rounding > Rounding::bf16)
    fail(Code::VALUE, "table", "rounding must be f32, f16 or bf16 but got value ", static_cast<int>(options.rounding));
}

std::size_t checked_size(int batch, std::int64_t tokens, int pairs) {
  std::int64_t size = 0;
  if (multiply_overflows(std::int64_t{batch}, tokens, &size) ||
      multiply_overflows(size, static_cast<std::int64_t>(pairs), &size) ||
      size > std::numeric_limits<std::ptrdiff_t>::max() / static_cast<std::int64_t>(sizeof(float)))
    fail(Code::SHAPE, "table", "batch * tokens * pairs must fit in memory but is ", batch, " * ", tokens, " * ", pairs);
  return static_cast<std::size_t>(size);
}

std::int64_t checked_tokens(std::size_t cos, std::size_t sin, int pairs, int batch, int head_rows) {
  if (pairs < 1 || pairs > largest_pairs) fail(Code::SHAPE, "table", "pairs must be from 1 to 2^30 - 1 but is ", pairs);
  if (head_rows < 1 || head_rows > largest_pairs / pairs)
    fail(Code::SHAPE, "table", "head_rows must be at least 1, and head_rows * pairs below 2^30, but head_rows is ",
         head_rows);
  if (batch < 1) fail(Code::SHAPE, "table", "batch must be at least 1 but is ", batch);
  if (cos != sin) fail(Code::SHAPE, "table", "cos and sin must have the same length but have ", cos, " and ", sin);
  const std::size_t row =
      static_cast<std::size_t>(batch) * static_cast<std::size_t>(head_rows) * static_cast<std::size_t>(pairs);
  if (cos % row != 0)
    fail(Code::SHAPE, "table", "the length of cos must be a multiple of batch * ", head_rows > 1 ? "head_rows * " : "",
         "pairs = ", row, " but is ", cos);
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
    fail(Code::SCALING, "table", "inv_freq must be finite in float32 but is ", all_digits(f.inv_freq[i]), " at pair ",
         i);
  if (!std::isfinite(static_cast<float>(f.attention_factor)))
    fail(Code::SCALING, "table", "attention_factor must be finite in float32 but is ", all_digits(f.attention_factor));
}

void check_float32(const AngleJob& job) {
  for (int axis = 0; axis < job.axes; ++axis) {
    const float fastest = fastest_of(job, axis);
    for (std::int64_t k = axis * job.rows; k < (axis + 1) * job.rows; ++k) {
      const double p = job.integers != nullptr ? static_cast<double>(job.integers[k]) : job.reals[k];
      const float rounded = static_cast<float>(p);
      if (!std::isfinite(rounded) || !std::isfinite(rounded * fastest))
        fail(Code::POSITION, "table", "position * inv_freq must be finite in float32 but is ", all_digits(p), " * ",
             all_digits(fastest), " at position ", k);
    }
  }
}

}  // namespace rotary::detail
