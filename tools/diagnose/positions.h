// Positions from turns and speeds; speeds from turns and positions: both from angles that are known up to whole turns.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "findings.h"
#include "turns.h"

namespace rotary::diagnose {

// The positions at which pairs of those speeds explain the turns, one per row, for the pairs of one axis.
struct FoundPositions {
  std::vector<double> position;
  std::vector<double> error;  // standard error; infinite where no pair of the row says anything
  bool holds = true;          // every row has a position that explains all of its pairs
};
FoundPositions find_positions(const Turns&, const Motion& speeds, int axis, const std::vector<double>& expected);

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
  double value = 0;                             // the offset, the step or the constant
  std::function<double(double)> position = {};  // maps an expected position; empty where it does not decide alone
  std::optional<Finding> more = {};             // the positions' own, where the direction is another too
};
// error: of each position, standard errors; empty: none. Positions found in the data are whole where they can be.
Pattern pattern_of(const std::vector<double>& position, const std::vector<double>& expected, std::int64_t batch,
                   std::vector<double> error = {});
Finding find_offset(double found, double asked);

}  // namespace rotary::diagnose
