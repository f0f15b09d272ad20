// The positions of tokens, from text (SPEC), a file or arrays. Link rotary_tools.
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

// The positions of tokens, row-major [axes, batch, tokens], in `integers` or in `reals`; the other is empty. It owns
// them; rotary::Positions is its view.
struct ROTARY_API PositionSet {
  std::vector<std::int64_t> integers = {};
  std::vector<double> reals = {};
  int axes = 1;
  int batch = 1;
  bool batched = false;  // there is a batch dimension, even if batch is 1
  std::int64_t tokens = 0;
  std::optional<std::int64_t> open_from = {};  // after the listed positions: open_from, open_from + 1, ...
  // The SPEC from which the positions were read or, if all else is empty, from which they will be read once the rope
  // and so the axes are known. Not set for an array.
  std::optional<std::string> spec = {};
  // The dimensions of the array from which the positions come; not set: those that shape() derives.
  std::optional<std::vector<std::int64_t>> given_shape = {};

  // The set for a tensor of that many tokens, with an open range written out; other sets are returned as they are.
  // Throws POSITION if an open set lists more positions than tokens, or goes beyond 64 bits.
  PositionSet closed(std::int64_t tokens) const;
  // The dimensions as an array: given_shape, else [axes, batch, tokens] without axes if 1 and without a missing batch.
  std::vector<std::int64_t> shape() const;
  Positions view() const;  // the view of a closed set; valid as long as this
  // One position; the set may be open. If there is one axis or one row, any axis or row means that one.
  double value(std::size_t axis, std::size_t row, std::size_t token) const;
  // The length of the sequence: the largest position, rounded down, plus 1; at least 0. The set must be closed.
  std::int64_t length() const;
};
// A set with a SPEC that is not read yet.
inline PositionSet written_positions(const std::string& spec) {
  PositionSet set;
  set.spec = spec;
  return set;
}

// Reads a SPEC: a list of positions and ranges without their end ("7", "0:8,100:104", "-5:5"), of which the last may be
// open ("100:": from 100 on, as many as there are tokens); "100:+16" is 16 positions from 100 on. Or an offset ("+16",
// the same as "16:"). Or the name of an .npy file: int32, int64 or float64, [tokens] or [batch, tokens] for a rope of
// one axis, [axes, tokens] or [axes, batch, tokens] for a rope of several. Positions in text form apply to every axis.
// file_axes: the number of axes in a file that also serves other ropes; the rope takes the first `axes` of them. Throws
// POSITION, SHAPE, DTYPE, and what read_npy throws.
ROTARY_API PositionSet parse_positions(std::string_view spec, int axes, int file_axes = 0);

// query_scale() for a closed set, [batch, tokens]. Throws its errors, and POSITION if the form is not none and the
// positions are not whole numbers of one axis.
ROTARY_API std::vector<float> query_scale(const QueryScale&, const PositionSet&);

// ---- positions by name ----
//
// A SPEC may also be one of these: "packed:0,5,9", "image:24x34" (or "image:24x34/2", in blocks of 2 x 2),
// "mask:FILE.npy", and "zigzag:RANK/RANKS:TOKENS", likewise contiguous and striped. All functions throw POSITION.

// Positions of packed sequences, [tokens]: each counts from 0. Sequence i has the tokens [cu_seqlens[i],
// cu_seqlens[i + 1]), and cu_seqlens[0] is 0.
ROTARY_API std::vector<std::int64_t> packed_positions(std::span<const std::int64_t> cu_seqlens);

// Positions as generate() of transformers 5.24 counts them, [batch, tokens] like mask: a token whose mask is not 0 has
// the number of such tokens before it in its row, others have 0. Padding may be on either side and in between.
ROTARY_API std::vector<std::int64_t> mask_positions(std::span<const std::int64_t> mask, std::int64_t tokens);

// Rows and columns of an image's patches, [2, rows * columns], row by row; or in blocks of merge x merge patches, row
// by row within and between blocks, the order of processors whose model merges patches (Qwen2-VL). merge divides both.
ROTARY_API PositionSet image_positions(std::int64_t rows, std::int64_t columns, std::int64_t merge = 1);

