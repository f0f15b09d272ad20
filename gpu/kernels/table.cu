// Rows of cos and sin: the values of rotary::Table, bit for bit, because a correctly rounded value is unique.
//
// Each thread has one pair and loops over rows. The fast paths are those of core/cpu/angles/angles.inc: the same
// remainders, polynomials and errors, and the same test for a double that lies too near a rounding boundary. Such a
// value, and every case that the fast paths do not cover, is computed in the wide arithmetic of round_once.h.
//
// Pairs that read a position which is not finite, or whose float32 angle is not finite, get NaN.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels.h"
#include "launch.h"
#include "table/amplitude.h"
#include "table/angle_job.h"
#include "table/narrow.h"
#include "table/round_sum.h"
#include "table/turns_polynomials.h"

namespace rotary::gpu {
namespace {

constexpr int max_threads = 256;           // in a block
constexpr std::int64_t max_blocks = 1056;  // a few per multiprocessor; their threads loop over the rows

// ---- the inputs of a value -----------------------------------------------------------------------

__device__ inline std::int64_t integer_position(const PositionArrays& p, std::int64_t at) {
  return p.i64 != nullptr ? p.i64[at] : p.i32[at];
}

__device__ inline float float32_angle(const TableJob& job, std::int64_t at, int pair) {
  const PositionArrays& p = job.positions;
  const float position = p.f64 != nullptr ? static_cast<float>(p.f64[at]) : static_cast<float>(integer_position(p, at));
  return __fmul_rn(position, job.frequencies.inv_freq_float32[pair]);
}

// ---- from a remainder to a value -----------------------------------------------------------------

struct Doubles {
  double cos, sin;
};

// cos and sin of the angle that lies t units of 2^-66 turns beyond a quarter turn. The top two bits of `quarter` are
// the number of that quarter turn.
__device__ inline Doubles cos_sin(double t, double square, std::uint64_t quarter) {
  constexpr TurnsPolynomials p;
  double s = p.sine[6], c = p.cosine[7];
  for (int k = 6; k-- > 0;) s = __fma_rn(s, square, p.sine[k]);
  for (int k = 7; k-- > 0;) c = __fma_rn(c, square, p.cosine[k]);
  s = __dmul_rn(s, t);
  const bool swap = (quarter >> 62 & 1) != 0;
  const double cos = swap ? s : c, sin = swap ? c : s;
  return {(quarter + (std::uint64_t{1} << 62)) >> 63 != 0 ? -cos : cos, quarter >> 63 != 0 ? -sin : sin};
}

__device__ inline bool open(double x) {
  const auto low = static_cast<std::uint32_t>(__double_as_longlong(x));
  return ((low + half_and_distance) & beyond_distance) == 0;
}

// ---- the fast paths ------------------------------------------------------------------------------

// One pair's turns, as in FrequencyArrays::limbs.
struct Limbs {
  std::uint64_t limb[limbs_per_pair];
  __device__ Limbs(const FrequencyArrays& f, int pair) {
    for (int k = 0; k < limbs_per_pair; ++k) limb[k] = f.limbs[static_cast<std::int64_t>(k) * f.pairs + pair];
  }
};

// The value rounded to f32; false if the rounding is not decided.
__device__ inline bool quick_exact(const TableJob& job, const Limbs& turns, std::int64_t at, int pair, CosSin& value) {
  const std::int64_t position = integer_position(job.positions, at);
  const std::uint64_t bits = static_cast<std::uint64_t>(position), n = position < 0 ? 0 - bits : bits;
  // The phase of |position| in turns: upper 2^-64 + lower 2^-128, less than 2^-126 too small.
  const std::uint64_t product = n * turns.limb[1], lower = product + __umul64hi(n, turns.limb[2]);
  const std::uint64_t upper = n * turns.limb[0] + __umul64hi(n, turns.limb[1]) + (lower < product ? 1 : 0);
  // Shifted left by two bits, the phase is its distance from the nearest quarter turn, as a signed integer.
  const auto high = static_cast<double>(static_cast<std::int64_t>(upper << 2));
  const double t = __fma_rn(static_cast<double>(static_cast<std::uint32_t>(lower >> 32)), 0x1p-30, high);
  const double square = __dmul_rn(t, t), factor = job.frequencies.attention_factor;
  const Doubles x = cos_sin(t, square, upper + (std::uint64_t{1} << 61));
  const double cos = __dmul_rn(x.cos, factor);
  const double sin = __dadd_rn(__dmul_rn(x.sin, position < 0 ? -factor : factor), 0.0);  // makes a sine of zero +0
  value = {static_cast<float>(cos), static_cast<float>(sin)};
  if (open(cos) || open(sin)) return false;
  // A small remainder has too few bits of the phase, unless the phase is exactly 0.
  return square >= smallest_square || position == 0 || job.frequencies.inv_freq[pair] == 0;
}

// The value before the attention factor; false if the rounding is not decided. angles.inc says why no bits are lost.
__device__ inline bool quick_float32(const TableJob& job, std::int64_t at, int pair, CosSin& value) {
  constexpr double largest_square = 0x1p48, shifter = 0x1.8p52, quarters_per_radian = 0x1.45f306dc9c883p-1;
  constexpr double unit = 0x1p66, turns_1 = 0x1.45f306dp-3 * unit, turns_2 = 0x1.9391054p-32 * unit,
                   turns_3 = 0x1.4fe13abe8fa9ap-61 * unit;
  const double b = float32_angle(job, at, pair);
  const double shifted = __fma_rn(b, quarters_per_radian, shifter);
  double t = __fma_rn(__dsub_rn(shifted, shifter), -0.25 * unit, __dmul_rn(b, turns_1));
  t = __fma_rn(b, turns_2, t);
  t = __fma_rn(b, turns_3, t);
  const Doubles x = cos_sin(t, __dmul_rn(t, t), static_cast<std::uint64_t>(__double_as_longlong(shifted)) << 62);
  value = {static_cast<float>(x.cos), static_cast<float>(x.sin)};
  return !open(x.cos) && !open(x.sin) && __dmul_rn(b, b) <= largest_square;
}

template <Rounding Type>
__device__ inline bool narrow_both(CosSin& x) {
  const bool decided = (midway<Type>(x.cos) | midway<Type>(x.sin)) == 0;
  x = {narrowed<Type>(x.cos), narrowed<Type>(x.sin)};
  return decided;
}

// Rounds from f32 to the type; false if a value lies midway, so that the real number must decide.
__device__ inline bool narrow(Rounding type, CosSin& x) {
  if (type == Rounding::f32) return true;
  return type == Rounding::f16 ? narrow_both<Rounding::f16>(x) : narrow_both<Rounding::bf16>(x);
}

// The float32 steps after cos and sin.
__device__ inline void finish_float32(const TableJob& job, CosSin& x) {
  const float factor = job.frequencies.factor_float32;
  x = {__fmul_rn(x.cos, factor), __fmul_rn(x.sin, factor)};
  if (x.cos == x.cos) narrow(job.rounding, x);
}

__device__ inline bool quick(const TableJob& job, const Limbs& turns, std::int64_t at, int pair, CosSin& x) {
  if (job.angles == Angles::float32) {
    const bool decided = quick_float32(job, at, pair, x);
    finish_float32(job, x);
    return decided;
  }
  if (job.positions.f64 != nullptr || !job.frequencies.decidable) return false;
  return quick_exact(job, turns, at, pair, x) && narrow(job.rounding, x);
}

// ---- the slow path --------------------------------------------------------------------------------

__device__ inline bool finite(double x) { return x - x == 0; }

__device__ CosSin slow_float32(const TableJob& job, std::int64_t at, int pair) {
  const float angle = float32_angle(job, at, pair);
  if (!finite(angle)) return {angle - angle, angle - angle};
  CosSin x = round_once({false, 1, 0}, angle, 1, Rounding::f32);
  if (angle == 0) x.sin = angle;  // keeps -0
  finish_float32(job, x);
  return x;
}

__device__ CosSin slow_exact(const TableJob& job, std::int64_t at, int pair) {
  const FrequencyArrays& f = job.frequencies;
  Dyadic position;
  if (job.positions.f64 != nullptr) {
    const double p = job.positions.f64[at];
    if (!finite(p)) return {static_cast<float>(p - p), static_cast<float>(p - p)};
    position = dyadic(p);
  } else {
    position = dyadic(integer_position(job.positions, at));
  }
  return round_once(position, f.inv_freq[pair], f.attention_factor, job.rounding);
}

// ---- rows ----------------------------------------------------------------------------------------

// A thread's rows of one pair.
struct Share {
  int pair;
  std::int64_t positions;  // index of the first position that the pair reads
  std::int64_t row, step;
};

__device__ inline void store(const TableJob& job, std::int64_t row, int pair, const CosSin& x) {
  const std::int64_t to = row * job.frequencies.pairs + pair;
  job.cos[to] = x.cos;
  job.sin[to] = job.frequencies.clockwise ? -x.sin : x.sin;
}

// A second pass over the rows, for values that the fast path leaves open. Not inlined because it needs many registers.
__device__ __noinline__ void settle(const TableJob& job, Share share) {
  const Limbs turns(job.frequencies, share.pair);
  for (std::int64_t row = share.row; row < job.positions.rows; row += share.step) {
    const std::int64_t at = share.positions + row;
    CosSin x;
    if (quick(job, turns, at, share.pair, x)) continue;
    x = job.angles == Angles::float32 ? slow_float32(job, at, share.pair) : slow_exact(job, at, share.pair);
    store(job, row, share.pair, x);
  }
}

// A block has whole rows of few pairs, or blockDim.x pairs of a row. slices: blocks per row.
__global__ void __launch_bounds__(max_threads, 4) fill_rows(const __grid_constant__ TableJob job, unsigned slices) {
  const FrequencyArrays& f = job.frequencies;
  const auto threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  const int width = f.pairs < threads ? f.pairs : threads;
  const std::int64_t rows = job.positions.rows, rows_of_block = threads / width;
  const int pair = static_cast<int>(blockIdx.x % slices) * threads + thread % width;
  wait_for_earlier_kernels();
  if (pair >= f.pairs) return;
  const bool first_axis = job.positions.one_axis || f.axis == nullptr;
  const Share share = {pair, first_axis ? 0 : f.axis[pair] * rows, blockIdx.x / slices * rows_of_block + thread / width,
                       gridDim.x / slices * rows_of_block};
  const Limbs turns(f, pair);
  bool open = false;
  for (std::int64_t row = share.row; row < rows; row += share.step) {
    CosSin x;
    if (quick(job, turns, share.positions + row, pair, x)) {
      store(job, row, pair, x);
    } else {
      open = true;
    }
  }
  if (open) settle(job, share);
}

// ---- sums of angles, all in wide arithmetic ------------------------------------------------------

// Computes an angle; false if the position is not valid.
__device__ bool angle_at(const PositionArrays& p, std::int64_t at, double inv_freq, bool clockwise, Angle& angle) {
  Dyadic position;
  if (p.f64 != nullptr) {
    const double x = p.f64[at];
    if (!finite(x) || (x != 0 && x < least_position && x > -least_position)) return false;
    position = dyadic(x);
  } else {
    position = dyadic(integer_position(p, at));
  }
  angle = angle_of(position, inv_freq, clockwise);
  return true;
}
__device__ bool angle_at(const FrequencyArrays& f, const PositionArrays& p, std::int64_t row, int pair, Angle& angle) {
  const std::int64_t axis = p.one_axis || f.axis == nullptr ? 0 : f.axis[pair];
  return angle_at(p, axis * p.rows + row % p.rows, f.inv_freq[pair], f.clockwise, angle);
}

// Computes the factor; false if xPos's amplitude does not fit a float.
__device__ bool factor_at(const TableJob& job, std::int64_t row, std::int64_t pair, double& factor) {
  const FrequencyArrays& f = job.frequencies;
  factor = f.attention_factor;
  if (job.xpos.scale == 0) return true;
  const PositionArrays& p = job.positions;
  const High position = p.f64 != nullptr ? High(p.f64[row]) : High::integer(integer_position(p, row));
  const double* const zeta = f.inv_freq + f.terms * std::int64_t{f.pairs} + pair;
  factor = with_amplitude(job.xpos, {zeta[0], zeta[f.pairs]}, position, factor);
  return has_amplitude(job.xpos, position.hi);
}

__device__ CosSin value_of(const TableJob& job, std::int64_t row, int pair) {
  const FrequencyArrays& f = job.frequencies;
  const PositionArrays& p = job.positions;
  double factor;
  bool known = factor_at(job, row, pair, factor);
  const auto term = [&](int a) {
    const double inv_freq = f.inv_freq[a * std::int64_t{f.pairs} + pair];
    if (f.phase && a + 1 == f.terms) return angle_of({false, 1, 0}, inv_freq, false);
    Angle angle;
    known = angle_at(p, (p.one_axis ? 0 : a * p.rows) + row, inv_freq, false, angle) && known;
    return angle;
  };
  for (int a = 0; a < f.terms; ++a) term(a);  // a factor of 0 asks for none
  if (!known) return {__builtin_nanf(""), __builtin_nanf("")};
  const CosSin x = round_sum(f.terms, term, dyadic(factor), format_of(job.rounding), 0);
  return {x.cos, f.clockwise ? -x.sin : x.sin};
}

__device__ CosSin value_of(const BetweenJob& job, std::int64_t row, int pair) {
  Angle from, to;
  if (!angle_at(job.from, job.from_positions, row, pair, from) || !angle_at(job.to, job.to_positions, row, pair, to))
    return {__builtin_nanf(""), __builtin_nanf("")};
  from.negative = !from.negative;
  const auto term = [&](int a) { return a == 0 ? to : from; };
  return round_sum(2, term, dyadic(job.factor), format_of(job.rounding), job.to.clockwise ? -0.0f : 0.0f);
}

template <class Job>
__global__ void __launch_bounds__(max_threads)
    fill_values(const __grid_constant__ Job job, std::int64_t count, std::int64_t pairs) {
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  wait_for_earlier_kernels();
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    const CosSin x = value_of(job, i / pairs, static_cast<int>(i % pairs));
    job.cos[i] = x.cos;
    job.sin[i] = x.sin;
  }
}

template <class Job>
void launch_values(const Job& job, std::int64_t rows, std::int64_t pairs, Stream stream) {
  const std::int64_t count = rows * pairs;
  if (count == 0) return;
  const auto blocks = static_cast<unsigned>(std::min(max_blocks, ceil_div(count, std::int64_t{max_threads})));
  launch(fill_values<Job>, dim3(blocks), dim3(max_threads), stream, job, count, pairs);
}

}  // namespace

void launch_between(const BetweenJob& job, Stream stream) { launch_values(job, job.rows, job.to.pairs, stream); }

void launch_table(const TableJob& job, Stream stream) {
  const std::int64_t pairs = job.frequencies.pairs, rows = job.positions.rows;
  if (job.frequencies.terms > 0) return launch_values(job, rows, pairs, stream);
  if (pairs == 0 || rows == 0) return;
  const std::int64_t rows_of_block = pairs < max_threads ? max_threads / pairs : 1;
  const std::int64_t threads = pairs < max_threads ? rows_of_block * pairs : max_threads;
  const std::int64_t slices = ceil_div(pairs, threads);
  const std::int64_t blocks_of_rows = std::clamp<std::int64_t>(max_blocks / slices, 1, ceil_div(rows, rows_of_block));
  launch(fill_rows, dim3(static_cast<unsigned>(blocks_of_rows * slices)), dim3(static_cast<unsigned>(threads)), stream,
         job, static_cast<unsigned>(slices));
}

}  // namespace rotary::gpu
