#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>

#include "angle_job.h"
#include "cpu/targets.h"
#include "float_state.h"
#include "rotary/rotary.h"
#include "rows.h"
#include "turns.h"

namespace rotary {

int Frequencies::axes() const noexcept {
  int largest = 0;
  for (const std::uint8_t a : axis) largest = a > largest ? a : largest;
  return largest + 1;
}

// ---- positions -----------------------------------------------------------------------------------

namespace {

std::int64_t tokens_of(std::size_t size, int axes, int batch) {
  if (axes < 1) throw Error("SHAPE", "[positions] axes must be at least 1 but is " + std::to_string(axes));
  if (batch < 1) throw Error("SHAPE", "[positions] batch must be at least 1 but is " + std::to_string(batch));
  const auto rows = static_cast<std::uint64_t>(axes) * static_cast<std::uint64_t>(batch);
  if (size % rows != 0)
    throw Error("SHAPE", "[positions] the number of positions must be a multiple of axes * batch = " +
                             std::to_string(rows) + " but is " + std::to_string(size));
  return static_cast<std::int64_t>(size / rows);
}

}  // namespace

Positions::Positions(std::span<const std::int64_t> p, int axes_, int batch_)
    : integers(p.data()), axes(axes_), batch(batch_), tokens(tokens_of(p.size(), axes_, batch_)) {}

Positions::Positions(std::span<const double> p, int axes_, int batch_)
    : reals(p.data()), axes(axes_), batch(batch_), tokens(tokens_of(p.size(), axes_, batch_)) {}

// ---- checks --------------------------------------------------------------------------------------

namespace {

constexpr int largest_pairs = (1 << 30) - 1;  // so that rotary_dim is an int

std::string in_words(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", x);
  return text;
}

// The number of values where all are finite. Those are told without a branch each: a few nanoseconds for a row.
template <class Real>
std::size_t first_not_finite(std::span<const Real> values) noexcept {
  using Bits = std::conditional_t<sizeof(Real) == 8, std::uint64_t, std::uint32_t>;
  constexpr int fraction_bits = std::numeric_limits<Real>::digits - 1;
  constexpr Bits carry = Bits{1} << fraction_bits, exponent = (~Bits{0} >> 1) / carry * carry;
  Bits top = 0;  // its highest bit: some exponent is all ones
  for (const Real x : values) top |= (std::bit_cast<Bits>(x) & exponent) + carry;
  if (top >> (8 * sizeof(Bits) - 1) == 0) return values.size();
  const auto found = std::find_if_not(values.begin(), values.end(), [](Real x) { return std::isfinite(x); });
  return static_cast<std::size_t>(found - values.begin());
}

int checked_pairs(const Frequencies& f) {
  const std::size_t pairs = f.inv_freq.size();
  const auto expect = [&](const char* what, std::size_t size) {
    if (size != 0 && size != pairs)
      throw Error("SHAPE", std::string("[table] ") + what + " must be empty or have one value for each of the " +
                               std::to_string(pairs) + " pairs but has " + std::to_string(size));
  };
  if (pairs == 0) throw Error("SHAPE", "[table] inv_freq must have at least one pair but is empty");
  if (pairs > largest_pairs)
    throw Error("SHAPE", "[table] inv_freq must have fewer than 2^30 pairs but has " + std::to_string(pairs));
  expect("axis", f.axis.size());
  expect("inv_freq_float32", f.inv_freq_float32.size());
  if (const std::size_t i = first_not_finite<double>(f.inv_freq); i < pairs)
    throw Error("SCALING",
                "[table] inv_freq must be finite but is " + in_words(f.inv_freq[i]) + " at pair " + std::to_string(i));
  if (!std::isfinite(f.attention_factor))
    throw Error("SCALING", "[table] attention_factor must be finite but is " + in_words(f.attention_factor));
  return static_cast<int>(pairs);
}

void check_positions(const Frequencies& f, const Positions& p) {
  const int axes = f.axes();
  if (p.axes < 1 || p.batch < 1 || p.tokens < 0 || (p.tokens > 0 && p.integers == nullptr && p.reals == nullptr))
    throw Error("SHAPE", "[table] positions must be as their constructors make them but were changed");
  if (p.axes > 1 && axes == 1)
    throw Error("SHAPE",
                "[table] a rope of one axis takes positions of one axis but they have " + std::to_string(p.axes));
  if (p.axes > 1 && axes > p.axes)
    throw Error("SHAPE", "[table] the rope's axes are 0 to " + std::to_string(axes - 1) + " but the positions have " +
                             std::to_string(p.axes) + " axes");
  if (p.reals == nullptr) return;
  const std::int64_t count = static_cast<std::int64_t>(p.axes) * p.batch * p.tokens;
  for (std::int64_t k = 0; k < count; ++k) {
    if (!std::isfinite(p.reals[k]))
      throw Error("POSITION",
                  "[table] positions must be finite but position " + std::to_string(k) + " is " + in_words(p.reals[k]));
  }
}

std::size_t checked_size(const Positions& p, int pairs) {
  std::int64_t size = 0;
  if (__builtin_mul_overflow(static_cast<std::int64_t>(p.batch), p.tokens, &size) ||
      __builtin_mul_overflow(size, static_cast<std::int64_t>(pairs), &size) ||
      size > std::numeric_limits<std::ptrdiff_t>::max() / static_cast<std::int64_t>(sizeof(float)))
    throw Error("SHAPE", "[table] batch * tokens * pairs must fit in memory but is " + std::to_string(p.batch) + " * " +
                             std::to_string(p.tokens) + " * " + std::to_string(pairs));
  return static_cast<std::size_t>(size);
}

// ---- the float32 formula's inputs ----------------------------------------------------------------

// inv_freq in f32, padded as the kernels want it.
void prepare_float32(const Frequencies& f, std::vector<float>& result) {
  const std::size_t pairs = f.inv_freq.size();
  result.resize(static_cast<std::size_t>(padded_pairs(static_cast<int>(pairs))));
  std::fill(result.begin() + static_cast<std::ptrdiff_t>(pairs), result.end(), 0.0f);
  if (f.inv_freq_float32.empty()) {
    for (std::size_t i = 0; i < pairs; ++i) result[i] = static_cast<float>(f.inv_freq[i]);
  } else {
    std::copy(f.inv_freq_float32.begin(), f.inv_freq_float32.end(), result.begin());
  }
  if (const std::size_t i = first_not_finite<float>(result); i < pairs)
    throw Error("SCALING", "[table] inv_freq must be finite in float32 but is " + in_words(f.inv_freq[i]) +
                               " at pair " + std::to_string(i));
  if (!std::isfinite(static_cast<float>(f.attention_factor)))
    throw Error("SCALING", "[table] attention_factor must be finite in float32 but is " + in_words(f.attention_factor));
}

// The largest magnitude among the pairs of one axis. Magnitudes compare as their bits do.
float fastest_of(const AngleJob& job, int axis) noexcept {
  std::uint32_t fastest = 0;
  for (int i = 0; i < job.pairs; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(job.inv_freq_float32[i]) & 0x7fffffffu;
    const bool listens = job.axis == nullptr || job.axis[i] == axis;
    fastest = listens && magnitude > fastest ? magnitude : fastest;
  }
  return std::bit_cast<float>(fastest);
}

// No angle may overflow: each position meets the fastest pair of its axis.
void check_float32(const AngleJob& job) {
  for (int axis = 0; axis < job.axes; ++axis) {
    const float fastest = fastest_of(job, axis);
    for (std::int64_t k = axis * job.rows; k < (axis + 1) * job.rows; ++k) {
      const double p = job.integers != nullptr ? static_cast<double>(job.integers[k]) : job.reals[k];
      const float rounded = static_cast<float>(p);
      if (!std::isfinite(rounded) || !std::isfinite(rounded * fastest))
        throw Error("POSITION", "[table] position * inv_freq must be finite in float32 but is " + in_words(p) + " * " +
                                    in_words(fastest) + " at position " + std::to_string(k));
    }
  }
}

// ---- the work ------------------------------------------------------------------------------------

struct Work {
  AngleJob job;
  cpu::AnglesKernel kernel;
};

void fill_rows(void* context, std::int64_t begin, std::int64_t end) {
  const FloatState ours;
  const Work& work = *static_cast<const Work*>(context);
  work.kernel(work.job, begin, end);
}

}  // namespace

struct Table::State {
  Rows rows;
  Rows spare;  // where the next rows are made when making them may fail midway
  Turns turns;
  std::vector<float> float32;
};

Table::Table(const Frequencies& f, Pairing pairing, std::span<const std::int64_t> positions, Angles angles)
    : Table(f, pairing, Positions(positions), TableOptions{angles, DType::f32, nullptr}) {}

Table::Table(const Frequencies& f, Pairing pairing, const Positions& positions, const TableOptions& options) {
  assign(f, pairing, positions, options);
}

void Table::assign(const Frequencies& f, Pairing pairing, const Positions& positions, const TableOptions& options) {
  const FloatState ours;
  const int pairs = checked_pairs(f);
  if (options.rounding > DType::bf16)
    throw Error("DTYPE", "[table] rounding must be f32, f16 or bf16 but is value " +
                             std::to_string(static_cast<int>(options.rounding)));
  const std::size_t size = checked_size(positions, pairs);
  check_positions(f, positions);
  if (state_ == nullptr) state_ = std::make_unique<State>();
  Work work{{}, cpu::chosen().angles};
  AngleJob& job = work.job;
  job.angles = options.angles;
  job.rounding = options.rounding;
  job.clockwise = f.clockwise;
  job.pairs = pairs;
  job.padded = padded_pairs(pairs);
  job.rows = positions.batch * positions.tokens;
  job.integers = positions.integers;
  job.reals = positions.reals;
  job.axes = positions.axes;
  job.axis = positions.axes > 1 ? f.axis.data() : nullptr;
  job.inv_freq = f.inv_freq.data();
  job.attention_factor = f.attention_factor;
  if (options.angles == Angles::exact) {
    prepare(f.inv_freq, state_->turns);
    job.turns = state_->turns.limbs.data();
    job.floor = state_->turns.floor.data();
    if (!decidable(f.attention_factor)) work.kernel = settle_rows;
  } else {
    prepare_float32(f, state_->float32);
    job.inv_freq_float32 = state_->float32.data();
    job.factor_float32 = static_cast<float>(f.attention_factor);
    check_float32(job);
  }

  // An executor of the caller's may throw, the caller's own thread does not.
  Rows& rows = options.executor == nullptr ? state_->rows : state_->spare;
  rows.reserve(size);
  job.cos = rows.cos();
  job.sin = rows.sin();
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / pairs);  // rows of some ten microseconds
  const Executor& executor = options.executor != nullptr ? *options.executor : serial();
  executor.run(job.rows, grain, fill_rows, &work);
  if (options.executor != nullptr) state_->rows.swap(state_->spare);
  pairing_ = pairing;
  pairs_ = pairs;
  batch_ = positions.batch;
  tokens_ = positions.tokens;
  cos_ = {state_->rows.cos(), size};
  sin_ = {state_->rows.sin(), size};
}

