// diagnose() says what a rotation did to tensors, and how that differs from a model's; check() whether they are rotated
// as the model asks. Link rotary_tools.
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

// One tensor before and after somebody's rotation, of one shape: F64, F32, F16 or BF16, two to four dimensions.
struct TensorPair {
  std::string name;  // "" of an .npy; a name tells q from k ("q", "layers.0.q_proj", "wk")
  Tensor before;
  Tensor after;
};

// The pairs of two files of tensors (tensors.h; "-" is standard input): the tensors of `names`, else q and k, else
// every tensor that both files have, is of a float type and has two dimensions or more (where some are q, k or v by
// their names, these); for "check" also v beside q and k, and a query or key of one file alone, without an after.
// operation: also the word in brackets in error sentences. Throws TENSOR, and what reading a file throws.
ROTARY_API std::vector<TensorPair> read_pairs(const std::string& operation, const std::string& before,
                                              const std::string& after, const std::vector<std::string>& names);

// Positions that are not given are 0, 1, 2, ..., and unknown where the rope counts no tokens.
struct Request : Choice {
  std::string operation = "diagnose";    // the word in brackets in error sentences
  std::optional<Model> model = {};       // the model that is asked; check needs it
  std::optional<double> tolerance = {};  // check's largest difference; empty: the largest that rounding explains
  bool rotated = false;                  // check compares two engines' rotated tensors, before and after
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
  layer,     // its layer has no rope, and it is rotated
  elements,  // seen, and no rotation: single elements, a part of zeros, a before in front of a norm
  heads,     // by the frequencies of other heads
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
  // precision
  coarse_table, coarse_inv_freq, coarse_angles, coarse_steps, tf32, off, noise, coarse_before,
  // axes
  one_axis, axes_exchanged, axes_left_out, axes_in_runs, axes_in_turns, axes_reversed, axes_further, axes_back,
  other_axes,
  // positions and direction
  direction, mirrored, sin_cos_exchanged, offset, constant_position, position_step, wrapped_positions,
  rounded_positions, reversed_positions, padded_positions, restarted_positions, counted_positions, other_positions,
  // two rotations in one, and kernels
  doubled, twice_as_asked, twice_mixed, table_of_other_pairing, in_place, without_second_sin,
  // base and scaling
  base, scaling, scaling_left_out, linear, short_list, long_list, within_length, other_length,
  scaling_twice, own_time, unknown_speeds, some_pairs_still, some_pairs_slow, some_pairs_other,
  exponent_half, exponent_double, exponent_less_2, exponent_of_head, exponent_of_block, exponent_odd,
  exponent_of_neighbours, pairs_from_1, pairs_from_minus_1, axes_continued, yarn_on_ntk, frequencies_rolled_early,
  frequencies_rolled_late, frequencies_early, frequencies_late, frequencies_reversed,
  // befores that the rotation did not take, and single elements
  another_order, before_norm, factors, still_elements_zero, still_elements_multiplied, still_elements_differ,
  single_elements, table_entries, another_tensor,
  // a tensor that is not to be rotated
  not_to_rotate, rotated_nonetheless, changed_nonetheless,
  // two engines
  same, same_in_another_order, same_but_noise, further, turned_otherwise, other_as_asked, another_in_second,
  zero_in_both,
  // all else, and what the findings leave open
  rest_as_asked, as_asked_in, others_open, open_layers, rope_of_other_layers, one_file,
  at_position_0, one_token, one_of_two_layouts, open_rope, other_layout,
};
// clang-format on
ROTARY_API const char* name(Cause) noexcept;

// A rope as far as a finding names it.
struct NamedRope {
  std::optional<double> base = {};
  std::optional<Scaling> scaling = {};
  std::int64_t length = 0;  // for a scaling that depends on it; 0: not said
  bool operator==(const NamedRope&) const = default;
};

// A number, a word or a list of a finding, by its name in JSON.
struct Number {
  using Value = std::variant<bool, double, std::string, std::vector<std::int64_t>, std::vector<double>, NamedRope>;
  std::string name;
  Value value;
  int digits = 0;    // significant digits of a double in a sentence; 0: all that a position or a count has
  double error = 0;  // a double's, at most
};

// The numbers of rows, heads ... that a finding is about; all where a list is empty.
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
// One cause, at one place, with numbers that are equal within their errors.
ROTARY_API bool operator==(const Finding&, const Finding&);

