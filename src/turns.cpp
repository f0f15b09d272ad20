#include "turns.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "angle_job.h"
#include "fraction.h"

namespace rotary {

Dyadic dyadic(std::int64_t x) noexcept {
  const auto bits = static_cast<std::uint64_t>(x);
  return {x < 0, x < 0 ? 0 - bits : bits, 0};
}

Dyadic dyadic(double x) noexcept {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t fraction = bits & ((std::uint64_t{1} << 52) - 1);
  const int biased = static_cast<int>(bits >> 52 & 0x7ff);
  if (biased == 0) return {x < 0, fraction, -1074};
  return {x < 0, fraction | std::uint64_t{1} << 52, biased - 1075};
}

// ---- the wide computation ------------------------------------------------------------------------

namespace {

template <int N>
Fraction<N> quarter_pi_fraction() noexcept {
  Fraction<N> result;
  for (int k = 0; k < N; ++k) result.limb[k] = quarter_pi[N - 1 - k];
  return result;
}

// |cos| and |sin| of m 2^exponent, each within 2^8 ulp, and their signs. Error in ulp: the turns 2, as eighths 17, the
// angle x 16, its square 26, and what the series add to that stays below 64.
template <int N>
struct Turned {
  Fraction<N> cos, sin;
  bool cos_negative, sin_negative;
};
template <int N>
Turned<N> turn(Wide m, int exponent) noexcept {
  Fraction<N> phase = turns<N>(m, exponent);
  const unsigned octant = static_cast<unsigned>(phase.limb[N - 1] >> 61);
  const unsigned quadrant = (octant + 1) / 2 % 4;
  phase = phase << 3;
  const bool below = (octant & 1) != 0;  // the nearest quarter turn lies ahead
  const Fraction<N> eighths = below ? ~phase : phase;
  const Fraction<N> x = eighths * quarter_pi_fraction<N>();
  const Fraction<N> z = x * x;
  const Fraction<N> c = series<N, 1>(z);
  const Fraction<N> s = x * series<N, 2>(z);
  const bool swap = (quadrant & 1) != 0;
  const bool c_negative = quadrant == 1 || quadrant == 2;
  const bool s_negative = quadrant == 2 || quadrant == 3;
  return swap ? Turned<N>{s, c, c_negative != below, s_negative} : Turned<N>{c, s, c_negative, s_negative != below};
}

// value * factor 2^exponent, if every number within 2^8 ulp of value rounds to the same; *decided says so.
template <int N>
float scaled(const Fraction<N>& value, const Dyadic& factor, const Format& format, bool* decided) noexcept {
  std::uint64_t below[N + 1], above[N + 1];
  std::uint64_t carry = 0;
  for (int k = 0; k < N; ++k) {
    const Wide product = static_cast<Wide>(value.limb[k]) * factor.mantissa + carry;
    below[k] = above[k] = low(product);
    carry = high(product);
  }
  below[N] = above[N] = carry;
  Wide less = static_cast<Wide>(factor.mantissa) << 8, more = less;
  for (int k = 0; k <= N; ++k) {
    const Wide difference = static_cast<Wide>(below[k]) - low(less);
    below[k] = low(difference);
    less = (less >> 64) + (high(difference) != 0 ? 1 : 0);
    const Wide sum = static_cast<Wide>(above[k]) + low(more);
    above[k] = low(sum);
    more = (more >> 64) + high(sum);
  }
  const int exponent = factor.exponent - 64 * N;
  const float result = rounded(above, exponent, format);
  *decided = less == 0 && rounded(below, exponent, format) == result;
  return result;
}

float with_sign(float magnitude, bool negative) noexcept { return negative ? -magnitude : magnitude; }

template <int N>
bool attempt(Wide m, int exponent, bool negative, const Dyadic& factor, const Format& format, CosSin* out) noexcept {
  const Turned<N> t = turn<N>(m, exponent);
  bool cos_decided, sin_decided;
  const float c = scaled(t.cos, factor, format, &cos_decided);
  const float s = scaled(t.sin, factor, format, &sin_decided);
  *out = {with_sign(c, t.cos_negative != factor.negative),
          with_sign(s, (t.sin_negative != negative) != factor.negative)};
  return cos_decided && sin_decided;
}

// |x| < 2^-100: cos x and (sin x)/x lie below 1 by less than 2^-200, while factor and factor * x have no more than 170
// bits. So the result lies beside an exact integer, on the side of zero, nearer than any rounding boundary.
CosSin tiny(Wide m, int exponent, bool negative, const Dyadic& factor, const Format& format) noexcept {
  const Wide bottom = static_cast<Wide>(low(m)) * factor.mantissa;
  const Wide middle = static_cast<Wide>(high(m)) * factor.mantissa + high(bottom);
  const std::uint64_t product[3] = {low(bottom), low(middle), high(middle)};
  std::uint64_t below[3] = {product[0] << 2, product[1] << 2 | product[0] >> 62, product[2] << 2 | product[1] >> 62};
  for (int k = 0; below[k]-- == 0;) ++k;
  const std::uint64_t below_factor[1] = {(factor.mantissa << 2) - 1};
  return {with_sign(rounded(below_factor, factor.exponent - 2, format), factor.negative),
          with_sign(rounded(below, exponent + factor.exponent - 2, format), negative != factor.negative)};
}

}  // namespace

CosSin round_once(const Dyadic& position, double inv_freq, double factor, DType dtype) noexcept {
  const Dyadic w = dyadic(inv_freq), a = dyadic(factor);
  const Format format = format_of(dtype);
  if (a.mantissa == 0) return {0, 0};
  const Wide m = static_cast<Wide>(position.mantissa) * w.mantissa;
  if (m == 0) {
    const std::uint64_t exact[1] = {a.mantissa};
    return {with_sign(rounded(exact, a.exponent, format), a.negative), 0};
  }
  const int exponent = position.exponent + w.exponent;
  const bool negative = position.negative != w.negative;
  const int bits = static_cast<int>(high(m) != 0 ? 64 + std::bit_width(high(m)) : std::bit_width(low(m)));
  if (bits + exponent <= -100) return tiny(m, exponent, negative, a, format);
  // The angle is rational and not 0, so neither value is (Lindemann), and some precision decides. 128 bits do for
  // most, 256 bits fail with a chance of about 2^-100; 512 bits leave 2^-350, and their nearest value is taken.
  CosSin result;
  if (attempt<2>(m, exponent, negative, a, format, &result)) return result;
  if (attempt<4>(m, exponent, negative, a, format, &result)) return result;
  attempt<8>(m, exponent, negative, a, format, &result);
  return result;
}

// ---- what the kernels use ------------------------------------------------------------------------

bool decidable(double attention_factor) noexcept {
  const double magnitude = std::fabs(attention_factor);
  return magnitude >= 0x1p-64 && magnitude <= 0x1p64;
}

void prepare(const std::vector<double>& inv_freq, Turns& turns) {
  const std::size_t pairs = inv_freq.size();
  if (turns.inv_freq.size() == pairs &&
      std::memcmp(turns.inv_freq.data(), inv_freq.data(), pairs * sizeof(double)) == 0)
    return;
  const auto stride = static_cast<std::size_t>(padded_pairs(static_cast<int>(pairs)));
  turns.inv_freq.clear();  // nobody's, should memory run out
  turns.limbs.assign(turn_limbs * stride, 0);
  turns.floor.assign(stride, 0);
  for (std::size_t i = 0; i < pairs; ++i) {
    const Dyadic w = dyadic(inv_freq[i]);
    if (w.mantissa == 0) continue;
    turns.floor[i] = smallest_square;
    Fraction<4> turn = rotary::turns<4>(w.mantissa, w.exponent - 64);
    if (w.negative) turn = ~turn;  // without the one ulp, 2^-192, that cannot matter
    for (std::size_t j = 0; j < turn_limbs; ++j)
      turns.limbs[j * stride + i] = turn.limb[3 - j / 2] >> (j % 2 == 0 ? 32 : 0) & 0xffffffffu;
  }
  turns.inv_freq = inv_freq;
}

void limbs_of(double inv_freq, std::uint64_t (&limbs)[3]) noexcept {
  const Dyadic w = dyadic(inv_freq);
  Fraction<3> turn;
  if (w.mantissa != 0) turn = rotary::turns<3>(w.mantissa, w.exponent);
  if (w.negative && w.mantissa != 0) turn = ~turn;  // as in prepare
  for (int k = 0; k < 3; ++k) limbs[k] = turn.limb[2 - k];
}

std::uint64_t turns_to_nearest(double inv_freq) noexcept {
  std::uint64_t limbs[3];
  limbs_of(inv_freq, limbs);
  return limbs[0] + (limbs[1] >> 63);
}

namespace {

struct Element {
  Dyadic position;
  double inv_freq;
  double factor;
};

// The exact inputs of one element; in float32 mode the angle itself, as position 1.
Element element(const AngleJob& job, std::int64_t row, int pair) noexcept {
  const std::int64_t at = (job.axis != nullptr ? job.axis[pair] : 0) * job.rows + row;
  if (job.angles == Angles::float32) {
    const float p = job.integers != nullptr ? static_cast<float>(job.integers[at]) : static_cast<float>(job.reals[at]);
    return {{false, 1, 0}, static_cast<double>(p * job.inv_freq_float32[pair]), 1};
  }
  return {job.integers != nullptr ? dyadic(job.integers[at]) : dyadic(job.reals[at]), job.inv_freq[pair],
          job.attention_factor};
}

}  // namespace

void settle(const AngleJob& job, std::int64_t row, int pair, DType dtype) noexcept {
  const Element e = element(job, row, pair);
  CosSin value = round_once(e.position, e.inv_freq, e.factor, dtype);
  if (job.angles == Angles::float32) {
    if (e.inv_freq == 0) value.sin = static_cast<float>(e.inv_freq);  // -0 as float32's sine has it
    value = {value.cos * job.factor_float32, value.sin * job.factor_float32};
  }
  job.cos[row * job.pairs + pair] = value.cos;
  job.sin[row * job.pairs + pair] = value.sin;
}

void settle_rows(const AngleJob& job, std::int64_t begin_row, std::int64_t end_row) noexcept {
  for (std::int64_t row = begin_row; row < end_row; ++row) {
    for (int i = 0; i < job.pairs; ++i) {
      settle(job, row, i, job.rounding);
      float& sin = job.sin[row * job.pairs + i];
      if (job.clockwise) sin = -sin;
    }
  }
}

}  // namespace rotary