Table::Table(std::span<const float> cos, std::span<const float> sin, int pairs, Pairing pairing, int batch)
    : pairing_(pairing), pairs_(pairs), batch_(batch) {
  if (pairs < 1 || pairs > largest_pairs)
    throw Error("SHAPE", "[table] pairs must be from 1 to 2^30 - 1 but is " + std::to_string(pairs));
  if (batch < 1) throw Error("SHAPE", "[table] batch must be at least 1 but is " + std::to_string(batch));
  if (cos.size() != sin.size())
    throw Error("SHAPE", "[table] cos and sin must have the same length but have " + std::to_string(cos.size()) +
                             " and " + std::to_string(sin.size()));
  const std::size_t row = static_cast<std::size_t>(batch) * static_cast<std::size_t>(pairs);
  if (cos.size() % row != 0)
    throw Error("SHAPE", "[table] the length of cos must be a multiple of batch * pairs = " + std::to_string(row) +
                             " but is " + std::to_string(cos.size()));
  tokens_ = static_cast<std::int64_t>(cos.size() / row);
  hold(cos, sin);
}

// ---- a value like others -------------------------------------------------------------------------

void Table::hold(std::span<const float> cos, std::span<const float> sin) {
  state_ = std::make_unique<State>();
  state_->rows.reserve(cos.size());
  cos_ = {std::copy(cos.begin(), cos.end(), state_->rows.cos()) - cos.size(), cos.size()};
  sin_ = {std::copy(sin.begin(), sin.end(), state_->rows.sin()) - sin.size(), sin.size()};
}

Table::Table(const Table& other)
    : pairing_(other.pairing_), pairs_(other.pairs_), batch_(other.batch_), tokens_(other.tokens_) {
  hold(other.cos_, other.sin_);
}

Table::Table(Table&& other) noexcept { *this = std::move(other); }

Table& Table::operator=(const Table& other) { return *this = Table(other); }

Table& Table::operator=(Table&& other) noexcept {
  state_ = std::move(other.state_);
  cos_ = std::exchange(other.cos_, {});
  sin_ = std::exchange(other.sin_, {});
  pairing_ = other.pairing_;
  pairs_ = other.pairs_;
  batch_ = other.batch_;
  tokens_ = std::exchange(other.tokens_, 0);
  return *this;
}

Table::~Table() = default;

}  // namespace rotary
