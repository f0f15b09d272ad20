// The ways of rotary/accuracy.h: what each makes of a rope, row by row, and the real numbers that judge it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rotary/accuracy.h"
#include "table/round_once.h"

namespace rotary::accuracy {

using detail::CosSin;

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

// `exact` rounded once to float: the result of round_once, for which it reuses `exact` where that decides.
CosSin rounded(const ExactCosSin& exact, const Position&, double inv_freq, double factor) noexcept;

// |value - exact|
double distance(double value, const Sum& exact) noexcept;

// cos and sin of a finite angle, each the nearest float.
CosSin nearest_cos_sin(double angle) noexcept;

// ---- ways ----

// running_rotation takes a step per position; it is not run beyond this one.
inline constexpr std::int64_t last_running_rotation = std::int64_t{1} << 20;

// A rope as the ways see it.
struct Subject {
  // frequencies: those of the rope, at some length.
  Subject(const Rope& rope, const Frequencies& frequencies);

  std::vector<double> inv_freq;         // the truth: radians per position
  std::vector<float> inv_freq_float32;  // as frameworks compute them
  double attention_factor = 1;
  int head_dim = 0;

  // For running_product: theta of index i is fl(p) multiplied i times by theta_scale, a pair's angle fl(theta of its
  // index * multiplier). Without a value: the frequencies were given and are no geometric series.
  struct Chain {
    float theta_scale = 1;
    std::vector<int> index;         // per pair
    std::vector<float> multiplier;  // per pair: what the scaling makes of the unscaled frequency
  };
  std::optional<Chain> chain;

  int pairs() const noexcept { return static_cast<int>(inv_freq.size()); }
};

// Whether the way has a row there: not running_rotation beyond last_running_rotation or at fractions, nor
// running_product without a chain.
bool has_row(const Subject&, Way, const Position&) noexcept;

// What float32_product makes of a pair. Throws POSITION if the angle overflows float32.
CosSin float32_product(const Subject&, const Position&, std::size_t pair);

// What the ways make of the pairs [first, last) at one position after another: only running_rotation depends on the
// positions before, so that those of rising magnitude are quick. The subject must outlive this.
class Rows {
 public:
  Rows(const Subject&, std::size_t first, std::size_t last);

  void go_to(const Position&);
  const ExactCosSin& exact(std::size_t pair) const { return exact_[pair - first_]; }
  // Where the way has a row. Throws POSITION if an angle overflows float32.
  CosSin value(Way, std::size_t pair);

 private:
  double angle(Way, std::size_t pair) const;
  void rotate();

  const Subject* subject_;
  std::size_t first_;
  Position position_;
  std::vector<ExactCosSin> exact_;
  std::vector<CosSin> product_;  // of float32_product; 0 where the angle is not finite
  std::vector<float> theta_;     // running_product: by index
  // running_rotation: the row of the position of magnitude at_, and one step.
  std::uint64_t at_ = 0;
  std::vector<CosSin> rotated_, step_;
};

// The largest error of any cos and sin of the row at each position: a curve to draw. Throws POSITION where the way has
// no row.
std::vector<double> errors_at(const Subject&, Way, const std::vector<Position>&);

}  // namespace rotary::accuracy
