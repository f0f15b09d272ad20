// How one tensor changes, and the bytes of the changed tensor piece by piece.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "files/text/io.h"
#include "permutation.h"
#include "rotary/tensors.h"

namespace rotary::convert {

// What of a tensor the elements of the permuted axis are.
enum class Axis : std::uint8_t {
  rows,            // the tensor is so many runs of equally many bytes: the first dimensions
  columns,         // elements of the last dimension
  packed_columns,  // numbers of `bits` bits in the 32-bit words of the last dimension, the lowest bits first
  awq_columns,     // the same of 4 bits in AWQ's order: 0 2 4 6 1 3 5 7 from the lowest bits
  packed_rows,     // numbers of `bits` bits in the 32-bit words of the first of two dimensions
};

struct Change {
  Axis axis = Axis::rows;
  int bits = 0;
  std::shared_ptr<const Sources> sources;
};

// Reads bytes [offset, offset + out.size()) of a tensor.
using Reader = std::function<void(std::uint64_t offset, std::span<std::byte> out)>;
using files::Sink;

// The tensor's bytes after the change, in order. No more than two megabytes, or the two copies of the rows that a
// rotated block spans, or of a row of packed numbers, are in memory; of packed_rows, two copies of the tensor.
void stream_changed(const TensorInfo&, const Change&, const Reader&, const Sink&);

// Number `index` along the axis, of packed ones: in words of which each is `step` words behind the one before.
std::uint32_t packed_number(const Change&, const std::byte* words, std::size_t step, std::size_t index);

// Where elements change their place, runs that keep to themselves: [begin, end) comes from [begin, end). The runs are
// in order and cover all; runs shorter than `least` elements are joined.
struct Run {
  std::size_t begin = 0, end = 0;
  bool moves = false;
};
std::vector<Run> closed_runs(const Sources&, std::size_t least);

}  // namespace rotary::convert
