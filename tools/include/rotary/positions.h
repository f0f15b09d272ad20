// The position of each token, as text (SPEC), a file or arrays. Link rotary_tools.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rotary/config.h"
#include "rotary/rotary.h"

namespace rotary {

// The positions of tokens, row-major [axes, batch, tokens], in `integers` or in `reals`; the other is empty. The one
// owner of positions: rotary::Positions is its view.
struct ROTARY_API PositionSet {
  std::vector<std::int64_t> integers = {};
  std::vector<double> reals = {};
  int axes = 1;
  int batch = 1;
  bool batched = false;  // there is a batch dimension, even if it is 1
  std::int64_t tokens = 0;
  std::optional<std::int64_t> open_from = {};  // behind the listed positions: open_from, open_from + 1, ...
  // The SPEC that they were read from; with nothing else, the one that they are to be read from for a rope, whose axes
  // say how. None: an array.
  std::optional<std::string> spec = {};
  // The dimensions of the array that they were given in; none: those of shape().
  std::optional<std::vector<std::int64_t>> given_shape = {};

  // The set for a tensor of that many tokens: as it is, or, of an open one, with the open range written out. Throws
  // POSITION if an open set lists more than that many, or goes beyond 64 bits.
  PositionSet closed(std::int64_t tokens) const;
  // The dimensions of the set as an array: as given, else [tokens], behind the batch and the axes where it has them.
  std::vector<std::int64_t> shape() const;
  Positions view() const;  // the view of a closed set; valid as long as this
  // One position; the set may be open. An axis or a row beyond the only one means that one.
  double value(std::size_t axis, std::size_t row, std::size_t token) const;
  // The sequence length: the largest position, rounded down, plus 1; at least 0. The set is closed.
  std::int64_t length() const;
};
// Positions that are written and not read yet.
inline PositionSet written_positions(const std::string& spec) {
  PositionSet set;
  set.spec = spec;
  return set;
}

// SPEC is a list of positions and ranges whose end is not included ("7", "0:8,100:104", "-5:5"), of which the last may
// be open ("100:": from 100 on, as many as there are tokens); "100:+16" are 16 positions from 100 on; or an offset
// ("+16": the same as "16:"); or a file that ends in .npy: int32, int64 or float64, [tokens] or [batch, tokens] for a
// rope of one axis, [axes, tokens] or [axes, batch, tokens] for a rope of several. Positions in text form apply to
// every axis. file_axes: the axes of a file where it serves other ropes too; the rope of `axes` axes takes the first of
// them. Throws POSITION, SHAPE, DTYPE, and what read_npy throws.
ROTARY_API PositionSet parse_positions(std::string_view spec, int axes, int file_axes = 0);

// query_scale of a closed set, [batch, tokens]. Throws POSITION, beside what that throws, where the form is not none
// and the positions are not whole numbers of one axis.
ROTARY_API std::vector<float> query_scale(const QueryScale&, const PositionSet&);

// ---- positions by the names of what makes them ----
//
// In SPEC too, alone: "packed:0,5,9", "image:24x34" (or "image:24x34/2", in blocks of 2 x 2), "mask:FILE.npy", and
// "zigzag:RANK/RANKS:TOKENS", as contiguous and striped. All throw POSITION.

// 0, 1, 2, ... anew for every sequence: sequence i is the tokens [cu_seqlens[i], cu_seqlens[i + 1]), of which the first
// is 0. [tokens].
ROTARY_API std::vector<std::int64_t> packed_positions(std::span<const std::int64_t> cu_seqlens);

// As generate() of transformers 5.23 counts: a token that is seen (mask not 0) stands at the number of those before it
// in its row, one that is not at 0. Of paddings on either side and in between; [batch, tokens], as mask.
ROTARY_API std::vector<std::int64_t> mask_positions(std::span<const std::int64_t> mask, std::int64_t tokens);

// Rows and columns of an image's patches, [2, rows * columns]: row by row; or in blocks of merge x merge patches, row
// by row within and between them, as processors order what the model merges (Qwen2-VL). merge divides both.
ROTARY_API PositionSet image_positions(std::int64_t rows, std::int64_t columns, std::int64_t merge = 1);

// How context parallelism gives the tokens of a sequence to `ranks` ranks.
enum class Split : std::uint8_t {
  contiguous,  // rank r has chunk r of `ranks` (Ring Attention, arXiv 2310.01889)
  zigzag,      // chunks r and 2 ranks - 1 - r of 2 ranks (Megatron-LM, TransformerEngine, ring-flash-attention)
  striped,     // tokens r, r + ranks, ... (Striped Attention, arXiv 2311.09431)
};
ROTARY_API const char* name(Split) noexcept;          // "contiguous", "zigzag", "striped"
ROTARY_API Split parse_split(std::string_view name);  // throws VALUE

// The tokens of a rank, in its order. Packed sequences ({0, tokens}: one) are split each by itself; their lengths must
// divide by `ranks`, of zigzag by twice as many. The position of token t is packed_positions(cu_seqlens)[t].
ROTARY_API std::vector<std::int64_t> shard_tokens(Split, std::int64_t rank, std::int64_t ranks,
                                                  std::span<const std::int64_t> cu_seqlens);
// The inverse: where each token stands in the shards of all ranks, one behind the other. x[place_of_tokens(...)[t]] is
// token t of gathered x.
ROTARY_API std::vector<std::int64_t> place_of_tokens(Split, std::int64_t ranks,
                                                     std::span<const std::int64_t> cu_seqlens);

// ---- a window that slides ----

// A cache of `tokens` slots for a text without end (StreamingLLM, arXiv 2309.17453): the query of token t sees the
// first `sinks` tokens and the newest of the others, itself among them. What a slot holds keeps its place and its
// position until a newer token takes the slot; the sinks alone move on, so that they stand right before the others and
// no distance reaches `tokens`: between(f, positions(0, sinks), f, positions(moved(t), sinks)) turns their keys as they
// were first stored.
struct SlidingWindow {
  std::int64_t tokens = std::numeric_limits<std::int64_t>::max();  // all: nothing slides
  std::int64_t sinks = 0;                                          // from 0 to below tokens
  std::int64_t slot(std::int64_t t) const noexcept { return t < tokens ? t : sinks + (t - sinks) % (tokens - sinks); }
  std::int64_t moved(std::int64_t t) const noexcept { return t < tokens ? 0 : t - tokens + 1; }
  bool operator==(const SlidingWindow&) const = default;
};
// The tokens that the cache holds, by slot, once token t is stored, and the position of each for that token's query.
// Throws POSITION.
struct HeldTokens {
  std::vector<std::int64_t> tokens, positions;
};
ROTARY_API HeldTokens held_tokens(const SlidingWindow&, std::int64_t t);

// ---- maps of positions: attention rotates q and k by others than their tokens' ----

// Dual chunk attention, arXiv 2402.17463, as vLLM has it for Qwen2.5-1M (dual_chunk_rope.py): with n = chunk - local,
// of each token the position of its key, and those of its query for keys of its own chunk, of the one before, and of
// those before that; of the last two also without the bound `chunk`, for scores that choose what is kept. Throws
// POSITION (a position below 0; unless 0 <= local < chunk <= 2^61).
struct DualChunkPositions {
  std::vector<std::int64_t> key, same;                      // p % n, both
  std::vector<std::int64_t> before;                         // min(p % n + n, chunk)
  std::vector<std::int64_t> far;                            // min(2 n - 1, chunk)
  std::vector<std::int64_t> before_critical, far_critical;  // p % n + n, p % n + chunk
};
ROTARY_API DualChunkPositions dual_chunk_positions(std::span<const std::int64_t> positions, std::int64_t chunk,
                                                   std::int64_t local);
// Self-Extend, arXiv 2401.01325: of keys further away than `window`, the positions in groups of `group` tokens; near
// ones take the tokens' own. Throws POSITION (a position below 0, group below 1, window below group).
struct SelfExtendPositions {
  std::vector<std::int64_t> query, key;  // p / group + window - window / group, and p / group, rounded down
};
ROTARY_API SelfExtendPositions self_extend_positions(std::span<const std::int64_t> positions, std::int64_t group,
                                                     std::int64_t window);

// ---- positions as a model makes them, of what its processor hands it ----

// Row-major. A grid is an image or a film: time, height and width in patches, before any merging (a row of the
// processor's image_grid_thw or video_grid_thw). What a model does not take must be empty.
struct ROTARY_API ModelInputs {
  std::string part = {};                // "" or the dotted path of a sub-config: "vision_config"
  std::int64_t batch = 1, tokens = 0;   // the sizes of ids and mask
  std::vector<std::int64_t> ids = {};   // [batch, tokens]; a model that counts plainly needs none
  std::vector<std::int64_t> mask = {};  // the same; 0: not seen. Empty: all are seen
  std::vector<std::array<std::int64_t, 3>> image_grids = {}, video_grids = {};
  std::vector<double> seconds_per_grid = {};     // one step of each film's time; float32 there
  std::vector<std::int64_t> audio_lengths = {};  // each sound's, in mel frames
  bool publisher = false;  // where transformers and the model's publisher disagree: as the publisher
};
struct ROTARY_API ModelPositions {
  // [batch, tokens]; [axes, batch, tokens]; of a tower's patches [axes, patches]
  PositionSet positions;
  std::vector<double> deltas;  // [batch], what decoding adds to the place of a token; empty: the model has none
  bool real_deltas = false;    // they are no integers
  std::vector<std::string> notes;
};

// The position ids of transformers 5.23. config names a file, folder, stream or cached repository, as that of every
// command, or is JSON itself. Throws MODEL_TYPE for a model or part whose way is not known here, and for a config of
// diffusers, whose pipeline makes the coordinates; POSITION and SHAPE for inputs that the model does not take;
// CONFIG_VALUE; and what reading the config throws.
ROTARY_API ModelPositions model_positions(const std::string& config, const ModelInputs&);

// Parses these forms of SPEC; none where it begins with none of these words. axes: of the rope with the most of the
// part. Throws POSITION, and what read_npy throws.
ROTARY_API std::optional<PositionSet> parse_named_positions(std::string_view spec, int axes);

// Parses the text form only, at most max_positions positions; the set may be open. Throws POSITION.
ROTARY_API PositionSet parse_ranges(std::string_view spec);
inline constexpr std::int64_t max_positions = std::int64_t{1} << 24;

}  // namespace rotary
