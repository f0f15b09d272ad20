// Tables of made-up frequencies, for the tests of angles.
#pragma once

#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "rotary/rotary.h"

namespace rotary::tests {

inline constexpr std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
inline constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

inline Table table_of(Frequencies f, const Positions& p, const TableOptions& options = {}) {
  f.pairing = Pairing::half;
  return Table(f, p, options);
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}

// 0, both ends of int64, and around and between its powers of two.
inline std::vector<std::int64_t> positions_of_every_size(std::mt19937_64& random) {
  std::vector<std::int64_t> p = {0, lowest, lowest + 1, largest};
  for (int k = 0; k < 63; ++k) {
    const std::int64_t power = std::int64_t{1} << k;
    const std::int64_t between = power + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(power));
    for (const std::int64_t x : {power - 1, power, power + 1, between}) p.insert(p.end(), {x, -x});
  }
  return p;
}

}  // namespace rotary::tests
