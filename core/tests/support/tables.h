// Made-up frequencies and positions for the tests of angles, and their tables.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "rotary/rotary.h"
#include "rotary/targets.h"

namespace rotary::tests {

inline constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
inline constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

inline Frequencies geometric(double base, int rotary_dim, double factor = 1) {
  Frequencies f;
  f.pairing = Pairing::half;
  for (int i = 0; i < rotary_dim / 2; ++i) f.inv_freq.push_back(std::pow(base, -2.0 * i / rotary_dim));
  f.attention_factor = factor;
  return f;
}

inline Table table_of(Frequencies f, const Positions& p, const TableOptions& options = {}) {
  f.pairing = Pairing::half;
  return Table(f, p, options);
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

inline std::vector<std::int64_t> rising(std::int64_t first, int count) {
  std::vector<std::int64_t> p;
  for (int k = 0; k < count; ++k) p.push_back(first + k);
  return p;
}

// 0, both ends of int64, its powers of two with their neighbours, and a number between every two of these powers.
inline std::vector<std::int64_t> positions_of_every_size(std::mt19937_64& random) {
  std::vector<std::int64_t> p = {0, lowest, lowest + 1, largest};
  for (int k = 0; k < 63; ++k) {
    const std::int64_t power = std::int64_t{1} << k;
    const std::int64_t between = power + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(power));
    for (const std::int64_t x : {power - 1, power, power + 1, between}) p.insert(p.end(), {x, -x});
  }
  return p;
}

// The 11 positions below 2^26 (d = 128, base 5e5) where the kernel's double, unsettled, would round to the wrong float.
inline std::vector<std::int64_t> undecided_positions() {
  return {12731065, 25230078, 39543253, 40610537, 41266718, 44741561, 45743150, 49704171, 51554166, 62003903, 65298894};
}

// Fractions, the smallest and the largest doubles.
inline std::vector<double> hard_reals() {
  return {0.0,    -0.0, 0.5,    -0.25,  1.0 / 3, 0.1,    1e-5,    1e-9,    -1e-30,  1e-300,   5e-324,
          0x1p63, 1e15, 0x1p64, 0x1p65, 1e30,    -1e100, 1.7e308, 123.456, 4095.75, 1e9 + 0.5};
}

// Finite frequencies, also such as no rope has.
inline std::vector<double> any_frequency() {
  constexpr double most = std::numeric_limits<double>::max(), quarter = 0x1.921fb54442d18p0;
  std::vector<double> all{0.0, -0.0, 5e-324, -5e-324, 1e-310, 0x1p-1022, 0x1.000003p-120};
  for (const double w : {1e-200, 1e-60, 1e-40, 1e-31, 1e-20, 1e-12, 1e-7, 0.3, -0.3, 1.0, -1.0}) all.push_back(w);
  for (const double w : {quarter, 0x1p-30, 6.2831, 6.2832, -100.5, 1e10, 1e22, 1e100, -1e200, 1e308, most})
    all.push_back(w);
  return all;
}

template <class Check>
void on_every_target(const Check& check) {
  for (const Target& target : targets()) {
    if (!target.runs) continue;
    use_target(target.name);
    check();
  }
  use_target("");
}

}  // namespace rotary::tests
