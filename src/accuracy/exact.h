// The real numbers that tables are judged by, and cos and sin of an angle as a careful library rounds them.
#pragma once

#include "rotary/accuracy.h"
#include "table/round_once.h"

namespace rotary::accuracy {

using detail::CosSin;

detail::Dyadic dyadic(const Position&) noexcept;

// The unevaluated sum high + low: a real number to within 2^-100 of the table's largest.
struct Sum {
  double high = 0;
  double low = 0;
};
struct ExactCosSin {
  Sum cos, sin;
};

// factor cos(position inv_freq) and factor sin(position inv_freq) of the real numbers.
ExactCosSin exact_cos_sin(const Position&, double inv_freq, double factor) noexcept;

// |value - exact|
double distance(double value, const Sum& exact) noexcept;

// cos and sin of a finite angle, each the nearest float.
CosSin nearest_cos_sin(double angle) noexcept;

}  // namespace rotary::accuracy
