// The ways of rotary/accuracy.h: what each makes of a rope, row by row.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "exact.h"

namespace rotary::accuracy {

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

// The rows that a way makes of a rope: pure functions of the position. running_rotation goes on from the last row, so
// positions of rising magnitude are quick. The subject must outlive this.
class Rows {
 public:
  Rows(const Subject&, Way);

  // Whether the way has a row there: not running_rotation beyond last_running_rotation or at fractions, nor
  // running_product without a chain.
  bool has(const Position&) const noexcept;
  // running_rotation goes as far as the position now; the other ways have nothing to do.
  void go_to(const Position&);
  // Writes an element per pair. Throws POSITION if an angle overflows float32.
  void write(const Position&, std::span<CosSin> row);

  Way way() const noexcept { return way_; }

 private:
  double angle(const Position&, float held, std::size_t pair) const noexcept;
  void write_chain(const Position&, std::span<CosSin> row);
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
