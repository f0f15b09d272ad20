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
  // What several ways begin with, computed once for all of them: empty, or an element per pair.
  struct Known {
    std::span<const ExactCosSin> exact = {};
    std::span<const CosSin> product = {};  // the row of float32_product
  };
  // Writes an element per pair; known changes no bit of it. Throws POSITION if an angle overflows float32.
  void write(const Position&, std::span<CosSin> row, const Known& known);
  void write(const Position& position, std::span<CosSin> row) { write(position, row, Known{}); }

  Way way() const noexcept { return way_; }

 private:
  double angle(const Position&, float held, std::size_t pair) const noexcept;
  void write_exact(const Position&, std::span<CosSin> row, std::span<const ExactCosSin> known) const;
  void write_chain(const Position&, std::span<CosSin> row);
  void write_rotation(const Position&, std::span<CosSin> row);
  CosSin entry(double angle) const;
  CosSin stored(const CosSin& value) const noexcept;  // as the way's table holds it

  const Subject* subject_;
  Way way_;
  std::vector<float> speed_;  // inv_freq as the way holds it
  float factor_;
  std::vector<float> theta_;  // running_product: by index
  // running_rotation: the row of position at_, and one step.
  std::uint64_t at_ = 0;
  std::vector<float> cos_, sin_, step_cos_, step_sin_;
};

// Whether the entries of a way are those of float32_product, in the type of its table.
bool begins_with_product(Way) noexcept;

// The largest error of any cos and sin of the row at each position: a curve to draw. Throws POSITION where the way has
// no row.
std::vector<double> errors_at(const Subject&, Way, const std::vector<Position>&);

}  // namespace rotary::accuracy
