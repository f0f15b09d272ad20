// How much the elements after a rotation are off beside their rounding, whatever its angles are.
#pragma once

#include <optional>
#include <vector>

#include "turns.h"

namespace rotary::diagnose {

// From the norms of pairs, which a rotation keeps up to one factor, and from elements that are not rotated. None where
// the elements are off by no more than their rounding, by so much that no pairing is left, or together, as by a norm or
// a gain of each head. By medians: some elements, heads or tokens that are wrong altogether are no noise.
Noise measure_noise(const Sample&, const std::optional<Block>& asked);

// Whether every pair keeps its norm within the rounding of the before.
bool norms_are_within_before(const Sample&, const Block&);

// Whether elements are the same before and after, but for the sample's noise.
class Still {
 public:
  explicit Still(const Sample& sample) noexcept : sample_(sample) {}
  void add(double before, double after) noexcept;
  bool holds() const noexcept;

 private:
  const Sample& sample_;
  double sum_ = 0;  // of squared changes in squared errors
  double count_ = 0;
  bool moved_ = false;  // by more than rounding
};

}  // namespace rotary::diagnose
