// The checks of `rotary check` that need no tensors from before and after a rotation: a table of cos and sin, inv_freq,
// and the positions of a serving run. (convert.h compares two checkpoints.) Link rotary_tools.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "rotary/diagnose.h"

namespace rotary::diagnose {

// ---- a table alone -------------------------------------------------------------------------------

// Compares an engine's cos and sin with request.model, which must be set. Both have a float type and the shape [rows,
// pairs], or [rows, 2 pairs] with each value twice, in two halves of a row or side by side; dimensions of size 1 may
// stand in front. Without sin, each row of the first tensor holds cos and then sin. Row i has position i of
// request.positions, by default 0, 1, 2, ... An entry may differ by the rounding of its stored type and of angles in
// float32, or by request.tolerance. If the request names no rope, the answer is for the rope of this width that fits
// best; it is undecided if the table equals that rope but not all ropes of this width. In the answer first.token is the
// row, and first.element the pair for cos, or the number of pairs + the pair for sin. Throws SHAPE, DTYPE, TENSOR (not
// finite), ROPE, POSITION.
ROTARY_API CheckResult check_table(const Request&, const Tensor& cos, const std::optional<Tensor>& sin);

// Compares an engine's inv_freq, in radians per position, one value per pair, with request.model, within the rounding
// of angles in float32. If the scaling depends on the length, the values must be those for request.length, by default
// for lengths within the trained length; without request.length, the values for another length are undecided. Throws
// ROPE, SHAPE (more pairs than a head has).
ROTARY_API CheckResult check_inv_freq(const Request&, const std::vector<double>& inv_freq);

// ---- positions over a serving run ----------------------------------------------------------------

// The input tokens of one call of a model, in the order of the call.
struct RunStep {
  std::string name;                            // the name of its file, for sentences
  std::vector<std::vector<double>> positions;  // [axes][tokens]
  std::vector<std::int64_t> sequences = {};    // the number of each token's sequence; empty: all are 0
  std::vector<std::int64_t> drafts = {};       // 1 for a token that a draft model guessed; empty: none
  std::vector<std::int64_t> slots = {};        // the cache slot of each token's key; -1 or empty: unknown
};

enum class RunCause : std::uint8_t {
  goes_on,              // no fault
  stands_still,         // has the position of the previous token
  restarts,             // begins again at 0
  of_another_sequence,  // has the next position of another sequence
  delta_left_out,       // counts the tokens, as if pictures had as many positions as tokens
  delta_twice,          // takes the delta of the pictures off twice
  goes_back,
  jumps,
  overwrites,  // its key is written into the slot of a token of its sequence that is still read
};
ROTARY_API const char* name(RunCause) noexcept;

struct RunFault {
  RunCause cause = RunCause::goes_on;
  std::string step = {};
  std::int64_t sequence = 0, token = 0;  // the token's number in the step
  double found = 0, asked = 0;           // positions; of overwrites the slot, and the position that it holds
  std::int64_t other = 0;                // for of_another_sequence: the other one
};

struct RunCheck {
  std::int64_t steps = 0, sequences = 0, tokens = 0;
  std::int64_t continued = 0;                   // how often a sequence went on in a later step
  std::vector<RunFault> faults = {};            // the first fault of each sequence
  ROTARY_API Outcome outcome() const noexcept;  // undecided if no sequence went on
  ROTARY_API std::string sentence() const;
};

// Checks that each sequence goes on in every step where its previous step ended: at its greatest position + 1, or at
// the position of its last token + 1. After drafts it may go on anywhere after the last token that is not a draft.
// Inside a step, positions must rise by 1, except for drafts and for tokens of pictures, whose positions differ between
// axes. A sequence may begin at any position (a prefix cache). Throws SHAPE if a step has no tokens, or lists of
// different lengths.
ROTARY_API RunCheck check_run(const std::vector<RunStep>&);
// Reads the steps of a folder, in the order of the numbers in the file names: .safetensors files with the tensors
// positions ([tokens] or [axes, tokens]), sequences, drafts and slots ([tokens]; all but positions are optional), and
// .npy files with the positions of one sequence. Throws FILE, FORMAT, TENSOR, DTYPE, POSITION (a number that is not
// finite).
ROTARY_API std::vector<RunStep> read_run(const std::filesystem::path& folder);
ROTARY_API std::string to_json(const RunCheck&);

}  // namespace rotary::diagnose
