// The errors of common ways to compute tables of cos and sin, for one rope: `rotary accuracy`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "rotary/config.h"
#include "rotary/positions.h"

namespace rotary::accuracy {

// w is the frequency of a pair, p a position, fl() rounding to float32. Unless a way says otherwise, cos and sin of its
// angle are rounded to the nearest float and multiplied by the attention factor in float32.
enum class Way : std::uint8_t {
  exact,             // the real cos and sin, rounded once to float32: this library
  float32_product,   // fl(fl(p) w), w in float32 steps as the frameworks compute it: Angles::float32
  bf16_positions,    // fl(bf16(p) w)
  running_rotation,  // (cos, sin) rotated on from each position to the next, in float32
  fast_sine,         // float32_product with the range reduction in float32 of a GPU's sin.approx (CUDA's __sinf)
};

struct WayInfo {
  Way way;
  const char* name;     // "float32 product"; a value in the JSON, which does not change
  const char* meaning;  // one line
};

using Position = std::variant<std::int64_t, double>;  // a double is finite, with a magnitude below 2^63

// The measured positions with the same number of digits.
struct Decade {
  std::int64_t first = 0;  // 0, 10, 100, ...: the magnitude of positions is from first to last
  std::int64_t last = 9;
  std::vector<Position> positions = {};  // by increasing magnitude
};

struct Largest {
  double error = 0;  // |table - exact|, with the attention factor in both
  Position position = {};
  int pair = 0;
  bool of_sine = false;
};

struct WayErrors {
  WayInfo info = {};
  std::vector<std::optional<Largest>> decades = {};  // no value if the way cannot compute all positions of the decade
};

struct Request {
  Model model;
  std::size_t rope = 0;             // index in model.ropes
  Frequencies frequencies;          // the rope's, at `length` tokens
  std::int64_t length = 0;          // length of the sequence, for the answer
  std::vector<Position> positions;  // measured positions; empty: samples to one decade beyond the context's
  double tolerance = 1e-3;          // the error that the advice allows for float32: from 1e-6 to 1
};

struct Study {
  std::vector<Decade> decades;
  std::vector<WayErrors> ways;   // in the order of Way
  std::int64_t last_within = 0;  // last position before the first error of float32_product above tolerance; -1: none
  bool to_the_end = false;       // there is no such error: last_within is the last position examined
  std::string sampling;          // description of the measured positions
  std::string advice;            // description of how far float32 is accurate enough
};

// Measures the ways. For a rope with summed axes, each axis is measured with the other coordinates at 0. progress is
// called after each position, with the number of positions measured and of all. Throws POSITION for an invalid position
// and where an angle overflows float32, ROPE for phases, xpos and a rope that the model does not have, VALUE, and what
// Frequencies::check() throws.
ROTARY_API Study study(const Request&, const std::function<void(std::int64_t done, std::int64_t all)>& progress = {});
// The object that `rotary accuracy --json` prints.
ROTARY_API std::string to_json(const Request&, const Study&);

}  // namespace rotary::accuracy
