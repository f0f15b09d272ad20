// check() compares tensors that an engine rotated with what a model's config asks, element by element. diagnose() finds
// what the rotation did to them and how that differs from the model. Link rotary_tools.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rotary/choice.h"
#include "rotary/config.h"
#include "rotary/tensors.h"
#include "rotary/threads.h"

namespace rotary::diagnose {

// ---- the request ---------------------------------------------------------------------------------

// One tensor before and after the rotation of an engine. Both have one shape of two to four dimensions, and the type
// F64, F32, F16 or BF16.
struct TensorPair {
  std::string name;  // says whether it is q or k ("q", "layers.0.q_proj", "wk"); "" if the file is an .npy
  Tensor before;
  Tensor after;
};

// Tensors to choose from: those of a file, or the caller's own.
struct TensorSource {
  std::string name;                                // for error sentences
  std::vector<TensorInfo> infos;                   // just one, of the name "", if it is an .npy
  std::function<Tensor(const std::string&)> read;  // throws TENSOR for a name that is not there
};

// Reads the pairs of two sources: the tensors of `names`; without names q and k; if there is neither, every tensor of a
// float type and at least two dimensions that both have, or of these only the ones that are q, k or v by their names.
// The operation "check" also reads v beside q and k, and a query or key that one source alone has, without an `after`.
// The operation is the word in brackets in error sentences. Throws TENSOR, and what reading throws.
ROTARY_API std::vector<TensorPair> read_pairs(const std::string& operation, const TensorSource& before,
                                              const TensorSource& after, const std::vector<std::string>& names);
// Reads the pairs of two files in the same way (tensors.h; "-" is standard input).
ROTARY_API std::vector<TensorPair> read_pairs(const std::string& operation, const std::string& before,
                                              const std::string& after, const std::vector<std::string>& names);

// Without positions the tokens are at 0, 1, 2, ...; for a rope of coordinates they are then unknown.
struct Request : Choice {
  std::string operation = "diagnose";    // the word in brackets in error sentences
  std::optional<Model> model = {};       // check() needs it
  std::optional<double> tolerance = {};  // the largest difference that check() allows; empty: as rounding explains
  bool rotated = false;                  // before and after are tensors that two engines rotated
  // before is rotated already, as keys in a cache, at these positions, and after at Choice::positions.
  std::optional<PositionSet> from = {};
  bool backward = false;  // after is before rotated by the transposed rotation, as a gradient is
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};  // called between steps; may be empty
  const Executor* executor = &serial();
};

// ---- the answer ----------------------------------------------------------------------------------

enum class Verdict : std::uint8_t {
  as_configured,
  pairing,
  direction,
  offset,
  positions,
  base,
  scaling,
  block,
  layout,
  attention_factor,
  precision,
  twice,
  some_heads,
  axis,
  not_rotated,
  cannot_tell,
  noise,     // as configured, but for noise beyond what rounding explains
  layer,     // the tensor is rotated although its layer has no rope
  elements,  // a fault that is no rotation: single elements, zeros, a norm between before and after
  heads,     // rotated by the frequencies of other heads
};
ROTARY_API const char* name(Verdict) noexcept;

