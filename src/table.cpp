#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <string>

#include "angle_job.h"
#include "cpu/targets.h"
#include "float_state.h"
#include "rotary/rotary.h"
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
  for (std::size_t i = 0; i < pairs; ++i) {
    if (!std::isfinite(f.inv_freq[i]))
      throw Error("SCALING", "[table] inv_freq must be finite but is " + in_words(f.inv_freq[i]) + " at pair " +
                                 std::to_string(i));
  }
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
std::vector<float> inv_freq_float32(const Frequencies& f, std::size_t padded) {
  std::vector<float> result(padded);
  for (std::size_t i = 0; i < f.inv_freq.size(); ++i) {
    result[i] = f.inv_freq_float32.empty() ? static_cast<float>(f.inv_freq[i]) : f.inv_freq_float32[i];
    if (!std::isfinite(result[i]))
      throw Error("SCALING", "[table] inv_freq must be finite in float32 but is " + in_words(f.inv_freq[i]) +
                                 " at pair " + std::to_string(i));
  }
  if (!std::isfinite(static_cast<float>(f.attention_factor)))
    throw Error("SCALING", "[table] attention_factor must be finite in float32 but is " + in_words(f.attention_factor));
  return result;
}

// No angle may overflow: each position meets the fastest pair of its axis.
void check_float32(const AngleJob& job, int axes) {
  for (int axis = 0; axis < axes; ++axis) {
    float fastest = 0;
    for (int i = 0; i < job.pairs; ++i) {
      if (job.axis == nullptr || job.axis[i] == axis) fastest = std::max(fastest, std::fabs(job.inv_freq_float32[i]));
    }
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
  DType rounding;
  bool clockwise;
};

// The rows of -angle: every sin with its sign turned, that of a zero too, since sin(-0) is -0.
void negate_sin(const AngleJob& job, std::int64_t begin, std::int64_t end) {
  std::transform(job.sin + begin * job.pairs, job.sin + end * job.pairs, job.sin + begin * job.pairs, std::negate<>());
}

void fill_rows(void* context, std::int64_t begin, std::int64_t end) {
  const FloatState ours;
  const Work& work = *static_cast<const Work*>(context);
  work.kernel(work.job, begin, end);
  if (work.rounding != DType::f32) narrow_rows(work.job, work.rounding, begin, end);
  if (work.clockwise) negate_sin(work.job, begin, end);
}

}  // namespace

Table::Table(const Frequencies& f, Pairing pairing, std::span<const std::int64_t> positions, Angles angles)
    : Table(f, pairing, Positions(positions), TableOptions{angles, DType::f32, nullptr}) {}

Table::Table(const Frequencies& f, Pairing pairing, const Positions& positions, const TableOptions& options)
    : pairing_(pairing), pairs_(checked_pairs(f)), batch_(positions.batch), tokens_(positions.tokens) {
  const FloatState ours;
  if (options.rounding > DType::bf16)
    throw Error("DTYPE", "[table] rounding must be f32, f16 or bf16 but is value " +
                             std::to_string(static_cast<int>(options.rounding)));
  const std::size_t size = checked_size(positions, pairs_);
  check_positions(f, positions);
  Work work{{}, cpu::chosen().angles, options.rounding, f.clockwise};
  AngleJob& job = work.job;
  job.angles = options.angles;
  job.pairs = pairs_;
  job.padded = padded_pairs(pairs_);
  job.rows = batch_ * tokens_;
  job.integers = positions.integers;
  job.reals = positions.reals;
  job.axis = positions.axes > 1 ? f.axis.data() : nullptr;
  job.inv_freq = f.inv_freq.data();
  job.attention_factor = f.attention_factor;

  Turns turns;
  std::vector<float> float32;
  if (options.angles == Angles::exact) {
    turns = turns_of(f.inv_freq);
    job.turns = turns.limbs.data();
    job.floor = turns.floor.data();
    if (!decidable(f.attention_factor)) work.kernel = settle_rows;
  } else {
    float32 = inv_freq_float32(f, static_cast<std::size_t>(job.padded));
    job.inv_freq_float32 = float32.data();
    job.factor_float32 = static_cast<float>(f.attention_factor);
    check_float32(job, positions.axes);
  }

  cos_.resize(size);
  sin_.resize(size);
  job.cos = cos_.data();
  job.sin = sin_.data();
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / pairs_);  // rows of some ten microseconds
  const Executor& executor = options.executor != nullptr ? *options.executor : serial();
  executor.run(job.rows, grain, fill_rows, &work);
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
  cos_.assign(cos.begin(), cos.end());
  sin_.assign(sin.begin(), sin.end());
}

}  // namespace rotary