// How context parallelism distributes the tokens of a sequence over `ranks` ranks.
enum class Split : std::uint8_t {
  contiguous,  // rank r has chunk r of `ranks` chunks (Ring Attention, arXiv 2310.01889)
  zigzag,      // chunks r and 2 ranks - 1 - r of 2 ranks (Megatron-LM, TransformerEngine, ring-flash-attention)
  striped,     // tokens r, r + ranks, ... (Striped Attention, arXiv 2311.09431)
};
ROTARY_API const char* name(Split) noexcept;          // "contiguous", "zigzag", "striped"
ROTARY_API Split parse_split(std::string_view name);  // throws VALUE

// The tokens of a rank, in its order. Packed sequences ({0, tokens} for one) are each split separately; their lengths
// must be divisible by ranks, or by 2 ranks for zigzag. The position of token t is packed_positions(cu_seqlens)[t].
ROTARY_API std::vector<std::int64_t> shard_tokens(Split, std::int64_t rank, std::int64_t ranks,
                                                  std::span<const std::int64_t> cu_seqlens);
// The inverse permutation: the place of each token in the concatenated shards of all ranks. Token t of a gathered x is
// x[place_of_tokens(...)[t]].
ROTARY_API std::vector<std::int64_t> place_of_tokens(Split, std::int64_t ranks,
                                                     std::span<const std::int64_t> cu_seqlens);

// ---- sliding window ----

// A cache of `tokens` slots for endless text (StreamingLLM, arXiv 2309.17453): the query of token t sees the first
// `sinks` tokens and the newest of the others, itself included. A token keeps its slot and its position until a newer
// token takes the slot. Only the positions of the sinks change, to those right before the other tokens, so that every
// distance is below `tokens`: between(f, positions(0, sinks), f, positions(moved(t), sinks)) turns the sinks' keys as
// first stored.
struct SlidingWindow {
  std::int64_t tokens = std::numeric_limits<std::int64_t>::max();  // default: nothing slides
  std::int64_t sinks = 0;                                          // from 0 to below tokens
  std::int64_t slot(std::int64_t t) const noexcept { return t < tokens ? t : sinks + (t - sinks) % (tokens - sinks); }
  std::int64_t moved(std::int64_t t) const noexcept { return t < tokens ? 0 : t - tokens + 1; }
  bool operator==(const SlidingWindow&) const = default;
};
// The token in each slot once token t is stored, and its position for the query of token t. Throws POSITION.
struct HeldTokens {
  std::vector<std::int64_t> tokens, positions;
};
ROTARY_API HeldTokens held_tokens(const SlidingWindow&, std::int64_t t);

// ---- maps of positions: attention that rotates q and k by other positions than their tokens' ----

// Dual chunk attention, arXiv 2402.17463, as in vLLM for Qwen2.5-1M (dual_chunk_rope.py), with n = chunk - local: for
// each token the position of its key, and the positions of its query for keys of the same chunk, of the chunk before,
// and of earlier chunks; the last two also without the bound `chunk`, for the scores that select keys. Throws POSITION
// (a position below 0; not 0 <= local < chunk <= 2^61).
struct DualChunkPositions {
  std::vector<std::int64_t> key, same;                      // both p % n
  std::vector<std::int64_t> before;                         // min(p % n + n, chunk)
  std::vector<std::int64_t> far;                            // min(2 n - 1, chunk)
  std::vector<std::int64_t> before_critical, far_critical;  // p % n + n, p % n + chunk
};
ROTARY_API DualChunkPositions dual_chunk_positions(std::span<const std::int64_t> positions, std::int64_t chunk,
                                                   std::int64_t local);
// Self-Extend, arXiv 2401.01325: the positions for keys further away than `window`, in groups of `group` tokens; nearer
// keys use the tokens' own. Throws POSITION (a position below 0, group below 1, window below group).
struct SelfExtendPositions {
  std::vector<std::int64_t> query, key;  // p / group + window - window / group; p / group; all rounded down
};
ROTARY_API SelfExtendPositions self_extend_positions(std::span<const std::int64_t> positions, std::int64_t group,
                                                     std::int64_t window);

// ---- positions as a model computes them from its processor's output ----