// clang-format off
// The cause of a finding; tools/diagnose/findings.cpp has a row for each, with its verdict and its sentence.
enum class Cause : std::uint8_t {
  // nothing is wrong
  as_configured, as_asked,
  // the tensors do not tell
  zeros, position_0, not_finite, norms, heads_differ, one_pair, no_speeds, no_frequencies, no_positions, no_config,
  // pairs, blocks, heads, layouts
  not_rotated, no_angles, some_heads, pairing, order, block, head_index, reshaped, rows_of_heads, one_row_of_heads,
  offsets, zero_after, zero_before,
  // the attention factor
  still_without_factor, without_factor, factor_twice, factor,
  // the factor of queries
  query_factor_left_out, query_factor_twice,
  // precision
  coarse_table, coarse_inv_freq, coarse_angles, coarse_steps, tf32, off, only_noise, noise, coarse_before,
  // axes
  one_axis, axes_exchanged, axes_left_out, axes_in_runs, axes_in_turns, axes_reversed, axes_further, axes_back,
  other_axes,
  // positions and direction
  direction, mirrored, sin_cos_exchanged, map, map_of_pairs, offset, moved_back, constant_position, position_step,
  wrapped_positions, rounded_positions, reversed_positions, padded_positions, restarted_positions, counted_positions,
  other_positions,
  // two rotations in one, and kernels
  doubled, twice_as_asked, twice_mixed, table_of_other_pairing, in_place, without_second_sin,
  // base and scaling
  base, scaling, scaling_left_out, linear, short_list, long_list, within_length, other_length,
  scaling_twice, own_time, unknown_speeds, some_pairs_still, some_pairs_slow, some_pairs_other,
  exponent_half, exponent_double, exponent_less_2, exponent_of_head, exponent_of_block, exponent_odd,
  exponent_of_neighbours, pairs_from_1, pairs_from_minus_1, axes_continued, yarn_on_ntk, frequencies_rolled_early,
  frequencies_rolled_late, frequencies_early, frequencies_late, frequencies_reversed,
  // a tensor before that is not the input of the rotation, and single elements
  another_order, before_norm, norm_in_front, norm_behind, factors, still_elements_zero, still_elements_multiplied,
  still_elements_differ, single_elements, table_entries, another_tensor,
  // a tensor that is not to be rotated
  not_to_rotate, rotated_nonetheless, changed_nonetheless,
  // two engines
  same, same_in_another_order, same_but_noise, further, turned_otherwise, other_as_asked, another_in_second,
  zero_in_both,
  // all else, and questions that the findings leave open
  rest_as_asked, as_asked_in, others_open, open_layers, rope_of_other_layers, one_file,
  at_position_0, one_token, one_of_two_layouts, open_rope, other_layout,
  query_factor_open, query_factor, norm_behind_asked, still_block,
};
// clang-format on
ROTARY_API const char* name(Cause) noexcept;

// The values of a rope that a finding names.
struct NamedRope {
  std::optional<double> base = {};
  std::optional<Scaling> scaling = {};
  std::int64_t length = 0;  // for a scaling that depends on it; 0: the scaling does not depend on it
  bool operator==(const NamedRope&) const = default;
};

// A value of a finding: a number, a word or a list, with its name in JSON.
struct Number {
  using Value = std::variant<bool, double, std::string, std::vector<std::int64_t>, std::vector<double>, NamedRope>;
  std::string name;
  Value value;
  int digits = 0;    // significant digits of a double in a sentence; 0: all that a position or a count has
  double error = 0;  // the largest error of a double
};

// The rows, heads, tokens, pairs and elements that a finding is about. An empty list stands for all.
struct Where {
  std::vector<std::int64_t> rows = {}, heads = {}, tokens = {}, pairs = {}, elements = {};
  bool operator==(const Where&) const = default;
};

struct Finding {
  Verdict verdict = Verdict::cannot_tell;
  Cause cause = Cause::no_config;
  std::vector<Number> numbers = {};
  Where where = {};
};
// Whether both have one cause at one place, and numbers that are equal within their errors.
ROTARY_API bool operator==(const Finding&, const Finding&);

// The precision in which the angles and the table of cos and sin were computed.
enum class Precision : std::uint8_t { exact, f32, f16, bf16 };
ROTARY_API const char* name(Precision) noexcept;

// The facts of a rotation that its data show. A fact that they do not determine is empty.
struct Facts {
  std::optional<std::string> pairing;  // "half", "interleaved", "interleaved_to_half", "half_to_interleaved"
  std::optional<bool> clockwise;
  std::optional<int> first;                    // element of the head where the rotated block begins
  std::optional<int> rotary_dim;               // elements of the block
  std::vector<std::vector<double>> positions;  // axis 0's, for each batch row; one row where all are alike
  std::vector<double> inv_freq;                // radians per position, one per pair
  std::vector<std::uint8_t> axis;              // per pair; empty where there is one axis
  std::optional<double> base;
  std::optional<Scaling> scaling;
  std::optional<double> attention_factor;
  std::optional<Precision> precision;
  std::optional<double> noise;      // rms of the error of an element, without its rounding
  std::string layout;               // "bthd"
  std::vector<std::int64_t> heads;  // the heads that rotate
};

struct Diagnosis {
  Verdict verdict = Verdict::cannot_tell;
  std::vector<Finding> found = {};  // likeliest first
  Facts facts = {};
  double residual = 0;                     // rms of what the facts leave unexplained, relative
  std::string sentence = {};               // all that is found: "k is rotated in the interleaved pairing; ..."
  std::vector<std::string> findings = {};  // a sentence for each thing that differs, without the tensor's name
};

