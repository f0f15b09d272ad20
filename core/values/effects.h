// The effect of a scaling on each pair: kept, blended, stretched.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "scaling_fields.h"

namespace rotary::scalings {

struct PairEffect {
  double stretch = 1;  // scaled wavelength / unscaled wavelength; 0: the pair does not rotate
  const char* name = "kept";
};

// The stretch of a fully stretched pair: the scaling's factor, or the largest stretch of any pair.
inline double whole_stretch(const Scaling& scaling, double most) {
  switch (facts_of(scaling).stretch) {
    case Stretch::by_factor:
      return std::min(*value_of<double>(scaling, "factor"), most);
    case Stretch::per_pair:
      return 0;
    case Stretch::none:
    case Stretch::by_length:
      break;
  }
  return most;
}

// "still" (does not rotate), "kept", "shortened", "blended" (partly stretched), "stretched" (by the whole factor).
inline const char* effect_name(double stretch, double whole) {
  constexpr double slack = 1e-9;  // for rounding errors, far below any published factor
  if (stretch == 0) return "still";
  if (std::abs(stretch - 1) <= slack) return "kept";
  if (stretch < 1) return "shortened";
  return stretch >= whole * (1 - slack) ? "stretched" : "blended";
}

// scaled: the frequencies `unscaled` after the scaling.
inline std::vector<PairEffect> effects_of(const std::vector<double>& unscaled, const std::vector<double>& scaled,
                                          const Scaling& scaling) {
  std::vector<PairEffect> effects(scaled.size());
  double most = 1;
  for (std::size_t i = 0; i < scaled.size(); ++i) {
    effects[i].stretch = scaled[i] == 0 ? 0 : unscaled[i] / scaled[i];
    most = std::max(most, effects[i].stretch);
  }
  const double whole = whole_stretch(scaling, most);
  for (PairEffect& effect : effects) effect.name = effect_name(effect.stretch, whole);
  return effects;
}

}  // namespace rotary::scalings
