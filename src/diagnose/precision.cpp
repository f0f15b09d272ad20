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

std::vector<Hypothesis> hypotheses() {
  const auto in_float = [](double p, double w) {
    return static_cast<double>(static_cast<float>(p) * static_cast<float>(w));
  };
  std::vector<Hypothesis> list = {{Precision::exact, "", [](double p, double w) { return p * w; }},
                                  {Precision::f32, "the angles are computed in float32", in_float}};
  for (const Precision type : {Precision::f16, Precision::bf16}) {
    const bool half = type == Precision::f16;
    const auto of = [type](double value) { return round_to(value, type); };
    list.push_back(
        {type, half ? "cos and sin are rounded to f16" : "cos and sin are rounded to bf16", in_float, type, false});
    const auto rounded_speed = [of](double p, double w) { return p * of(w); };
    const auto rounded_product = [of](double p, double w) { return of(p * w); };
    const auto all_rounded = [of](double p, double w) { return of(of(p) * of(w)); };
    const char* speed = half ? "inv_freq is rounded to f16" : "inv_freq is rounded to bf16";
    const char* product = half ? "the angles are rounded to f16" : "the angles are rounded to bf16";
    const char* all = half ? "the angles are computed in f16" : "the angles are computed in bf16";
    for (const Precision table : {Precision::f32, type}) {
      list.push_back({type, speed, rounded_speed, table});
      list.push_back({type, product, rounded_product, table});
      list.push_back({type, all, all_rounded, table});
    }
  }
  list.push_back({Precision::f16, "the angles are computed in TF32, which has the digits of f16",
                  [](double p, double w) { return static_cast<double>(static_cast<float>(tf32(p) * tf32(w))); }});
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

FoundPrecision find_precision(const Turns& turns, const Motion& motion, const std::vector<float>& inv_freq_float32) {
  const auto fit_of = [&](const Hypothesis& one, double slack) {
    return compare(
        turns, motion,
        [&](std::int64_t row, int pair) -> Complex {
          const auto i = static_cast<std::size_t>(pair);
          const double position =
              motion.position[static_cast<std::size_t>(motion.axis_of(pair))][static_cast<std::size_t>(row)];
          double speed = motion.speed[i];
          if (one.precision == Precision::f32 && i < inv_freq_float32.size()) {
            speed = std::copysign(static_cast<double>(inv_freq_float32[i]), speed);
          }
          const double angle = one.angle(position, speed);
          return {round_to(motion.factor * std::cos(angle), one.table),
                  round_to(motion.factor * std::sin(angle), one.table)};
        },
        slack);
  };
  const std::vector<Hypothesis> list = hypotheses();
  FoundPrecision found;
  const Fit exact = fit_of(list[0], 0), in_float = fit_of(list[1], 0);
  const double fine = std::min(exact.residual, in_float.residual);
  found.fit = exact.residual <= in_float.residual ? exact : in_float;
  const Hypothesis* coarse = nullptr;
  Fit best;
  for (std::size_t i = 2; i < list.size(); ++i) {
    const Fit fit = fit_of(list[i], float32_slack);
    if (coarse == nullptr || fit.residual < best.residual) {
      coarse = &list[i];
      best = fit;
    }
  }
  // The mean square of so many differences of rounding is known to sqrt(2 / count).
  const auto count = static_cast<double>(turns.turn.size());
  const double certain = std::max(0.3, 1 - 8 / std::sqrt(count));
  const bool coarse_explains =
      best.residual * best.residual < certain * fine * fine && (best.holds || best.residual < 0.3 * fine);
  if (coarse_explains) {
    found = {coarse->precision, coarse->coarse_angle, coarse->words, best};
  } else if (in_float.residual < 0.8 * exact.residual || (!exact.holds && compare(turns, motion).holds)) {
    found.precision = Precision::f32;
    found.words = list[1].words;
  } else if (exact.residual < 0.8 * in_float.residual) {
    found.precision = Precision::exact;
  }
  return found;
}

}  // namespace rotary::diagnose
