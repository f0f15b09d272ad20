// The ways of rotary/accuracy.h: what each makes of a rope, row by row, the real numbers that judge it, and its errors.
#pragma once

#include <cstdint>
#include <functional>
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

// The error of one pair of a table at that position.
Largest error_of(const CosSin&, const ExactCosSin&, const Position&, std::size_t pair);

// ---- ways ----

// running_rotation takes a step per position; it is not run beyond this one.
inline constexpr std::int64_t last_running_rotation = std::int64_t{1} << 20;

// A rope as the ways see it.
struct Subject {
  // frequencies: those of the rope, at some length. Throws ROPE where they have phases or xpos.
  Subject(const Rope& rope, const Frequencies& frequencies);

  // The truth, radians per position, of [rows, pairs]: a row for each head and each axis of a sum, which is measured
  // with the other coordinates at 0.
  std::vector<double> inv_freq;
  std::size_t rows = 1;
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
};

// Whether the way has a row there: not running_rotation beyond last_running_rotation or at fractions, nor
// running_product without a chain.
bool has_row(const Subject&, Way, const Position&) noexcept;

// What float32_product makes of a pair. Throws POSITION if the angle overflows float32.
CosSin float32_product(const Subject&, const Position&, std::size_t pair);

// What the ways share at one position: the real numbers, and float32_product, which several of them round once more.
struct SharedRow {
  SharedRow() = default;
  SharedRow(const Subject&, const Position&);

  Position position;
  std::vector<ExactCosSin> exact;  // of each pair, as all rows
  std::vector<CosSin> product;     // 0 where the angle is not finite
};

// The rows of one way at one position after another: only running_rotation depends on the positions before, so that
// those of rising magnitude are quick. The subject must outlive this.
class WayRows {
 public:
  WayRows(const Subject& subject, Way way) : subject_(&subject), way_(way) {}

  // Where the way has a row. Throws POSITION if an angle overflows float32. Valid until the next call.
  const std::vector<CosSin>& at(const SharedRow&);

 private:
  double angle(const Position&, std::size_t pair) const;
  CosSin value(const SharedRow&, std::size_t pair) const;
  void turn_to(const Position&);

  const Subject* subject_;
  Way way_;
  std::vector<CosSin> row_;
  std::vector<float> theta_;  // running_product: by index
  // running_rotation: the row of the position of magnitude at_, and one step.
  std::uint64_t at_ = 0;
  std::vector<CosSin> rotated_, step_;
};

// The largest error of any cos and sin of each way's row at each position, [way][position]: curves to draw. Throws
// POSITION where a way has no row.
std::vector<std::vector<double>> errors_at(const Subject&, std::span<const Way>, const std::vector<Position>&);

// ---- measure.cpp: the errors of cos and sin, and of the attention scores of unit vectors ----

// Of the default sample: every position below this one, and of each decade above `spread` that divide it evenly, its
// last `spread`, and each power of two and its neighbours.
inline constexpr std::int64_t all_below = 10000;
inline constexpr std::int64_t spread = 2048;

// The decades 0-9, 10-99, ... up to the one that holds `last`, with the default sample.
std::vector<Decade> default_decades(std::int64_t last);

// The decades that hold one of the positions, with exactly these.
std::vector<Decade> decades_of(std::vector<Position> positions);

// Of each way. done: told now and then, on the caller's thread, how many positions of all decades are measured. The
// executor changes no bit of the result.
std::vector<WayErrors> measure(const Subject&, const std::vector<Decade>&, const Executor& = serial(),
                               const std::function<void(std::int64_t)>& done = {});

// Every position from 0 to `most`, but no more than 2^24 pairs of cos and sin, of those that can be off by the
// tolerance at all. The tolerance must be 1e-6 or more.
Reach float32_reach(const Subject&, double tolerance, std::int64_t most);

}  // namespace rotary::accuracy
