// Arguments that every table refuses, on the host and on a device, with the sentence of the error.
#pragma once

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::tests {

struct RefusedTable {
  const char* code;
  std::string sentence;  // behind "[table] "
  Frequencies f;
  std::vector<double> positions = {1, 2, 3, 4, 5, 6};
  int axes = 1;
  Angles angles = Angles::exact;
};

inline std::vector<RefusedTable> refused_tables() {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  constexpr Angles exact = Angles::exact, float32 = Angles::float32;
  const Frequencies plain{.inv_freq = {1, 0.5, 0.25, 0}, .pairing = Pairing::half};
  Frequencies sums{.inv_freq = {1, 2, 3, 4, 5, 6, 7, 8}, .pairing = Pairing::half, .head_rows = 2, .summed_axes = 2};
  std::vector<RefusedTable> all;
  const auto add = [&](const char* code, std::string sentence, Frequencies f, auto change,
                       Angles angles = Angles::exact, std::vector<double> positions = {1, 2, 3, 4, 5, 6}) {
    change(f);
    const int axes = f.summed_axes > 0 ? f.summed_axes : 1;
    all.push_back({code, std::move(sentence), std::move(f), std::move(positions), axes, angles});
  };
  using F = Frequencies;
  const auto unchanged = [](F&) {};
  add("PAIRING",
      "pairing must be half, interleaved or interleaved_to_half but is unset (no default is right for every model)",
      plain, [](F& f) { f.pairing = Pairing::unset; });
  add("SHAPE", "inv_freq must have at least one pair but is empty", plain, [](F& f) { f.inv_freq = {}; });
  add("SCALING", "inv_freq must be finite but is nan at pair 2", plain, [](F& f) { f.inv_freq[2] = nan; });
  add("SCALING", "attention_factor must be finite but is inf", plain, [](F& f) { f.attention_factor = infinity; });
  add("SHAPE", "axis must be empty or have one value for each of the 4 pairs but has 2", plain, [](F& f) {
    f.axis = {0, 1};
  });
  add("SHAPE", "inv_freq_float32 must be empty or have one value for each of the 4 pairs but has 3", plain, [](F& f) {
    f.inv_freq_float32 = {1, 2, 3};
  });
  add(
      "SCALING", "inv_freq must be finite in float32 but is 0 at pair 3", plain,
      [](F& f) {
        f.inv_freq_float32 = {1, 2, 3, std::numeric_limits<float>::infinity()};
      },
      float32);
  add(
      "SCALING", "inv_freq must be finite in float32 but is 9.9999999999999994e+38 at pair 1", plain,
      [](F& f) { f.inv_freq[1] = 1e39; }, float32);
  add("POSITION", "positions must be finite but position 2 is nan", plain, unchanged, exact, {0, 1, nan, 3});
  add("POSITION", "positions must be finite but position 0 is -inf", plain, unchanged, exact, {-infinity});
  add("POSITION", "position * inv_freq must be finite in float32 but is 1.0000000000000001e+300 * 1 at position 1",
      plain, unchanged, float32, {1, 1e300});

  add("VALUE", "angles must be exact where axes are summed, or with a phase or xpos, but got float32", sums, unchanged,
      float32);
  add("SHAPE",
      "inv_freq must have a value for each pair of 2 head_rows and 2 axes but has 7 (head_rows is the number of rows "
      "of "
      "frequencies, not the model's heads: leave it 1 unless inv_freq has a row for each head)",
      sums, [](F& f) { f.inv_freq.pop_back(); });
  add("SHAPE", "phase must be empty or have one value for each of the 2 pairs but has 3", sums, [](F& f) {
    f.phase = {1, 2, 3};
  });
  add("SCALING", "phase must be finite but is nan at pair 1", sums, [](F& f) { f.phase = {0, nan}; });
  add("SHAPE", "axis must be empty where axes are summed but has 2", sums, [](F& f) { f.axis = {0, 0}; });
  add("SCALING", "a frequency must be 0 or at least 2^-256 in magnitude but got 4.909093465297727e-91", sums,
      [](F& f) { f.inv_freq[3] = 0x1p-300; });
  add("SCALING", "xpos's scale must be finite and above 0 but is -1", plain, [](F& f) { f.xpos.scale = -1; });
  add("POSITION",
      "xpos's amplitude must be finite in float32, with positions within 70 scales of the center, but position 1 is "
      "40000",
      plain, [](F& f) { f.xpos = {512, 0, true}; }, exact, {1, 40000});
  all.push_back({"SHAPE", "the positions must have the 2 axes of inv_freq but have 1", sums});
  Frequencies axes = plain;
  axes.axis = {0, 1, 2, 0};
  all.push_back({"SHAPE", "the rope's axes are 0 to 2 but the positions have 2 axes", axes, {1, 2}, 2});
  axes.axis = {0, 1}, axes.inv_freq = {1, 0.5, 1, 0x1p116}, axes.head_rows = 2;
  all.push_back({"POSITION",
                 "position * inv_freq must be finite in float32 but is 10000 * 8.3076749736557242e+34 at position 1",
                 axes,
                 {3, 10000},
                 2,
                 float32});
  return all;
}

// Lengths of cos and sin that are not whole rows of that many pairs. The code is always SHAPE.
struct RefusedRows {
  const char* sentence;
  std::size_t cos, sin;
  int pairs, batch;
};
inline constexpr RefusedRows refused_rows[] = {
    {"[table] cos and sin must have the same length but have 12 and 11", 12, 11, 3, 1},
    {"[table] the length of cos must be a multiple of batch * pairs = 3 but is 11", 11, 11, 3, 1},
    {"[table] the length of cos must be a multiple of batch * pairs = 15 but is 12", 12, 12, 3, 5},
    {"[table] pairs must be from 1 to 2^30 - 1 but is 0", 12, 12, 0, 1},
    {"[table] batch must be at least 1 but is 0", 12, 12, 3, 0}};

}  // namespace rotary::tests
