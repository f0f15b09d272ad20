// The ways in which a tensor can differ from the rope that its model asks. Each looks for one kind of fault, adds its
// findings and facts, and says whether it explains the turns.
#pragma once

#include <string>

#include "examination.h"

namespace rotary::diagnose {

// The asked rope explains the turns, or would with angles of fewer bits.
bool explain_by_precision(Examination&, const Asked&);
// Each pair at the asked speed listens to the positions of some axis.
bool explain_by_axes(Examination&, const Asked&);
// The asked speeds, at other positions.
bool explain_by_positions(Examination&, const Asked&);
// The asked rope with one thing changed, at the expected positions. holds: the asked rope itself explains the turns
// within their rounding, so a rival has to be better by far.
bool explain_by_rivals(Examination&, const Asked&, bool holds);
// Any speeds, at the expected positions or some constant number of positions away.
bool explain_by_speeds(Examination&, const Asked&);

std::string axis_name(const ModelRope&, int axis);  // "height", or "axis 1" where the config does not say
const char* turning(bool clockwise) noexcept;       // "clockwise", "counterclockwise"
std::string evidence(double found, double asked);   // " (residual 3e-08 against 0.9)"

}  // namespace rotary::diagnose
