// The state of one tensor's diagnosis. The public functions, which take several tensors, are in request.cpp.
#pragma once

#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "findings.h"
#include "ropes.h"
#include "turns.h"

namespace rotary::diagnose {

// ---- one tensor ----------------------------------------------------------------------------------

// Shapes as sample_as_given takes them. Throws SHAPE and DTYPE, and SHAPE if the positions fit no layout.
Diagnosis diagnose_pair(const Tensor& before, const Tensor& after, const Subject&);
// answer() diagnoses a sample that is made, cut or repaired. depth: how often parts may be cut out of parts.
using Piece = std::array<std::set<std::int64_t>, 3>;  // numbers of rows, tokens and heads of a layout
struct Answer {
  Diagnosis diagnosis;
  bool explained = false;  // the whole, a repair or parts leave nothing open but rounding and the sample's noise
  bool as_one = false;     // one rotation of the whole explains it within `bounds`
  bool named = true;       // false: parts may say it better
  Bounds bounds = {};
};
Answer answer(const Sample&, const Subject&, int depth = 2);
Answer answer_as_one(const Sample&, const Subject&);  // parts not looked at, within the sample's bounds
// The answer for a sample that no one rotation explains; empty where no repair and no parts do either. apart: parts are
// tried even where none of them is as asked.
std::optional<Answer> answer_by_parts(const Sample&, const Subject&, int depth, bool apart);

// A sample in which the steps of the model next to the rotation are undone (around.cpp).
struct Around {
  Sample as_asked;                    // the steps that the model asks are undone
  Sample as_found;                    // the steps that the data show are undone
  std::vector<Finding> remarks = {};  // the steps that are as the model asks
  // A step that is not as the model asks. Without one both samples have the same elements.
  std::optional<Finding> fault = {};
  std::optional<Finding> open = {};   // a step that the data lack; the model may do it after the dump
};
Around without_steps_around(const Sample&, const Subject&);
// The sample with a norm of each head after the rotation undone; empty if the data show no such norm.
std::optional<Sample> without_norm_behind(const Sample&, const Reading&, const Subject&);

// Compares after with before rotated as the subject's rope asks, which must be there, in double precision, diagnoses
// the same data, and says what follows from both: see diagnose::check. In the layout of the subject; without one in
// that which the rope's heads fit, and of several in the first without a difference. Throws as diagnose, and TENSOR for
// an element that is not finite. others: the model's other ropes.
NamedCheck judge(const TensorPair&, const Subject&, std::optional<double> tolerance,
                 const std::vector<const ModelRope*>& others);
// Two engines' tensors from the same one: the same, in another order of elements, rotated by an offset, or not.
NamedCheck judge_between(const TensorPair&, const Subject&, std::optional<double> tolerance);
// Another order of elements keeps the scores if q and k have the same one; a tensor alone is then undecided.
void settle_orders(std::vector<NamedCheck>&);
// Throws TENSOR for the first element that is not finite.
void refuse_not_finite(const Sample&, const TensorPair&, const Layout&);
// judge() for a tensor that must not be rotated: a value, or a tensor of a layer without a rope. subject.used: a rope
// with the same heads.
NamedCheck judge_still(const TensorPair&, const Subject&, std::optional<double> tolerance);

// Throws POSITION unless the set holds the positions of all its axes, rows and tokens, and has one axis or the rope's.
void expect_whole(const std::string& operation, const PositionSet&, int rope_axes);

std::string who(const std::string& tensor);  // its name, or "the tensor"
void say(NamedCheck&);                       // fills in the sentences of the findings
// One diagnosis of several tensors: the worst verdict, with a sentence that says which tensors it is about.
// right: the words for the tensors without a finding.
inline constexpr const char* as_asked = "as the config asks";
Diagnosis combine(const std::vector<NamedCheck>& tensors, const std::string& right = as_asked);

// Whether its speeds are one for each pair: others have no base, and no scaling that can be told from them.
inline bool has_one_speed_per_pair(const Rope& rope) { return rope.head_rows == 1 && rope.summed_axes == 0; }

// ---- while it is examined ------------------------------------------------------------------------

struct Examination {
  Sample sample;
  Subject subject;
  BlockSearch search = {};
  Turns turns = {};
  // Per axis, of each row of turns; without a rope and positions 0, 1, 2, ...
  std::vector<std::vector<double>> expected = {};
  double factor = 1;  // measured
  Facts facts = {};
  std::vector<Finding> findings = {};
  double residual = 0;
  bool explained = false;  // the findings leave nothing but rounding and noise
  bool named = true;       // false: parts may say it better

