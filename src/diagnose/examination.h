// What is known of one tensor while it is diagnosed.
#pragma once

#include <string>
#include <vector>

#include "motion.h"
#include "question.h"
#include "turns.h"

namespace rotary::diagnose {

// text continues a sentence that begins with the tensor's name.
struct Finding {
  Verdict verdict = Verdict::cannot_tell;
  std::string text;
};

struct Examination {
  const Sample& sample;
  const Subject& subject;
  BlockSearch search;
  Turns turns;
  std::vector<std::vector<double>>
      expected;       // per axis, of each row of turns; without a rope and positions 0, 1, 2, ...
  double factor = 1;  // measured
  Facts facts;
  std::vector<Finding> findings;
  double residual = 0;

  void find(Verdict verdict, const std::string& text) { findings.push_back({verdict, text}); }
  bool kind_is_known() const;
  void set_positions(const std::vector<double>& position);  // of each row, as facts
};

// The block and the frequencies that a rope asks for a tensor of that head_dim.
struct Asked {
  const ModelRope& used;
  Block block;
  std::int64_t length = 0;
  Frequencies frequencies;
  Motion motion;  // at the expected positions
};
std::optional<Block> asked_block(const Subject&, int head_dim);
Rope rope_for_block(Rope, const Block&);  // the rope as it would be in a block of that width
Asked ask(const ModelRope&, const Block&, const Subject&, const std::vector<std::vector<double>>& expected);

// The dimensions of which the turns do not depend on the head; fills order, turns, expected and factor. False: none.
bool find_order(Examination&);

// The orders that fit the subject, those first whose heads are the rope's.
std::vector<Order> plausible_orders(const Sample&, const Subject&);
std::vector<std::vector<double>> expected_positions(const Order&, const Subject&);

// A fault after which no pairing keeps the norms. False: none that is known.
bool examine_composites(Examination&);
void examine_with_rope(Examination&);
void examine_without_rope(Examination&);
// The turns differ from head to head in every layout.
void examine_heads(Examination&);

std::string residuals(double found, double asked);  // "residual 3e-08 against 0.9"

// ---- a tensor that differs from the rope that its model asks: each looks for one kind of fault, adds its findings and
// facts, and says whether it explains the turns ----

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
