// Pairs that listen to another axis than the rope asks.
#include <algorithm>
#include <cmath>
#include <string>

#include "with_rope.h"

namespace rotary::diagnose {

namespace {

// The largest difference of a pair's turns from those at the positions of that axis, in tolerances.
double misfit_of(const Turns& turns, const Motion& asked, int pair, int axis) {
  Motion one = asked;
  one.axis.assign(one.speed.size(), static_cast<std::uint8_t>(axis));
  double worst = 0;
  for (std::int64_t row = 0; row < turns.rows(); ++row) {
    const std::complex<double> turn = one.turn(row, pair), off = turns.turn[turns.at(row, pair)] - turn;
    const std::complex<double> allowed =
        tolerance(turns, turns.at(row, pair), one.angle(row, pair), turn, slack_of(pair));
    worst = std::max({worst, std::abs(off.real()) / allowed.real(), std::abs(off.imag()) / allowed.imag()});
  }
  return worst;
}

}  // namespace

bool explain_by_axes(Examination& exam, const Asked& asked) {
  const int axes = static_cast<int>(exam.expected.size());
  if (axes < 2) return false;
  const Fit before = compare(exam.turns, asked.motion);
  Motion motion = asked.motion;
  motion.axis.resize(motion.speed.size(), 0);
  int moved = 0, first_moved = -1;
  for (int pair = 0; pair < exam.turns.block.pairs; ++pair) {
    const int own = asked.motion.axis_of(pair);
    double least = misfit_of(exam.turns, asked.motion, pair, own);
    if (least <= 1) continue;
    for (int axis = 0; axis < axes; ++axis) {
      const double misfit = misfit_of(exam.turns, asked.motion, pair, axis);
      if (misfit >= least) continue;
      least = misfit;
      motion.axis[static_cast<std::size_t>(pair)] = static_cast<std::uint8_t>(axis);
    }
    if (least > 1) return false;
    if (moved++ == 0) first_moved = pair;
  }
  if (moved == 0) return false;
  const Fit fit = compare(exam.turns, motion);
  exam.residual = fit.residual;
  exam.facts.axis = motion.axis;
  exam.find(Verdict::axis, "is rotated with other axes in " + std::to_string(moved) + " of its " +
                               std::to_string(exam.turns.block.pairs) + " pairs: pair " + std::to_string(first_moved) +
                               " listens to " + axis_name(asked.used, motion.axis_of(first_moved)) +
                               ", the model asks " + axis_name(asked.used, asked.motion.axis_of(first_moved)) +
                               evidence(fit.residual, before.residual));
  return true;
}

}  // namespace rotary::diagnose