  void take(const Fit& fit) { residual = fit.residual, explained = fit.holds; }
  void find(Finding one) { findings.push_back(std::move(one)); }
  void find(Cause cause, std::vector<Number> numbers = {}) { find(finding(cause, std::move(numbers))); }
  // Adds a finding that fits the turns better than the asked motion.
  void claim(Finding one, const Fit& fit, const Fit& asked) {
    take(fit);
    find(with_residuals(std::move(one), fit.residual, asked.residual));
  }
  void drop(Verdict verdict) {
    std::erase_if(findings, [=](const Finding& one) { return one.verdict == verdict; });
  }
  void set_pairing();                                       // as a fact, if the data tell it
  void set_positions(const std::vector<double>& position);  // a fact for each row
  void set_speeds(const std::vector<double>& speed);        // as facts, without their sign
};

// The readings that fit the subject, those first whose heads are the rope's. Throws SHAPE where there is none.
std::vector<Reading> plausible_readings(const Sample&, const Subject&);
// The readings that are as likely as the first.
std::vector<Reading> likeliest_readings(const Sample&, const Subject&);
// The positions by axis, of each row of the layout.
std::vector<std::vector<double>> rows_of(const PositionSet&, const Layout&, const Subject&);
std::vector<std::vector<double>> expected_positions(const Layout&, const Subject&);
// The dimensions of which the turns do not depend on the head; fills turns, expected, factor and facts. False: none.
bool find_layout(Examination&);

// The block and the frequencies that a rope asks for a tensor of that head_dim.
struct Asked {
  const ModelRope& used;
  Block block;
  std::int64_t length = 0;
  std::int64_t context = 0;  // Subject::context
  Numbers rows;              // the row of the rope's frequencies that each head takes
  Frequencies frequencies;
  Motion motion;  // at the expected positions
  Fit fit = {};   // how the motion fits, while a tensor is examined
  // The attention factor in the tensor before: 1 if that is not rotated yet.
  double factor_before() const noexcept { return motion.from.empty() ? 1 : frequencies.attention_factor; }
};
Asked ask(const Subject&, const Block&, const Layout&, const std::vector<std::vector<double>>& expected);
Asked ask(const Subject&, const Block&, const Layout&);  // at its expected positions
std::optional<Block> asked_block(const Subject&, int head_dim);
Rope rope_for_block(Rope, const Block&);  // the rope as it would be in a block of that width
// The motion of frequencies at the positions and the factor of `at`. rows: the row of frequencies that each head takes.
Motion motion_of(const Frequencies&, const Motion& at, const Numbers& rows);
Motion motion_of(const Explanation&, const Asked&);  // at the expected positions

Piece all_of(const Layout&);
// The sample and the subject of a piece: at its positions, of the length of all, in that reading.
std::pair<Sample, Subject> cut(const Sample&, const Subject&, const Reading&, const Asked&, const Piece&);

// ---- element by element ----

// An element of the tensor after, with the value that is asked.
struct Element {
  ElementIndex place;
  double wanted = 0, after = 0;
  double norm = 0;     // the pair's
  double allowed = 0;  // the largest difference that rounding explains
  double off() const noexcept { return std::abs(after - wanted); }
};
// Visits the elements of each head of the rows [begin, end): first the elements of pairs, then those that no pair
// writes. turned: false if the tensor before is rotated too, so that only the order of elements is asked.
void hold_heads(const Sample&, const Layout&, const Block&, const Motion&, std::int64_t begin, std::int64_t end,
                bool turned, const std::function<void(std::span<const Element>)>& visit);

// Some or all rows of a sample against what is asked.
struct Comparison {
  Checked checked = {};
  std::int64_t off = 0;                 // elements that are off by more than rounding
  std::vector<double> wrong = {};       // each row: 0 where rounding explains all, else 1 + the factor of its norm
  double off_squares = 0, squares = 0;  // sums: of the differences, and of what is asked
  double rms() const noexcept { return squares > 0 ? std::sqrt(off_squares / squares) : 0; }
};
// turned: as of hold_heads. If it is false, two engines have rounded: an element may be off by twice as much.
Comparison compare_rows(const Sample&, const Layout&, const Block&, const Motion&, std::optional<double> tolerance,
                        bool turned = true);
struct Compared : Comparison {  // by a reading
  Reading reading;
  Asked asked;
};
Compared compare(const Sample&, const Reading&, const Subject&, std::optional<double> tolerance);
// Diagnoses some tokens first where there are many. known: comparisons that were made.
Diagnosis diagnose(const Sample&, const Subject&, const std::vector<Compared>& known = {});
// Diagnoses around.as_found and adds the findings on the steps. known: comparisons of around.as_asked.
Diagnosis diagnose(const Around&, const Subject&, const std::vector<Compared>& known = {});

// The faults that turns which are as asked would have shown.
Power power_of(const Turns&, const Asked&, bool pairing_shows, const std::vector<const ModelRope*>& others);
Power common_power(const std::vector<NamedCheck>&);  // the faults that each of them would show

// The largest relative residual of a composite or a map that explains the data; a wrong one leaves nearly 1.
inline constexpr double explains = 0.02;
// A fault after which no pairing keeps the norms, where one is known.
void examine_composites(Examination&);
// Looks for linear maps of pairs that are no rotations, as a wrong table makes them, with less than this residual.
bool examine_maps(Examination&, const Asked&, const Reading&, double residual);
void examine_with_rope(Examination&);
void examine_without_rope(Examination&);

// ---- a tensor that differs from the rope that its model asks: each looks for one kind of fault, adds its findings and
// facts, and says whether it explains the turns ----

// The asked speeds, at other positions.
bool explain_by_positions(Examination&, const Asked&);
// How a list of positions differs from the expected one. Rows are [batch, tokens].
struct Pattern {
  Finding found = {};                           // as_asked where it does not
  double value = 0;                             // the offset, the step or the constant
  std::function<double(double)> position = {};  // maps an expected position; empty where it does not decide alone
  std::optional<Finding> more = {};             // the positions' own, where the direction is another too
};
// error: of each position, standard errors; empty: none. Positions found in the data are whole where they can be.
// Positions whose pattern has no name may be the negative ones of a pattern that has one. mirrored: these are such.
Pattern pattern_of(std::vector<double> position, const std::vector<double>& expected, std::int64_t batch,
                   std::vector<double> error = {}, bool mirrored = false);
Finding find_offset(double found, double asked);
inline constexpr double far_positions = 0x1p24;  // from here on float32 does not hold every whole number
// How much better other explains the turns than asked does, as a quotient of mean squares, where the two differ and the
// elements move by more than their rounding. as_other: of the turns as they would be if `other` had made them.
double advantage(const Turns&, const Motion& asked, const Motion& other, bool as_other = false);

std::string axis_name(const ModelRope&, int axis);  // "height", or "axis 1" where the config does not say
Finding direction_found(bool clockwise, bool asked);
// Whether it is worth saying, beside the residual of what is asked. At positions far enough every angle holds.
bool says_more(const Fit&, double asked);

}  // namespace rotary::diagnose
