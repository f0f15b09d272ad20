// How far common ways to make tables of cos and sin are from the exact one, for one rope: `rotary accuracy`.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "rotary/config.h"
#include "rotary/positions.h"

namespace rotary::accuracy {

// w is the frequency of a pair, p a position, fl() rounding to float32. Where a way says nothing else, cos and sin of
// its angle are rounded to the nearest float, and multiplied by the attention factor in float32.
enum class Way : std::uint8_t {
  exact,             // the real cos and sin, rounded once to float32: this library
  float32_product,   // fl(fl(p) w), w in float32 steps as the frameworks compute it: Angles::float32
  bf16_positions,    // fl(bf16(p) w)
  running_rotation,  // from position to position (cos, sin) turned once more, in float32
  fast_sine,         // float32_product, its range reduced in float32 as a GPU's sin.approx does (CUDA's __sinf)
};

struct WayInfo {
  Way way;
  const char* name;     // "float32 product": a contract, the value of a key of JSON
  const char* meaning;  // one line
};
ROTARY_API std::span<const WayInfo> all_ways() noexcept;

using Position = std::variant<std::int64_t, double>;  // a double is finite, and of magnitude below 2^63

// The positions of one number of digits.
struct Decade {
  std::int64_t first = 0;  // 0, 10, 100, ...: the positions whose magnitude is from first to last
  std::int64_t last = 9;
  std::vector<Position> positions = {};  // the measured ones, of rising magnitude
};

struct Largest {
  double error = 0;  // |table - exact|; the entries hold the attention factor
  Position position = {};
  int pair = 0;
  bool of_sine = false;
};

struct WayErrors {
  WayInfo info = {};
  std::vector<std::optional<Largest>> decades = {};  // no value where the way is not run at every position measured
};

struct Request {
  Model model;
  std::size_t rope = 0;             // its number in the model
  Frequencies frequencies;          // that rope's, at `length` tokens
  std::int64_t length = 0;          // tokens in play, for the answer
  std::vector<Position> positions;  // where to measure; empty: a sample of each decade, to the one beyond the context's
  double tolerance = 1e-3;          // the error that the advice allows float32: from 1e-6 to 1
};

struct Study {
  std::vector<Decade> decades;
  std::vector<WayErrors> ways;   // in the order of all_ways()
  std::int64_t last_within = 0;  // the last position before float32_product's first error above the tolerance; -1: none
  bool to_the_end = false;       // there was no such error: last_within is the last position looked at
  std::string sampling;          // which positions were measured, in words
  std::string advice;            // up to where float32 is good enough, in words
};

// Measures each axis of a rope that turns by sums alone, with the other coordinates at 0. progress: called after each
// position with how many of all are measured. Throws POSITION for a position that is none and where an angle overflows
// float32, ROPE of phases and xpos, SCALING, VALUE.
ROTARY_API Study study(const Request&, const std::function<void(std::int64_t done, std::int64_t all)>& progress = {});
// The object that `rotary accuracy --json` prints.
ROTARY_API std::string to_json(const Request&, const Study&);

}  // namespace rotary::accuracy
