#include "precision.h"

#include <array>
#include <cmath>

#include "rotary/heads.h"

namespace rotary::diagnose {

namespace {

using Complex = std::complex<double>;

struct Hypothesis {
  Precision precision = Precision::exact;
  const char* words = "";
  std::function<double(double position, double speed)> angle;
  Precision table = Precision::exact;
  bool coarse_angle = true;
};

double tf32(double value) {
  if (value == 0) return 0;
  const double scale = std::ldexp(1.0, 10 - std::ilogb(value));
  return std::nearbyint(value * scale) / scale;
}

using AngleOf = std::function<double(double position, double speed)>;

double in_float(double p, double w) { return static_cast<double>(static_cast<float>(p) * static_cast<float>(w)); }

// The angles of an engine that takes care; the second from inv_freq in float32 steps.
const std::array<Hypothesis, 3> fine_hypotheses = {{{Precision::exact, "", [](double p, double w) { return p * w; }},
                                                    {Precision::f32, "the angles are computed in float32", in_float},
                                                    {Precision::f32, "the angles are computed in float32", in_float}}};

// fine: the angles of a table that alone is rounded. unit: of the tensor; a type with more digits leaves no trace in
// it.
std::vector<Hypothesis> coarse_hypotheses(const AngleOf& fine, double unit) {
  std::vector<Hypothesis> list;
  for (const Precision type : {Precision::f16, Precision::bf16}) {
    const bool half = type == Precision::f16;
    const bool finer = half && unit > 0x1p-11;  // than the tensor: only its angles leave a trace
    const auto of = [type](double value) { return round_to(value, type); };
    if (!finer)
      list.push_back(
          {type, half ? "cos and sin are rounded to f16" : "cos and sin are rounded to bf16", fine, type, false});
    const auto rounded_speed = [of](double p, double w) { return p * of(w); };
    const auto rounded_product = [of](double p, double w) { return of(p * w); };
    const auto all_rounded = [of](double p, double w) { return of(of(p) * of(w)); };
    const auto all_but_positions = [of](double p, double w) { return of(p * of(w)); };
    const char* speed = half ? "inv_freq is rounded to f16" : "inv_freq is rounded to bf16";
    const char* product = half ? "the angles are rounded to f16" : "the angles are rounded to bf16";
    const char* all = half ? "the angles are computed in f16" : "the angles are computed in bf16";
    for (const Precision table : {Precision::f32, type}) {
      if (finer && table == type) continue;
      list.push_back({type, speed, rounded_speed, table});
      list.push_back({type, product, rounded_product, table});
      list.push_back({type, all, all_rounded, table});
      list.push_back({type, all, all_but_positions, table});
    }
  }
  list.push_back({Precision::f16, "the angles are computed in TF32, which has the digits of f16",
                  [](double p, double w) { return in_float(tf32(p), tf32(w)); }});
  return list;
}

}  // namespace

const char* name(Precision precision) noexcept {
  constexpr std::array<const char*, 4> names = {"exact", "f32", "f16", "bf16"};
  return names[static_cast<std::size_t>(precision)];
}

double round_to(double value, Precision precision) noexcept {
  switch (precision) {
    case Precision::exact:
      break;
    case Precision::f32:
      return static_cast<float>(value);
    case Precision::f16:
      return to_float(to_f16(static_cast<float>(value)));
    case Precision::bf16:
      return to_float(to_bf16(static_cast<float>(value)));
  }
  return value;
}

namespace {

// float32_speed: in float32 steps, where the hypothesis takes them; empty: speed as it is.
Fit fit_of(const Turns& turns, const Motion& motion, const Hypothesis& one, const std::vector<float>& float32_speed,
           double slack) {
  const TurnOf turn_of = [&](std::int64_t row, int pair) -> Complex {
    const auto i = static_cast<std::size_t>(pair);
    const auto axis = static_cast<std::size_t>(motion.axis_of(pair));
    double speed = motion.speed[i];
    if (i < float32_speed.size()) speed = std::copysign(static_cast<double>(float32_speed[i]), speed);
    const double angle = one.angle(motion.position[axis][static_cast<std::size_t>(row)], speed);
    return {round_to(motion.factor * std::cos(angle), one.table), round_to(motion.factor * std::sin(angle), one.table)};
  };
  return compare(turns, motion, turn_of, slack);
}

}  // namespace

FoundPrecision find_precision(const Turns& turns, const Motion& motion, const std::vector<float>& inv_freq_float32) {
  const Fit exact = fit_of(turns, motion, fine_hypotheses[0], {}, 0);
  const Fit rounded = fit_of(turns, motion, fine_hypotheses[1], {}, 0);
  const Fit in_steps = fit_of(turns, motion, fine_hypotheses[2], inv_freq_float32, 0);
  const bool steps_are_best = in_steps.residual < std::min(exact.residual, rounded.residual);
  const Fit in_float32 = rounded.residual < in_steps.residual ? rounded : in_steps;
  FoundPrecision found;
  found.fit = exact.residual <= in_float32.residual ? exact : in_float32;
  const AngleOf fine = exact.residual <= in_float32.residual ? fine_hypotheses[0].angle : fine_hypotheses[1].angle;
  std::optional<Hypothesis> coarse;
  Fit best;
  for (const Hypothesis& one : coarse_hypotheses(fine, turns.unit)) {
    const bool table_alone = !one.coarse_angle;
    const Fit fit = fit_of(turns, motion, one, table_alone && steps_are_best ? inv_freq_float32 : std::vector<float>{},
                           float32_slack);
    if (coarse && fit.residual >= best.residual) continue;
    coarse = one;
    best = fit;
  }
  // The mean square of so many differences of rounding is known to sqrt(2 / count).
  const auto count = static_cast<double>(turns.turn.size());
  const bool finer = coarse->precision == Precision::f16 && turns.unit > 0x1p-11;
  const double certain = finer ? 0.25 : std::max(0.3, 1 - 8 / std::sqrt(count));
  const double nearest = found.fit.residual;
  if (best.residual * best.residual < certain * nearest * nearest && (best.holds || best.residual < 0.3 * nearest)) {
    found = {coarse->precision, coarse->coarse_angle, coarse->words, best};
  } else if (in_float32.residual < 0.8 * exact.residual || (!exact.holds && compare(turns, motion).holds)) {
    found.precision = Precision::f32;
    found.words = fine_hypotheses[1].words;
  } else if (exact.residual < 0.8 * in_float32.residual) {
    found.precision = Precision::exact;
  }
  return found;
}

}  // namespace rotary::diagnose
