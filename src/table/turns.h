// Exact angles: what the kernels of cpu/angles.inc prepare with, and who settles the values that they cannot decide.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::detail {

struct AngleJob;  // angle_job.h

// The kernels' arrays are per pair, padded with zeros to a multiple of their widest vector.
inline constexpr int padded_pairs(int pairs) noexcept { return (pairs + 7) / 8 * 8; }

// What the exact kernels need of the frequencies; see AngleJob.
struct Turns {
  std::vector<double> inv_freq;  // whose turns they are
  std::vector<std::uint64_t> limbs;
  std::vector<double> floor;
};
// Makes `turns` those of inv_freq, in the storage that it has; no work where it holds them already, bit for bit.
void prepare(const std::vector<double>& inv_freq, Turns& turns);

// What the table's kernel on a device needs of a frequency (gpu/kernels.h): inv_freq / (2 pi) modulo 1, truncated, with
// the weights 2^-64, 2^-128, 2^-192; of a negative one the two's complement.
ROTARY_API void limbs_of(double inv_freq, std::uint64_t (&limbs)[3]) noexcept;

// The factors for which every result is zero or far inside f32's normal range, as the kernels need it.
ROTARY_API bool decidable(double attention_factor) noexcept;
// All pairs of the rows, when it is not.
void settle_rows(const AngleJob&, std::int64_t begin_row, std::int64_t end_row) noexcept;

}  // namespace rotary::detail
