#include "runtime/arithmetic.h"

#include "turns.h"

#include <cmath>
#include <cstring>

#include "amplitude.h"
#include "angle_job.h"
#include "round_sum.h"
#include "values/fraction.h"

namespace rotary::detail {

// ---- the inputs of the kernels -------------------------------------------------------------------

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
  turns.inv_freq.clear();  // so that nothing matches if memory runs out below
  turns.limbs.assign(turn_limbs * stride, 0);
  turns.floor.assign(stride, 0);
  for (std::size_t i = 0; i < pairs; ++i) {
    const Dyadic w = dyadic(inv_freq[i]);
    if (w.mantissa == 0) continue;
    turns.floor[i] = smallest_square;
    Fraction<4> turn = detail::turns<4>(w.mantissa, w.exponent - 64);
    if (w.negative) turn = ~turn;  // the two's complement but for one ulp, 2^-192, which does not matter
    for (std::size_t j = 0; j < turn_limbs; ++j)
      turns.limbs[j * stride + i] = turn.limb[3 - j / 2] >> (j % 2 == 0 ? 32 : 0) & 0xffffffffu;
  }
  turns.inv_freq = inv_freq;
}

void fill_terms(const Frequencies& f, int axes, std::int64_t padded, std::vector<double>& terms) {
  const auto at = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const std::int64_t pairs = f.pairs(), count = axes + (f.phase.empty() ? 0 : 1);
  terms.assign(at(count * padded), 0);
  for (std::int64_t pair = 0; pair < f.head_rows * pairs; ++pair) {
    const std::int64_t head = pair / pairs, i = pair % pairs;
    for (int a = 0; a < axes; ++a) {
      double& term = terms[at(a * padded + pair)];
      if (f.summed_axes > 0) term = f.inv_freq[at((head * axes + a) * pairs + i)];
      if (f.summed_axes == 0 && (axes == 1 || f.axis[at(i)] == a)) term = f.inv_freq[at(pair)];
    }
    if (!f.phase.empty()) terms[at(axes * padded + pair)] = f.phase[at(f.phase.size() == at(pairs) ? i : pair)];
  }
}

void limbs_of(double inv_freq, std::uint64_t (&limbs)[3]) noexcept {
  const Dyadic w = dyadic(inv_freq);
  Fraction<3> turn;
  if (w.mantissa != 0) turn = detail::turns<3>(w.mantissa, w.exponent);
  if (w.negative && w.mantissa != 0) turn = ~turn;  // as in prepare
  for (int k = 0; k < 3; ++k) limbs[k] = turn.limb[2 - k];
}

High log_zeta(std::int64_t i, std::int64_t n) noexcept {
  return log(High::integer(5 * i + 2 * n) / High::integer(7 * n));
}

namespace {

struct Element {
  Dyadic position;
  double inv_freq;
  double factor;
};

Dyadic position_of(const AngleJob& job, std::int64_t at) noexcept {
  return job.integers != nullptr ? dyadic(job.integers[at]) : dyadic(job.reals[at]);
}

double factor_of(const AngleJob& job, std::int64_t row, int pair) noexcept {
  if (job.xpos == nullptr) return job.attention_factor;
  const High p = job.integers != nullptr ? High::integer(job.integers[row]) : High(job.reals[row]);
  return with_amplitude(*job.xpos, log_zeta(pair % job.head_pairs, job.head_pairs), p, job.attention_factor);
}

CosSin sum_of(const AngleJob& job, std::int64_t row, int pair, Rounding rounding) noexcept {
  const auto term = [&](int a) {
    const bool is_phase = job.phase && a + 1 == job.terms;
    return angle_of(is_phase ? Dyadic{false, 1, 0} : position_of(job, a * job.rows + row),
                    job.inv_freq[std::int64_t{a} * job.padded + pair], false);
  };
  return round_sum(job.terms, term, dyadic(factor_of(job, row, pair)), format_of(rounding), 0);
}

// The exact inputs of one element; in float32 mode the angle itself, as position 1.
Element element(const AngleJob& job, std::int64_t row, int pair) noexcept {
  const std::int64_t at = (job.axis != nullptr ? job.axis[pair] : 0) * job.rows + row;
  if (job.angles == Angles::float32) {
    const float p = job.integers != nullptr ? static_cast<float>(job.integers[at]) : static_cast<float>(job.reals[at]);
    return {{false, 1, 0}, static_cast<double>(p * job.inv_freq_float32[pair]), 1};
  }
  return {position_of(job, at), job.inv_freq[pair], job.attention_factor};
}

// The sine of -0 is -0 with float32.
CosSin with_float32_factor(const AngleJob& job, const Element& e, const CosSin& x) noexcept {
  const float sin = e.inv_freq == 0 ? static_cast<float>(e.inv_freq) : x.sin;
  return {x.cos * job.factor_float32, sin * job.factor_float32};
}

}  // namespace

void settle(const AngleJob& job, std::int64_t row, int pair, Rounding rounding) noexcept {
  CosSin value;
  if (job.terms > 0) {
    value = sum_of(job, row, pair, rounding);
  } else {
    const Element e = element(job, row, pair);
    value = round_once(e.position, e.inv_freq, e.factor, rounding);
    if (job.angles == Angles::float32) value = with_float32_factor(job, e, value);
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

}  // namespace rotary::detail

namespace rotary::device {

// Declared by rotary/device.cuh, for kernels of programs that link this library alone.
ROTARY_API std::uint64_t turns_of(double inv_freq) noexcept {
  std::uint64_t limbs[3];
  rotary::detail::limbs_of(inv_freq, limbs);
  return limbs[0] + (limbs[1] >> 63);
}

}  // namespace rotary::device
