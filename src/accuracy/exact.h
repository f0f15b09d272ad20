// The real numbers that tables are judged by, and cos and sin of an angle as a careful library rounds them.
#pragma once

#include <cstdint>

#include "table/round_once.h"

namespace rotary::accuracy {

using detail::CosSin;

// Where a token stands: an int64, or a finite double of magnitude below 2^63.
class Position {
 public:
  Position() = default;
  Position(std::int64_t whole) : whole_(whole) {}  // NOLINT: an integer is a position
  static Position real(double value);              // throws POSITION

  bool is_whole() const noexcept { return is_whole_; }
  std::int64_t whole() const noexcept { return whole_; }  // of a real one: rounded towards 0
  double as_double() const noexcept { return is_whole_ ? static_cast<double>(whole_) : real_; }
  float as_float() const noexcept { return is_whole_ ? static_cast<float>(whole_) : static_cast<float>(real_); }
  std::uint64_t magnitude() const noexcept;  // without the fraction
  detail::Dyadic dyadic() const noexcept { return is_whole_ ? detail::dyadic(whole_) : detail::dyadic(real_); }

 private:
  std::int64_t whole_ = 0;
  double real_ = 0;
  bool is_whole_ = true;
};

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

// Each rounded once to float, of the same position, inv_freq and factor: as round_once does, from what is known.
CosSin rounded_once(const ExactCosSin&, const Position&, double inv_freq, double factor) noexcept;

// |value - exact|
double distance(double value, const Sum& exact) noexcept;

// cos and sin of a finite angle, each the nearest float.
CosSin nearest_cos_sin(double angle) noexcept;

}  // namespace rotary::accuracy
