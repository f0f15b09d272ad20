// The questions of `rotary check` that take no tensors from before and after a rotation: a table of cos and sin,
// frequencies, the positions of a serving run, two checkpoints. Link rotary_tools.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "rotary/diagnose.h"

namespace rotary::diagnose {

// ---- a table alone -------------------------------------------------------------------------------

// An engine's cos and sin, of a float type: [rows, pairs], or [rows, 2 pairs] with each value twice, as halves of a row
// or side by side; dimensions of size 1 may stand in front. Without sin the first holds both, cos before sin in a row.
// The rows are those of request.positions, by default 0, 1, 2, ... An entry may differ by the rounding of its stored
// type and of angles in float32, or by request.tolerance. Where no rope is chosen and several are as wide, the one that
// fits best is asked, and equal is undecided. In the answer first.token is the row, and first.element the pair for cos,
// the number of pairs + the pair for sin. Throws SHAPE, DTYPE, TENSOR (not finite), ROPE, POSITION.
ROTARY_API CheckResult check_table(const Request&, const Tensor& cos, const std::optional<Tensor>& sin);

// An engine's inv_freq, one value per pair, whatever type it is stored in: within the steps of float32. Of a scaling
// that depends on the length those of request.length, by default of the trained length.
ROTARY_API CheckResult check_inv_freq(const Request&, const std::vector<double>& inv_freq);

// ---- positions over a serving run ----------------------------------------------------------------

// The tokens that one call of a model takes, in its order.
struct RunStep {
  std::string name;                            // its file, in sentences
  std::vector<std::vector<double>> positions;  // by axis, of each token
  std::vector<std::int64_t> sequences = {};    // the number of each token's sequence; empty: one for all
  std::vector<std::int64_t> drafts = {};       // 1 for a token that a draft guessed; empty: none is
  std::vector<std::int64_t> slots = {};        // the place of its key in the cache; empty: not known
};

enum class RunCause : std::uint8_t {
  goes_on,
  stands_still,         // at the position of the token before
  restarts,             // at 0
  of_another_sequence,  // where that one goes on
  delta_left_out,       // counts the tokens, as if pictures had as many positions as tokens
  delta_twice,          // as far again from the number of tokens as it should be
  goes_back,
  jumps,
  overwrites,  // its key is written into the slot of a token that is still read
};
ROTARY_API const char* name(RunCause) noexcept;

struct RunFault {
  RunCause cause = RunCause::goes_on;
  std::string step = {};
  std::int64_t sequence = 0, token = 0;  // the token's number in the step
  double found = 0, asked = 0;           // positions; slots of overwrites
  std::int64_t other = 0;                // the other sequence
};

struct RunCheck {
  std::int64_t steps = 0, sequences = 0, tokens = 0;
  std::int64_t continued = 0;                   // how often a sequence went on in another step
  std::vector<RunFault> faults = {};            // the first of each sequence
  ROTARY_API Outcome outcome() const noexcept;  // undecided where nothing went on
  ROTARY_API std::string sentence() const;
};

// Whether the positions of each sequence go on in every step where the step before ended: at its greatest position + 1,
// on every axis; behind drafts at any place after the last token that was none. Inside a step positions rise by 1,
// but for pictures, whose axes differ, and drafts. Any position may be a sequence's first (a cache of prefixes). Throws
// SHAPE where lists of a step are not of one length.
ROTARY_API RunCheck check_run(const std::vector<RunStep>&);
// A folder's .safetensors (positions [tokens] or [axes, tokens], and sequences, drafts, slots [tokens] as above) and
// .npy (positions of one sequence), in the order of the numbers in their names. Throws FILE, FORMAT, TENSOR, DTYPE.
ROTARY_API std::vector<RunStep> read_run(const std::filesystem::path& folder);
ROTARY_API std::string to_json(const RunCheck&);

}  // namespace rotary::diagnose
