// Exact angles: the inputs of the kernels of cpu/angles, and the computation of the values that these cannot decide.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::detail {

struct AngleJob;  // angle_job.h

// The kernels' arrays have an element per pair, padded with zeros to a multiple of the widest vector.
inline constexpr int padded_pairs(int pairs) noexcept { return (pairs + 7) / 8 * 8; }

// The exact kernels' form of the frequencies; see AngleJob.
struct Turns {
  std::vector<double> inv_freq;  // the frequencies that the rest was made from
  std::vector<std::uint64_t> limbs;
  std::vector<double> floor;
};
// Fills `turns` from inv_freq, reusing its memory. Does nothing if it was made from the same frequencies, bit for bit.
void prepare(const std::vector<double>& inv_freq, Turns& turns);

// Fills, for pairs that turn by sums, the frequencies of each term, [terms][padded], zero past the pairs of all heads;
// a phase is the last term. Without summed axes pair i has its frequency in the term of its axis, or there is one axis.
ROTARY_API void fill_terms(const Frequencies&, int axes, std::int64_t padded, std::vector<double>& terms);

// A frequency as the device's table kernel takes it (gpu/kernels.h): inv_freq / (2 pi) modulo 1, truncated, in limbs of
// the weights 2^-64, 2^-128, 2^-192; a negative frequency gives the two's complement.
ROTARY_API void limbs_of(double inv_freq, std::uint64_t (&limbs)[3]) noexcept;

// Whether every result with this factor is zero or far inside f32's normal range, as the kernels require.
ROTARY_API bool decidable(double attention_factor) noexcept;
// Computes the rows of a job that the kernels leave: its factor is not decidable, it has xPos, or sums that they do not
// take.
void settle_rows(const AngleJob&, std::int64_t begin_row, std::int64_t end_row) noexcept;

}  // namespace rotary::detail
