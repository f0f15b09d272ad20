// The rules of tables, on the CPU and on a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "positions.h"
#include "rotary/rotary.h"

namespace rotary::detail {

struct AngleJob;  // angle_job.h

inline constexpr int largest_pairs = (1 << 30) - 1;  // so that rotary_dim is an int

// Ends a sentence that refuses the size of inv_freq.
inline const char* advice_on(int head_rows) noexcept {
  return head_rows == 1 ? ""
                        : " (head_rows is the number of rows of frequencies, not the model's heads: leave it 1 unless "
                          "inv_freq has a row for each head)";
}
// The number of pairs of a head. Throws PAIRING, SHAPE, SCALING.
ROTARY_API int checked_pairs(const Frequencies&);

// Checks that a rope accepts positions of position_axes axes. Throws SHAPE.
ROTARY_API void check_axes(const char* operation, const Frequencies&, int position_axes);

// Whether angles are sums of several products, or have a phase or an amplitude.
inline bool is_sum(const Frequencies& f) noexcept { return f.summed_axes > 0 || !f.phase.empty() || f.xpos.scale != 0; }
// The requirements of sums on frequencies and angles. Throws VALUE, SCALING.
ROTARY_API void check_sum(const Frequencies&, Angles);
// Checks for angles that are sums that every number is 0, or large enough for round_sum.h. Throws SCALING, POSITION.
ROTARY_API void check_magnitudes(const char* operation, const Frequencies&);
ROTARY_API void check_magnitudes(const char* operation, const Positions&, const double* reals);
// Checks that the amplitude fits a float at every position. Throws POSITION.
ROTARY_API void check_amplitudes(const Frequencies&, const PositionValues&, std::int64_t count);

// reals: the positions if they are fractional, else null. Throws SHAPE, POSITION.
ROTARY_API void check_positions(const Frequencies&, const Positions&, const double* reals);

// Throws PAIRING, SHAPE, DTYPE, POSITION.
void check_rows(const char* operation, const Rows&);

// Throws VALUE.
ROTARY_API void check_options(const TableOptions&);

// batch * tokens * pairs, where pairs are those of all heads. Throws SHAPE.
ROTARY_API std::size_t checked_size(int batch, std::int64_t tokens, int pairs);

// The tokens of a table whose cos and sin have these lengths. Throws SHAPE.
ROTARY_API std::int64_t checked_tokens(std::size_t cos, std::size_t sin, int pairs, int batch, int head_rows = 1);

// inv_freq in f32, padded with zeros as the CPU kernels require.
ROTARY_API void prepare_float32(const Frequencies&, std::vector<float>& result);
// The requirements of Angles::float32 on frequencies. Throws SCALING.
ROTARY_API void check_float32(const Frequencies&, const std::vector<float>& prepared);
// Checks that no angle overflows, by each position with the fastest pair of its axis. Throws POSITION.
ROTARY_API void check_float32(const AngleJob&);

// ---- between ----

// Sizes of positions. check_between sets turn to the frequencies of the table between two ropes: those of `to` with the
// ratio of the attention factors. Throws SHAPE, PAIRING, SCALING.
struct Extent {
  int batch;
  std::int64_t tokens;
};
ROTARY_API void check_between(const Frequencies& from, Extent from_positions, const Frequencies& to,
                              Extent to_positions, Frequencies& turn);

// The frequencies of a table between two ropes and the memory that they are made in, kept for the next step.
struct BetweenMemory {
  Frequencies turn;
  std::vector<std::int64_t> from, to;  // converted positions
  std::vector<std::int64_t> integers;  // the table's positions, one of the two
  std::vector<double> doubles;
  std::vector<double> rope_terms, terms;  // frequencies of one rope and of both, [axes, head_rows, pairs]
};
// Sets memory.turn and returns its positions, a view of the memory: the table of both is between().
Positions set_between(const Frequencies& from, const Positions& from_positions, const Frequencies& to,
                      const Positions& to_positions, const TableOptions&, BetweenMemory&);

}  // namespace rotary::detail