// The numbers of an element of a tensor.
struct ElementIndex {
  std::int64_t batch = 0, token = 0, head = 0;
  int element = 0;          // its number in the head
  std::optional<int> pair;  // empty where the element is not rotated
};

// The comparison of a tensor with what is asked, element by element.
struct Checked {
  bool equal = false;
  double max_error = 0;        // the largest absolute difference
  double tolerance = 0;        // the largest difference that is allowed at any element
  double error = 0;            // the largest difference of the elements that are off; of all if none is off
  double allowed = 0;          // the difference that is allowed at that element
  std::optional<ElementIndex> first;  // the first element that is off, by batch, token, head and pair
  std::string layout;                 // the layout in which they were compared
  bool moves = false;                 // whether the rope moves any element; at position 0 it moves none
};

// In rising order: several tensors together have the last of theirs.
enum class Outcome : std::uint8_t { equal, undecided, differs };
ROTARY_API const char* name(Outcome) noexcept;

// The faults that would have been found in data that are equal.
struct Power {
  // "pairing", "direction", "offset", "base", "scaling llama3", "factor", "trained length", "truncate", "length",
  // "list of longrope", "block", "attention factor", "layer's rope"
  std::vector<std::string> would_show = {}, would_not_show = {};
  double base = 0;           // the least relative change of a base that would show
  std::int64_t tokens = 0;   // 0: nothing is known
  double unit = 0;           // the largest relative error of rounding to the elements' type
  std::string scaling = {};  // the scaling that has this factor and these lengths: "llama3"
  ROTARY_API std::string sentence() const;
};

// One tensor. Of a diagnosis alone `name`, `diagnosis`, `layer`, `rope` and `sentence` count.
struct NamedCheck {
  std::string name;  // TensorPair::name
  Diagnosis diagnosis = {};
  std::optional<int> layer = {};  // whose rope is asked; none: no layer is known, or the request names a rope
  std::string rope = {};          // "rope 1 of 2"; "" where the model has one, or the request names it
  Checked checked = {};
  Outcome outcome = Outcome::equal;
  std::vector<Finding> remarks = {};  // the reasons why it is undecided; further facts if it is equal
  std::string sentence = {};          // the sentence of the diagnosis, or of the remarks if it is undecided
  std::string note = {};              // the remarks on a tensor that is equal: "bhtd has the same shape"
  Power power = {};                   // empty unless it is equal
};

struct Diagnosed {
  std::vector<NamedCheck> tensors;  // in the order of the pairs
  Diagnosis all;                    // the worst verdict, with a sentence that says which tensors it is about
};

struct CheckResult : Diagnosed {
  Power power;                       // the faults that every tensor would show
  Outcome outcome() const noexcept;  // the worst of all tensors
  bool equal() const noexcept { return outcome() == Outcome::equal; }
};

// ---- the two questions ---------------------------------------------------------------------------

// Diagnoses every pair by the rope of its layer; where no layer is known, by the rope that explains the pairs best.
// Throws DTYPE, POSITION, ROPE, and SHAPE, also if the positions fit no layout.
ROTARY_API Diagnosed diagnose(const Request&, const std::vector<TensorPair>&);

// Rotates `before` by the model's rope in double precision, compares every element with `after`, and diagnoses the same
// data. A tensor is equal if no element differs by more than is allowed and the diagnosis finds no fault. The allowed
// difference is request.tolerance; without one it is what the rounding of the element type, one rounding of the table
// and the float32 steps of the angles explain. With a tolerance the diagnosis may find noise, coarse angles and single
// elements. A tensor is undecided if its data show nothing (zeros, position 0, one token for all), if it is equal in
// the less likely of two layouts alone, if it fits one of several ropes and nothing says which is its layer's, or if a
// query lacks a factor that the model may multiply by later. request.model must be there. Throws as diagnose(), TENSOR
// for an element that is not finite, and VALUE for a tolerance below 0.
ROTARY_API CheckResult check(const Request&, const std::vector<TensorPair>&);

// The JSON that `rotary diagnose --json` and `rotary check --json` print; numbers that are not finite are null.
ROTARY_API std::string to_json(const Diagnosed&);
ROTARY_API std::string to_json(const CheckResult&);

}  // namespace rotary::diagnose
