// The permutation of a tensor's elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "rotary/rotary.h"
#include "rotary/tensors.h"
#include "text/io.h"

namespace rotary::conversion {

inline constexpr const char* operation = "convert";

// A permutation of the elements of an axis: out[i] = in[sources[i]].
using Sources = std::vector<std::uint32_t>;

// 2 * pairs elements of an axis, which rotate as one block of a head.
struct RotatedBlock {
  std::int64_t first = 0;
  int pairs = 0;
};

Sources unchanged(std::int64_t elements);
// Moves the elements of a block from the other pairing to this one, half or interleaved:
//   half[j] = interleaved[2 j], half[pairs + j] = interleaved[2 j + 1], j < pairs.
void reorder(Sources&, RotatedBlock, Pairing to);

// The elements of the permuted axis in a tensor.
enum class Axis : std::uint8_t {
  rows,            // the leading dimensions: each row is one contiguous block of bytes
  columns,         // elements of the last dimension
  packed_columns,  // numbers of `bits` bits in the 32-bit words of the last dimension, the lowest bits first
  awq_columns,     // as packed_columns, 4 bits in AWQ's order: 0 2 4 6 1 3 5 7 from the lowest bits
  packed_rows,     // numbers of `bits` bits in the 32-bit words of the first of two dimensions
};

struct Change {
  Axis axis = Axis::rows;
  int bits = 0;  // bits of a packed number: 2, 3, 4 or 8
  std::shared_ptr<const Sources> sources = nullptr;
};

// The change that undoes this one.
Change inverse(const Change&);

constexpr bool can_be_packed(std::int64_t bits) noexcept { return bits == 2 || bits == 3 || bits == 4 || bits == 8; }

// Rule 1: only whole bytes move. bits: the size of an element that moves. Throws DTYPE.
void check_whole_bytes(const TensorInfo&, std::uint64_t bits);
// Rule 2: the permuted axis has the same number of elements in the tensor and in the permutation; packed numbers fill
// their I32 words exactly.
bool has_size(const TensorInfo&, const Change&);

// Reads bytes [offset, offset + out.size()) of a tensor.
using Reader = std::function<void(std::uint64_t offset, std::span<std::byte> out)>;

// The tensor's bytes after the change, in order. The tensor must obey both rules. It takes a megabyte and a row;
// packed_rows takes two copies of the tensor.
void stream_changed(const TensorInfo&, const Change&, const Reader&, const files::Sink&);

// stream_changed of a tensor in memory.
using Bytes = std::vector<std::byte>;
Bytes changed(const TensorInfo&, const Change&, const Bytes&);

}  // namespace rotary::conversion
