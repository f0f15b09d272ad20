// The turn of every pair at every token, measured over the heads, and how well a motion explains it.
#pragma once

#include <complex>
#include <cstdint>
#include <functional>
#include <vector>

#include "block.h"
#include "sample.h"

namespace rotary::diagnose {

// turn[(b * tokens + t) * pairs + i] is the complex factor of pair i: y = turn * x, by least squares over the heads.
struct Turns {
  Order order;
  Block block;
  std::vector<std::int64_t> heads;         // those that rotate; the others are the same before and after
  std::vector<std::complex<double>> turn;  //
  std::vector<double> sigma;               // standard error of each turn, from the rounding of the elements
  std::vector<double> weight;              // sum over the heads of the squared norm before
  double spread = 0;                       // relative misfit among the heads, for the worst pair
  double unit = 0;                         // Sample::unit

  std::int64_t rows() const noexcept { return order.batch * order.tokens; }
  std::size_t at(std::int64_t row, int pair) const noexcept {
    return static_cast<std::size_t>(row * block.pairs + pair);
  }
};
Turns measure(const Sample&, const Order&, const Block&);

// How fast each pair rotates, at which positions.
struct Motion {
  std::vector<double> speed;                  // radians per position, negative: clockwise
  std::vector<std::uint8_t> axis;             // per pair; empty: all 0
  std::vector<std::vector<double>> position;  // per axis, of each row (b * tokens + t)
  double factor = 1;                          // the attention factor

  int axis_of(int pair) const noexcept { return axis.empty() ? 0 : axis[static_cast<std::size_t>(pair)]; }
  double angle(std::int64_t row, int pair) const noexcept;
  std::complex<double> turn(std::int64_t row, int pair) const noexcept;
};

// Rotates the block of every vector of the elements, which lie as the sample's, by the motion, in double. kind: one of
// rotary::Pairing's.
void rotate(std::vector<double>& elements, const Sample&, const Order&, const Block&, const Motion&);

// The error of angles in float32 steps, relative to the angle: about 12 roundings, and one more for each pair before it
// in engines that multiply their way from pair to pair (ggml).
inline constexpr double float32_slack = 12 * 0x1p-24;
inline double slack_of(int pair, double slack = float32_slack) { return slack * (1 + pair / 12.0); }

// The largest difference that rounding explains between a measured turn and one of that angle and factor.
// slack: of the angle, relative: slack_of(pair).
std::complex<double> tolerance(const Turns&, std::size_t at, double angle, std::complex<double> turn, double slack);

struct Fit {
  bool holds = false;    // every turn differs by no more than rounding explains
  double residual = 0;   // rms of the differences, relative to the turns
  double worst = 0;      // the largest difference, in tolerances
  std::int64_t row = 0;  // where
  int pair = 0;
};
Fit compare(const Turns&, const Motion&, double slack = float32_slack);
// Against turns that need not be those of the motion's angles, as a table of few bits holds them.
using TurnOf = std::function<std::complex<double>(std::int64_t row, int pair)>;
Fit compare(const Turns&, const Motion&, const TurnOf& turn_of, double slack);

}  // namespace rotary::diagnose
