// One unknown number from angles that are known only up to whole turns.
#pragma once

#include <vector>

namespace rotary::diagnose {

// angle = value * factor + whole turns, with a standard error.
struct Phase {
  double angle = 0;
  double sigma = 0;
  double factor = 0;
  double steps = 1;  // how many times the error of a usual engine's angles in float32
  double far = 0;    // the angle is the difference of two that are value * far large: their float32 steps are its error
};

struct Unwrapped {
  double value = 0;
  double error = 0;  // standard error of value; infinite where no phase says anything
  double misfit =
      0;  // the largest remaining angle, in units of 6 standard errors: at most 1 where the value explains all
  bool unique = true;  // false: another value within the range explains the phases as well
};

// The value within `range` of `near` that explains the phases best; among equals the nearest. Begins with the phase of
// the smallest factor, for every number of whole turns in the range, and refines by the next larger ones.
Unwrapped unwrap(std::vector<Phase> phases, double near, double range);

double wrapped(double angle) noexcept;  // in [-pi, pi]

}  // namespace rotary::diagnose
