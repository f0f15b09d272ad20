#include "turns.h"

#include <bit>
#include <cmath>

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
  const Fraction<N> c = series(z, 1);
  const Fraction<N> s = x * series(z, 2);
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
  // The angle is rational and not 0, so neither value is (Lindemann), and some precision decides. 256 bits fail with a
  // chance of about 2^-100; 1024 bits leave 2^-850, and their nearest value is taken.
  CosSin result;
  if (attempt<4>(m, exponent, negative, a, format, &result)) return result;
  if (attempt<8>(m, exponent, negative, a, format, &result)) return result;
  attempt<16>(m, exponent, negative, a, format, &result);
  return result;
}

// ---- what the kernels use ------------------------------------------------------------------------

bool decidable(double attention_factor) noexcept {
  const double magnitude = std::fabs(attention_factor);
  return magnitude >= 0x1p-64 && magnitude <= 0x1p64;
}

Turns turns_of(const std::vector<double>& inv_freq) {
  const auto stride = static_cast<std::size_t>(padded_pairs(static_cast<int>(inv_freq.size())));
  Turns result{std::vector<std::uint32_t>(turn_limbs * stride), std::vector<double>(stride)};
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    const Dyadic w = dyadic(inv_freq[i]);
    if (w.mantissa == 0) continue;
    result.floor[i] = remainder_floor;
    Fraction<4> turn = turns<4>(w.mantissa, w.exponent - 64);
    if (w.negative) turn = ~turn;  // without the one ulp, 2^-192, that cannot matter
    for (std::size_t j = 0; j < turn_limbs; ++j)
      result.limbs[j * stride + i] = static_cast<std::uint32_t>(turn.limb[3 - j / 2] >> (j % 2 == 0 ? 32 : 0));
  }
  return result;
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

void settle(const AngleJob& job, std::int64_t row, int pair) noexcept {
  const Element e = element(job, row, pair);
  CosSin value = round_once(e.position, e.inv_freq, e.factor, DType::f32);
  if (job.angles == Angles::float32) value = {value.cos * job.factor_float32, value.sin * job.factor_float32};
  job.cos[row * job.pairs + pair] = value.cos;
  job.sin[row * job.pairs + pair] = value.sin;
}

void settle_rows(const AngleJob& job, std::int64_t begin_row, std::int64_t end_row) noexcept {
  for (std::int64_t row = begin_row; row < end_row; ++row) {
    for (int i = 0; i < job.pairs; ++i) settle(job, row, i);
  }
}

float narrowed(float x, DType dtype, bool* tie) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t sign = bits & 0x80000000u, magnitude = bits ^ sign;
  if (dtype == DType::f16 && magnitude < 0x38800000u) {  // below 2^-14: multiples of 2^-24, the ulp of 0.5
    const float whole = (std::bit_cast<float>(magnitude) + 0.5f) - 0.5f;
    *tie = std::fabs(std::bit_cast<float>(magnitude) - whole) == 0x1p-25f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(whole) | sign);
  }
  const int drop = dtype == DType::f16 ? 13 : 16;
  const std::uint32_t half = 1u << (drop - 1);
  *tie = (magnitude & (2 * half - 1)) == half;
  std::uint32_t kept = (magnitude + (half - 1) + (magnitude >> drop & 1)) >> drop << drop;
  if (dtype == DType::f16 && kept >= 0x47800000u) kept = 0x7f800000u;  // 2^16 and above
  return std::bit_cast<float>(kept | sign);
}

void narrow_rows(const AngleJob& job, DType dtype, std::int64_t begin_row, std::int64_t end_row) noexcept {
  for (std::int64_t row = begin_row; row < end_row; ++row) {
    for (int i = 0; i < job.pairs; ++i) {
      float& c = job.cos[row * job.pairs + i];
      float& s = job.sin[row * job.pairs + i];
      bool cos_tie, sin_tie;
      c = narrowed(c, dtype, &cos_tie);
      s = narrowed(s, dtype, &sin_tie);
      if (job.angles == Angles::float32 || !(cos_tie || sin_tie)) continue;
      const Element e = element(job, row, i);
      const CosSin value = round_once(e.position, e.inv_freq, e.factor, dtype);
      c = value.cos;
      s = value.sin;
    }
  }
}

}  // namespace rotary
