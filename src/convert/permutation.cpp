#include "permutation.h"

#include <numeric>

namespace rotary::convert {

Sources unchanged(std::int64_t elements) {
  Sources sources(static_cast<std::size_t>(elements));
  std::iota(sources.begin(), sources.end(), std::uint32_t{0});
  return sources;
}

void reorder(Sources& sources, RotatedBlock block, Pairing to) {
  const auto first = static_cast<std::uint32_t>(block.first);
  const auto pairs = static_cast<std::uint32_t>(block.pairs);
  for (std::uint32_t j = 0; j < pairs; ++j) {
    const std::uint32_t in_half[] = {first + j, first + pairs + j};
    const std::uint32_t in_interleaved[] = {first + 2 * j, first + 2 * j + 1};
    for (int member = 0; member < 2; ++member) {
      const bool to_half = to == Pairing::half;
      sources[to_half ? in_half[member] : in_interleaved[member]] = to_half ? in_interleaved[member] : in_half[member];
    }
  }
}

}  // namespace rotary::convert
