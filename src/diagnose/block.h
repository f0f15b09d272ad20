// Which elements rotate with which, found from the norms of pairs alone: a rotation keeps them, or multiplies all of
// them by the attention factor.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "sample.h"

namespace rotary::diagnose {

enum class Kind : std::uint8_t {
  half,                 // the three of rotary::Pairing
  interleaved,          //
  interleaved_to_half,  //
  half_to_interleaved,  // reads (i, i + n), writes (2i, 2i + 1): no model does, a port may
};
const char* name(Kind) noexcept;
std::optional<Kind> kind_of(Pairing) noexcept;
Pairing pairing_of(Kind) noexcept;  // unset: rotary has none

struct Block {
  Kind kind = Kind::half;
  int first = 0;
  int pairs = 0;
  std::array<int, 2> input(int pair) const noexcept;   // the elements of a head that the pair reads
  std::array<int, 2> output(int pair) const noexcept;  // and writes
  int rotary_dim() const noexcept { return 2 * pairs; }
  bool operator==(const Block&) const = default;
};

struct FoundBlock {
  Block block;
  double misfit = 0;
};
struct BlockSearch {
  std::vector<int> touched;                // elements that differ in any vector
  std::vector<FoundBlock> found;           // of each kind the best block that explains the data, the best kind first
  std::array<double, 4> misfit_of_kind{};  // of each kind, the least misfit of any block
};
// expected is preferred among blocks that the data do not tell apart.
BlockSearch search_blocks(const Sample&, const std::optional<Block>& expected);

// Whether the data do not tell two blocks of these misfits apart.
bool alike(const Sample&, double misfit, double other);

}  // namespace rotary::diagnose
