// Positions from turns and speeds; speeds from turns and positions: both from angles that are known up to whole turns;
// and the base and scaling that explain speeds.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "findings.h"
#include "turns.h"

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
  double error = 0;   // standard error of value; infinite where no phase says anything
  double misfit = 0;  // the largest remaining angle, in units of 6 standard errors: at most 1 where value explains all
};
// The value within `range` of `near` that explains the phases best; among equals the nearest. Begins with the phase of
// the smallest factor, for every number of whole turns in the range, and refines by the next larger ones.
Unwrapped unwrap(std::vector<Phase> phases, double near, double range);

// The positions at which pairs of those speeds explain the turns, one per row, for the pairs of one axis.
struct FoundPositions {
  std::vector<double> position;
  std::vector<double> error;  // standard error; infinite where no pair of the row says anything
  bool holds = true;          // every row has a position that explains all of its pairs
};
FoundPositions find_positions(const Turns&, const Motion& speeds, int axis, const std::vector<double>& expected);
// Of each axis; empty where some row has no positions that explain all of its pairs.
std::vector<FoundPositions> find_positions(const Turns&, const Motion& speeds,
                                           const std::vector<std::vector<double>>& expected);

// The speed of a pair whose angles rise evenly with the positions, and its angle at position 0.
struct FoundSpeed {
  double speed = 0;
  double error = 0;        // standard error; infinite where the data say nothing
  double phase = 0;        // in [-pi, pi]; 0 where the angles are those of the positions
  double phase_error = 0;  //
  bool holds = false;      // one speed explains the pair at every row
};
FoundSpeed find_speed(const Turns&, int pair, const std::vector<double>& position);
double sign_of(const std::vector<FoundSpeed>&);  // 1 or -1, of most pairs
// The number of positions by which all pairs are ahead of those given: whole where it can be. None: no such number.
std::optional<double> shift_of(const std::vector<FoundSpeed>&);

// How a list of positions differs from the expected one. Rows are [batch, tokens].
struct Pattern {
  Finding found = {};                           // as_asked where it does not
  double value = 0;                             // of an offset, a step and a constant
  std::function<double(double)> position = {};  // of an expected one; empty: it is not that alone which decides
  std::optional<Finding> more = {};             // of the positions, where the direction is another too
};
// error: of each position, standard errors; empty: none. Positions found in the data are whole where they can be.
Pattern pattern_of(const std::vector<double>& position, const std::vector<double>& expected, std::int64_t batch,
                   const std::vector<double>& error = {});

// Rows of which nothing is known (their error is infinite) get the position that the pattern of the others gives them.
void fill_unknown(FoundPositions&, const std::vector<double>& expected, std::int64_t batch);

// ---- base and scaling: explain.cpp ---------------------------------------------------------------

struct Speed {
  double value = 0;  // radians per position, not negative
  double error = 0;  // what rounding explains; infinite where the data say nothing
};
std::vector<Speed> speeds_of(const std::vector<FoundSpeed>&);  // without their common sign

struct Explanation {
  Rope rope;                // whose frequencies the speeds are
  std::int64_t length = 0;  // for scalings that depend on it
  Finding found;            // "is rotated without the scaling yarn"; what the model asks is added to it
};
// The asked rope with one thing changed: other lengths, without its scaling, with other values of it, with another
// scaling, with another base, and with usual bases without the scaling.
std::vector<Explanation> rivals(const Rope& asked, std::int64_t length, std::int64_t context);

// The asked rope with a known mistake in how frequencies are made (causes.cpp).
std::vector<Explanation> causes(const Rope& asked, std::int64_t length);
// The length for which dynamic, which the rope asks, has that base.
std::optional<std::int64_t> dynamic_length(double base, const Rope& asked);
// The factor of ntk_aware that gives a base above the asked one.
std::optional<double> ntk_factor(double base, const Rope& asked);
// The mistake that makes all speeds `step` times the asked ones.
std::optional<Cause> cause_of_step(double step, const Rope& asked);

// The first of the known methods whose frequencies are the speeds within their errors: the asked rope with another
// base, without its scaling, with another scaling; then a fit of base and scaling. asked.rotary_dim is that of the
// block.
std::optional<Explanation> explain_speeds(const std::vector<Speed>& speeds, const Rope& asked, std::int64_t length);
// Without a config: only the fit. scale_known: the positions are known, and with them the scale of the speeds.
std::optional<Explanation> fit_speeds(const std::vector<Speed>& speeds, int rotary_dim, bool scale_known);

}  // namespace rotary::diagnose
