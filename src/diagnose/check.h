// Whether a tensor is rotated as a rope asks: element by element.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "diagnose.h"

namespace rotary::diagnose {

struct Place {
  std::int64_t batch = 0, token = 0, head = 0;
  int element = 0;
  std::optional<int> pair;  // none: the element is not rotated
};

struct Checked {
  bool equal = false;
  double max_error = 0;        // the largest absolute difference
  double tolerance = 0;        // the largest difference that is allowed at any element
  std::optional<Place> first;  // the first element that is off, by batch, token, head and pair
  std::string layout;          // in which they were compared
  bool moves = false;          // whether the rope moves anything: not at position 0
};

// Compares `against` with `input` rotated by question.rope, which must be there, in double precision. A difference is
// allowed up to `tolerance`, or, without one, as the rounding of the element type, one rounding of the table and the
// float32 steps of the angles explain. In the layout of the question; without one in that which the rope's heads fit,
// and of several in the one with the fewest differences. Throws as diagnose.
Checked check(const Tensor& input, const Tensor& against, const Question&, std::optional<double> tolerance);

}  // namespace rotary::diagnose
