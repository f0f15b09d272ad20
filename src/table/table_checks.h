// The rules of tables, wherever their rows lie: this processor's memory or a device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::detail {

struct AngleJob;  // angle_job.h

inline constexpr int largest_pairs = (1 << 30) - 1;  // so that rotary_dim is an int

// The number of pairs. Throws PAIRING, SHAPE, SCALING.
ROTARY_API int checked_pairs(const Frequencies&);

// Whether a rope that listens to so many axes takes positions of so many. Throws SHAPE.
ROTARY_API void check_axes(const char* operation, int rope_axes, int position_axes);

// reals: the positions where they are fractional, else null. Throws SHAPE, POSITION.
ROTARY_API void check_positions(const Frequencies&, const Positions&, const double* reals);

// Throws VALUE.
ROTARY_API void check_options(const TableOptions&);

// batch * tokens * pairs. Throws SHAPE.
ROTARY_API std::size_t checked_size(int batch, std::int64_t tokens, int pairs);

// Of tables from cos and sin of these lengths. Throws SHAPE.
ROTARY_API std::int64_t checked_tokens(std::size_t cos, std::size_t sin, int pairs, int batch);

// inv_freq in f32, padded with zeros as the CPU's kernels want it.
ROTARY_API void prepare_float32(const Frequencies&, std::vector<float>& result);
// What Angles::float32 asks of them. Throws SCALING.
ROTARY_API void check_float32(const Frequencies&, const std::vector<float>& prepared);
// No angle may overflow: each position meets the fastest pair of its axis. Throws POSITION.
ROTARY_API void check_float32(const AngleJob&);

}  // namespace rotary::detail