// The processor's output, row-major. A grid is an image or a video: time, height and width in patches before merging (a
// row of image_grid_thw or video_grid_thw). Fields that the model does not use must be empty.
struct ROTARY_API ModelInputs {
  std::string part = {};                // "" or the dotted path of a sub-config: "vision_config"
  std::int64_t batch = 1, tokens = 0;   // the sizes of ids and mask
  std::vector<std::int64_t> ids = {};   // [batch, tokens]; not needed if the model counts tokens
  std::vector<std::int64_t> mask = {};  // [batch, tokens], 0 for masked tokens; empty: none is masked
  std::vector<std::array<std::int64_t, 3>> image_grids = {}, video_grids = {};
  std::vector<double> seconds_per_grid = {};     // seconds per time step of each video; used as float32
  std::vector<std::int64_t> audio_lengths = {};  // length of each audio in mel frames
  bool publisher = false;  // where transformers and the model's publisher differ: as the publisher
};
struct ROTARY_API ModelPositions {
  // [batch, tokens] or [axes, batch, tokens]; for a tower's patches [axes, patches]
  PositionSet positions;
  // [batch], added to a token's place while decoding, and whole where the positions are; empty: not used by the model
  std::vector<double> deltas;
  std::vector<std::string> notes;
};

// The position ids of transformers 5.24. config names a file, folder, stream or cached repository, as in every command,
// or is JSON itself. Throws MODEL_TYPE for a model or part whose position ids are not supported, and for a config of
// diffusers, whose pipeline makes the coordinates; POSITION and SHAPE for inputs that the model does not use;
// CONFIG_VALUE; and what reading the config throws.
ROTARY_API ModelPositions model_positions(const std::string& config, const ModelInputs&);

// The inputs of make_positions(): of one sequence, of packed sequences, or of the part that one rank has of them.
struct ROTARY_API PositionsRequest {
  std::string config = {};                    // as model_positions takes it; "" counts tokens
  ModelInputs inputs = {};                    // without ids inputs.tokens is the length of the sequence
  std::vector<std::int64_t> cu_seqlens = {};  // bounds of packed sequences, each from 0; grids in their order
  std::optional<Split> split = {};            // only the tokens of this rank, of `ranks` ranks
  std::int64_t ranks = 1, rank = 0;
};
// model_positions() of the request. Packed and sharded sequences without ids have positions [tokens]. Throws its errors
// and the errors of packed_positions and shard_tokens; POSITION for cu_seqlens or split without ids, if the model's
// positions have several axes.
ROTARY_API ModelPositions make_positions(const PositionsRequest&);

// The rule that made an engine's ids, as far as it is known.
enum class IdsRule : std::uint8_t {
  as_asked,
  through_padding,       // the mask is not read: padding counts
  through_sequences,     // packed sequences are counted as one
  as_words,              // every token counts as a word, tokens of pictures too
  unmerged,              // pictures have the sizes of their grids before merging
  unmerged_behind,       // only the tokens after a picture count its grid so
  without_seconds,       // the seconds of a video's time steps are not read
  other_film_rule,       // after a video by the publisher's rule instead of transformers', or the reverse
  other_rank,            // the tokens of another rank or of another split
  delta_twice,           // the delta of decoding is added once too often
  delta_left_out,        // it is not added
  delta_of_another_row,  // it is the delta of another batch row
  offset,                // too far by one constant from some token on
  unknown,
};
ROTARY_API const char* name(IdsRule) noexcept;
struct IdsCheck {
  IdsRule rule = IdsRule::as_asked;
  std::int64_t tokens = 0, off = 0;  // tokens that the mask shows; tokens of these whose ids differ
  int axis = 0, row = 0;             // the place of the first id that differs, with both values
  std::int64_t token = 0;
  double found = 0, asked = 0;
  bool equal() const noexcept { return off == 0; }
  ROTARY_API std::string sentence() const;  // names the rule
};
// Compares an engine's ids with make_positions(). found: row-major [axes, batch, tokens]; a batch of 1 may be left out,
// as may the axes if all are alike, and generate()'s row of plain positions may stand in front of the axes. Tokens
// beyond those of the request are decoded tokens. Throws SHAPE, and what make_positions throws.
ROTARY_API IdsCheck check_ids(const PositionsRequest&, std::span<const double> found,
                              std::span<const std::int64_t> shape);
ROTARY_API std::string to_json(const IdsCheck&);

// Parses a SPEC that begins with a name; returns nothing for other SPECs. axes: of the rope with the most axes in the
// part. Throws POSITION, and what read_npy throws.
ROTARY_API std::optional<PositionSet> parse_named_positions(std::string_view spec, int axes);

// Parses the text form only, at most max_positions positions; the set may be open. Throws POSITION.
ROTARY_API PositionSet parse_ranges(std::string_view spec);
inline constexpr std::int64_t max_positions = std::int64_t{1} << 24;

}  // namespace rotary
