// Rows of cos and sin, computed one of the ways.
#pragma once

#include <span>
#include <vector>

#include "exact.h"
#include "ways.h"

namespace rotary::accuracy {

// The rows that a way makes of a rope: pure functions of the position. running_rotation goes on from the last row, so
// positions of rising magnitude are quick. The subject must outlive this.
class Rows {
 public:
  Rows(const Subject&, Way);

  // Whether the way has a row there: not running_rotation beyond last_running_rotation or at fractions, nor
  // running_product without a chain.
  bool has(const Position&) const noexcept;
  // Writes an element per pair. Throws POSITION if an angle overflows float32.
  void write(const Position&, std::span<CosSin> row);

  Way way() const noexcept { return way_; }

 private:
  double angle(const Position&, float held, std::size_t pair) const noexcept;
  void write_exact(const Position&, std::span<CosSin> row) const;
  void write_chain(const Position&, std::span<CosSin> row);
  void write_rotation(const Position&, std::span<CosSin> row);
  CosSin entry(double angle) const;

  const Subject* subject_;
  Way way_;
  std::vector<float> speed_;  // inv_freq as the way holds it
  float factor_;
  std::vector<float> theta_;  // running_product: by index
  // running_rotation: the row of position at_, and one step.
  std::uint64_t at_ = 0;
  std::vector<float> cos_, sin_, step_cos_, step_sin_;
};

// The largest error of any cos and sin of the row at each position: a curve to draw. Throws POSITION where the way has
// no row.
std::vector<double> errors_at(const Subject&, Way, const std::vector<Position>&);

}  // namespace rotary::accuracy
