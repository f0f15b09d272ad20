#include "runtime/arithmetic.h"

#include "decades.h"

#include <algorithm>
#include <limits>

namespace rotary::accuracy {

namespace {

constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();

Decade next(const Decade& before) {
  Decade decade{before.last + 1, most};
  if (decade.first <= most / 10) decade.last = decade.first * 10 - 1;
  return decade;
}

std::vector<Position> sample(const Decade& decade) {
  std::vector<std::int64_t> chosen;
  const std::int64_t count = decade.last - decade.first + 1;
  if (decade.last < all_below) {
    for (std::int64_t p = decade.first; p <= decade.last; ++p) chosen.push_back(p);
    return {chosen.begin(), chosen.end()};
  }
  for (std::int64_t k = 0; k < spread; ++k) {
    chosen.push_back(decade.first + count / spread * k);
    chosen.push_back(decade.last - k);
  }
  for (int bit = 0; bit < 63; ++bit) {
    const std::int64_t power = std::int64_t{1} << bit;
    for (const std::int64_t p : {power - 1, power, power + 1}) {
      if (p >= decade.first && p <= decade.last) chosen.push_back(p);
    }
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return {chosen.begin(), chosen.end()};
}

}  // namespace

std::vector<Decade> default_decades(std::int64_t last) {
  std::vector<Decade> decades;
  for (Decade decade;; decade = next(decade)) {
    decades.push_back(decade);
    decades.back().positions = sample(decade);
    if (decade.last >= last) return decades;
  }
}

std::vector<Decade> decades_of(std::vector<Position> positions) {
  std::stable_sort(positions.begin(), positions.end(),
                   [](const Position& a, const Position& b) { return a.magnitude() < b.magnitude(); });
  std::vector<Decade> decades;
  Decade decade;
  for (const Position& position : positions) {
    // -2^63 is one beyond the last decade's end, and belongs to it.
    while (decade.last != most && position.magnitude() > static_cast<std::uint64_t>(decade.last)) decade = next(decade);
    if (decades.empty() || decades.back().first != decade.first) decades.push_back(decade);
    decades.back().positions.push_back(position);
  }
  return decades;
}

}  // namespace rotary::accuracy
