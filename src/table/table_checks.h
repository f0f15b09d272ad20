// The rules of tables, wherever their rows lie: this processor's memory or a device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "rotary/rotary.h"

namespace rotary {

struct AngleJob;  // angle_job.h

inline constexpr int largest_pairs = (1 << 30) - 1;  // so that rotary_dim is an int

// The number of pairs. Throws SHAPE, SCALING.
int checked_pairs(const Frequencies&);

// Whether a rope that listens to so many axes takes positions of so many. Throws SHAPE.
void check_axes(const char* operation, int rope_axes, int position_axes);

// Throws SHAPE, POSITION.
void check_positions(const Frequencies&, const Positions&);

// batch * tokens * pairs. Throws SHAPE.
std::size_t checked_size(int batch, std::int64_t tokens, int pairs);

// Of tables from cos and sin of these lengths. Throws SHAPE.
std::int64_t checked_tokens(std::size_t cos, std::size_t sin, int pairs, int batch);

// inv_freq in f32, padded with zeros as the CPU's kernels want it.
void prepare_float32(const Frequencies&, std::vector<float>& result);
// What Angles::float32 asks of them. Throws SCALING.
void check_float32(const Frequencies&, const std::vector<float>& prepared);
// No angle may overflow: each position meets the fastest pair of its axis. Throws POSITION.
void check_float32(const AngleJob&);

}  // namespace rotary
