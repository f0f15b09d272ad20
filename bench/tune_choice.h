// Which of several values of a constant is the fastest, and whether that is more than noise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rotary::measured {

// Seconds by round, of one case: seconds[round][value].
using Rounds = std::vector<std::vector<double>>;

struct Choice {
  std::string constant;
  std::string unit;                  // "bytes" or "heads"
  std::vector<std::int64_t> values;  // measured, the built-in one among them
  std::size_t built_in = 0;          // its index
  std::size_t best = 0;
  std::vector<double> percent;  // time of each value beside the built-in one's, over all cases: median of the rounds
  double noise_percent = 0;     // what the best one must gain to be believed

  double gain_percent() const;  // of the best
  bool within_noise() const { return gain_percent() <= noise_percent; }
};

// The value whose time, as the geometric mean over the cases (each a Rounds of all values), is the smallest. Noise is
// the spread between the quartiles of the best value's rounds, at least 1 %: the best of many equals is fast by chance.
Choice choose(std::string constant, std::string unit, std::vector<std::int64_t> values, std::int64_t built_in,
              const std::vector<Rounds>& cases);

// "3 KiB", "never" for INT64_MAX, "4".
std::string text_of(std::int64_t value, const std::string& unit);
// One line: what is built in, what is best, and what that is worth.
std::string sentence(const Choice&);
// One line for each value.
std::string details(const Choice&);
std::string json_of(const Choice&);

}  // namespace rotary::measured