// In which precision angles and the table of cos and sin were computed.
enum class Precision : std::uint8_t { exact, f32, f16, bf16 };
ROTARY_API const char* name(Precision) noexcept;

// Each is empty where the data do not determine it.
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
  std::optional<double> noise;      // rms of an element's error beside its rounding
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

struct NamedDiagnosis {
  std::string name;  // TensorPair::name
  Diagnosis diagnosis;
  std::optional<int> layer = {};  // whose rope is asked; none: no layer is known, or the request names a rope
  std::string rope = {};          // "rope 1 of 2"; "" where the model has one, or the request names it
};

struct Diagnosed {
  std::vector<NamedDiagnosis> tensors;  // in the order of the pairs
  Diagnosis all;                        // the worst verdict, with a sentence that says which tensors it is about
};

// An element of a tensor.
struct Place {
  std::int64_t batch = 0, token = 0, head = 0;
  int element = 0;          // its number in the head
  std::optional<int> pair;  // empty where the element is not rotated
};

// Element by element.
struct Checked {
  bool equal = false;
  double max_error = 0;        // the largest absolute difference
  double tolerance = 0;        // the largest difference that is allowed at any element
  double error = 0;            // the largest difference of those that are off, where there are such,
  double allowed = 0;          // and what is allowed there
  std::optional<Place> first;  // the first element that is off, by batch, token, head and pair
  std::string layout;          // in which they were compared
  bool moves = false;          // whether the rope moves anything: not at position 0
};

// Rising: of several, the last holds.
enum class Outcome : std::uint8_t { equal, undecided, differs };
ROTARY_API const char* name(Outcome) noexcept;

// The faults that data which are equal would have shown, by the same tests.
struct Power {
  // "pairing", "direction", "offset", "base", "scaling llama3", "factor", "trained length", "truncate", "length",
  // "list of longrope", "block", "attention factor", "layer's rope"
  std::vector<std::string> would_show = {}, would_not_show = {};
  double base = 0;           // the least relative change of a base that would show
  std::int64_t tokens = 0;   // 0: nothing is known
  double unit = 0;           // the largest relative error of rounding to the elements' type
  std::string scaling = {};  // whose factor and lengths these are: "llama3"
  ROTARY_API std::string sentence() const;
};

struct NamedCheck : NamedDiagnosis {
  Checked checked = {};
  Outcome outcome = Outcome::equal;    // no element is off, and the diagnosis finds nothing; of diagnose always
  std::vector<Finding> remarks = {};   // why it is undecided; of one that is equal, what is open
  std::string sentence = {};           // the diagnosis's, or why it is undecided
  std::string note = {};               // the remarks on one that is equal: "bhtd has the same shape"
  Power power = {};                    // where it is equal
};

struct CheckResult {
  std::vector<NamedCheck> tensors;  // in the order of the pairs
  Diagnosed diagnosed;
  Power power;                       // the faults that each tensor would show
  Outcome outcome() const noexcept;  // the worst
  bool equal() const noexcept { return outcome() == Outcome::equal; }
};

// ---- the two questions ---------------------------------------------------------------------------

// Diagnoses every pair by the rope of which the least is wrong. Throws SHAPE, DTYPE, POSITION, ROPE, and SHAPE if the
// positions fit no layout.
ROTARY_API Diagnosed diagnose(const Request&, const std::vector<TensorPair>&);

// Compares `after` with `before` rotated by the model's rope in double precision, element by element, and diagnoses the
// same data; equal is what neither objects to. A difference is allowed up to request.tolerance, or, without one, as the
// rounding of the element type, one rounding of the table and the float32 steps of the angles explain; with one the
// diagnosis may find noise, coarse angles and single elements. Undecided is what shows nothing (zeros, position 0, one
// token for all), what is equal in the less likely of two layouts alone, and what fits one of several ropes where
// nothing says whose layer it is. request.model must be there. Throws as diagnose, TENSOR for an element that is not
// finite, and VALUE for a tolerance below 0.
ROTARY_API CheckResult check(const Request&, const std::vector<TensorPair>&);

// The JSON that `rotary diagnose --json` and `rotary check --json` print; numbers that are not finite are null.
ROTARY_API std::string to_json(const Diagnosed&);
ROTARY_API std::string to_json(const CheckResult&);

}  // namespace rotary::diagnose
