// Exact angles: what the kernels of cpu/angles.inc prepare with, and who settles the values that they cannot decide.
#pragma once

#include <cstdint>
#include <vector>

#include "rotary/rotary.h"

namespace rotary {

struct AngleJob;  // angle_job.h

// (-1)^negative * mantissa * 2^exponent, exactly.
struct Dyadic {
  bool negative = false;
  std::uint64_t mantissa = 0;
  int exponent = 0;
};
Dyadic dyadic(std::int64_t) noexcept;
Dyadic dyadic(double) noexcept;  // finite

struct CosSin {
  float cos;
  float sin;
};

// factor * cos(position * inv_freq) and factor * sin(...), rounded once from the real number to the given type, to
// nearest even, with its subnormals and infinities. A zero sine is +0.
CosSin round_once(const Dyadic& position, double inv_freq, double factor, DType) noexcept;

// The kernels' arrays are per pair, padded with zeros to a multiple of their widest vector.
inline constexpr int padded_pairs(int pairs) noexcept { return (pairs + 7) / 8 * 8; }

// What the exact kernels need of the frequencies; see AngleJob.
struct Turns {
  std::vector<std::uint32_t> limbs;
  std::vector<double> floor;
};
Turns turns_of(const std::vector<double>& inv_freq);

// The factors for which every result is zero or far inside f32's normal range, as the kernels need it.
bool decidable(double attention_factor) noexcept;
// All pairs of the rows, when it is not.
void settle_rows(const AngleJob&, std::int64_t begin_row, std::int64_t end_row) noexcept;

// Rounds the rows' values to f16 or bf16 (stored as f32): exact ones once, from the real number.
void narrow_rows(const AngleJob&, DType, std::int64_t begin_row, std::int64_t end_row) noexcept;

// x rounded to nearest even, to the values of f16 or bf16. *tie: x lies midway between two of them.
float narrowed(float x, DType, bool* tie) noexcept;

}  // namespace rotary
