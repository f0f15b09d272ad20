// Positions from turns and speeds; speeds from turns and positions.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "turns.h"

namespace rotary::diagnose {

// The positions at which pairs of those speeds explain the turns, one per row, for the pairs of one axis.
struct FoundPositions {
  std::vector<double> position;
  std::vector<double> error;  // standard error; infinite where no pair of the row says anything
  bool holds = true;          // every row has a position that explains all of its pairs
};
FoundPositions find_positions(const Turns&, const Motion& speeds, int axis, const std::vector<double>& expected);

// The speed of each pair whose angles rise evenly with the positions of an axis, and its angle at position 0.
struct FoundSpeeds {
  std::vector<double> speed;
  std::vector<double> error;        // standard error; infinite where the data say nothing
  std::vector<double> phase;        // in [-pi, pi]; 0 where the angles are those of the positions
  std::vector<double> phase_error;  //
  std::vector<bool> holds;          // one speed explains the pair at every row
};
FoundSpeeds find_speeds(const Turns&, const std::vector<double>& position);
std::vector<FoundSpeeds> find_speeds(const Turns&, const std::vector<std::vector<double>>& of_axis);
// Of each pair, what was found with the positions of its axis.
FoundSpeeds pick(const std::vector<FoundSpeeds>& of_axis, const std::vector<std::uint8_t>& axis);
double sign_of(const FoundSpeeds&);  // 1 or -1, of most pairs
// The number of positions by which all pairs are ahead of those given: whole where it can be. None: no such number.
std::optional<double> shift_of(const FoundSpeeds&);

// How a list of positions differs from the expected one. Rows are [batch, tokens].
enum class Change : std::uint8_t {
  none,
  offset,
  negated,
  doubled,
  step,
  reversed,
  constant,
  wrapped,
  rounded,
  restarts,
  rows,
  other,
};
struct Pattern {
  Change kind = Change::other;
  double value = 0;   // of offset, step, constant; of wrapped the modulus; of rounded the bits of the significand
  std::string words;  // "begin 3 later than they should"
};
// Rows of which nothing is known (their error is infinite) get the position that the pattern of the others gives them.
void fill_unknown(FoundPositions&, const std::vector<double>& expected, std::int64_t batch);
// error: of each position, standard errors; empty: none. Positions found in the data are whole where they can be.
Pattern pattern_of(const std::vector<double>& position, const std::vector<double>& expected, std::int64_t batch,
                   const std::vector<double>& error = {});

}  // namespace rotary::diagnose
