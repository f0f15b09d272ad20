// In which precision the angles and the table of cos and sin were computed: each way is tried.
#include <algorithm>
#include <cmath>

#include "turns.h"

namespace rotary::diagnose {

namespace {

using Rounding = double (*)(double);

double exactly(double value) { return value; }
double to_f32(double value) { return static_cast<float>(value); }
double to_half(double value) { return to_float(to_f16(static_cast<float>(value))); }
double to_brain(double value) { return to_float(to_bf16(static_cast<float>(value))); }
template <double (*to_whole)(double)>
double to_tf32(double value) {
  if (value == 0) return 0;
  const double scale = std::ldexp(1.0, 10 - std::ilogb(value));
  return to_whole(value * scale) / scale;
}

// angle = product(position(p) * speed(w)); cos and sin are rounded to the table's type.
struct Hypothesis {
  Precision precision = Precision::exact;
  std::string words = {};
  Rounding position = exactly, speed = exactly, product = exactly, table = exactly;
  bool coarse_angle = true;
};

// fine: the angles of a table that alone is rounded. unit: of the tensor; a type with more digits leaves no trace in
// it.
std::vector<Hypothesis> coarse_hypotheses(const Hypothesis& fine, double unit) {
  std::vector<Hypothesis> list;
  for (const Precision type : {Precision::f16, Precision::bf16}) {
    const Rounding of = type == Precision::f16 ? to_half : to_brain;
    const std::string in = name(type);
    const bool finer = type == Precision::f16 && unit > 0x1p-11;  // than the tensor: only its angles leave a trace
    if (!finer) {
      list.push_back({type, "cos and sin are rounded to " + in, fine.position, fine.speed, fine.product, of, false});
    }
    for (const Rounding table : {Rounding(to_f32), of}) {
      if (finer && table == of) continue;
      list.push_back({type, "inv_freq is rounded to " + in, exactly, of, exactly, table});
      list.push_back({type, "the angles are rounded to " + in, exactly, exactly, of, table});
      list.push_back({type, "the angles are computed in " + in, of, of, of, table});
      list.push_back({type, "the angles are computed in " + in, exactly, of, of, table});
    }
  }
  for (const Rounding of : {Rounding(to_tf32<std::nearbyint>), Rounding(to_tf32<std::trunc>)})
    list.push_back(
        {Precision::f16, "the angles are computed in TF32, which has the digits of f16", of, of, to_f32, to_f32});
  return list;
}

// float32_speed: in float32 steps, where the hypothesis takes them; empty: speed as it is.
Fit fit_of(const Turns& turns, const Motion& motion, const Hypothesis& one, const std::vector<float>& float32_speed,
           double slack) {
  return compare(turns, motion, slack, [&](std::int64_t row, int pair) -> Complex {
    double angle = 0;
    for (int term = 0; term < motion.terms; ++term) {
      double speed = motion.speed_of(pair, term);
      if (const auto i = static_cast<std::size_t>(pair); i < float32_speed.size())
        speed = std::copysign(static_cast<double>(float32_speed[i]), speed);
      angle += one.product(one.position(motion.position_of(row, pair, term)) * one.speed(speed));
    }
    return {one.table(motion.factor * std::cos(angle)), one.table(motion.factor * std::sin(angle))};
  });
}

// Without the weight of most rows: some hundred tell a precision as all do.
Turns thinned(const Turns& turns, std::int64_t step) {
  Turns some = turns;
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    const auto begin = some.weight.begin() + row * turns.pairs();
    if (row % step != 0) std::fill(begin, begin + turns.pairs(), 0);
  }
  return some;
}

}  // namespace

const char* name(Precision precision) noexcept {
  constexpr std::array<const char*, 4> names = {"exact", "f32", "f16", "bf16"};
  return names[static_cast<std::size_t>(precision)];
}

FoundPrecision find_precision(const Turns& all, const Motion& motion, const std::vector<float>& inv_freq_float32) {
  const std::int64_t step = std::max<std::int64_t>(1, all.rows() / 256);
  const Turns turns = thinned(all, step);
  // The angles of an engine that takes care.
  const Hypothesis exact_angles{};
  const Hypothesis float32_angles{.precision = Precision::f32, .position = to_f32, .speed = to_f32, .product = to_f32};
  const Fit exact = fit_of(turns, motion, exact_angles, {}, 0);
  const Fit rounded = fit_of(turns, motion, float32_angles, {}, 0);
  const Fit in_steps = fit_of(turns, motion, float32_angles, inv_freq_float32, 0);
  const bool steps_are_best = in_steps.residual < std::min(exact.residual, rounded.residual);
  const Fit in_float32 = rounded.residual < in_steps.residual ? rounded : in_steps;
  const bool is_exact = exact.residual <= in_float32.residual;
  FoundPrecision found;
  found.fit = is_exact ? exact : in_float32;
  std::optional<Hypothesis> coarse;
  const auto fit_coarse = [&](const Turns& some, const Hypothesis& one) {
    const bool by_steps = !one.coarse_angle && steps_are_best;
    return fit_of(some, motion, one, by_steps ? inv_freq_float32 : std::vector<float>{}, float32_slack);
  };
  Fit best;
  for (const Hypothesis& one : coarse_hypotheses(is_exact ? exact_angles : float32_angles, turns.unit)) {
    const Fit fit = fit_coarse(turns, one);
    if (coarse && !(fit.residual < 0.95 * best.residual)) continue;  // of equals the first, the more usual; inf is none
    coarse = one;
    best = fit;
  }
  // The mean square of so many differences of rounding is known to sqrt(2 / count).
  const auto count = static_cast<double>(turns.turn.size()) / static_cast<double>(step);
  const bool finer = coarse->precision == Precision::f16 && turns.unit > 0x1p-11;
  const double certain = finer ? 0.25 : std::max(0.3, 1 - 8 / std::sqrt(count));
  // A table in float32 is no trace of anything.
  const Fit fine = fit_of(turns, motion, {.position = to_f32, .speed = to_f32, .product = to_f32, .table = to_f32},
                          inv_freq_float32, 0);
  const double nearest = std::min(found.fit.residual, fine.residual);
  if (best.residual * best.residual < certain * nearest * nearest && (best.holds || best.residual < 0.3 * nearest)) {
    found = {coarse->precision, coarse->coarse_angle, coarse->words, step > 1 ? fit_coarse(all, *coarse) : best};
  } else if (in_float32.residual < 0.8 * exact.residual || (!exact.holds && compare(all, motion).holds)) {
    found.precision = Precision::f32;
  } else if (exact.residual < 0.8 * in_float32.residual) {
    found.precision = Precision::exact;
  }
  return found;
}

}  // namespace rotary::diagnose
