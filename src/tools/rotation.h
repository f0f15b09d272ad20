// Rotating tensors in place: by a rope at positions, or by rows of cos and sin.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rotary/config.h"
#include "rotary/positions.h"
#include "rotary/rotary.h"
#include "rotary/tensors.h"

namespace rotary::tools {

// How tensors of any number of tokens are rotated: elements [first, first + rotary_dim) of heads of head_dim.
struct Rotation {
  std::string operation;  // the word in brackets in error sentences
  int head_dim = 0;
  int rotary_dim = 0;
  int first = 0;
  PositionSet positions = {};                // may be open
  Frequencies frequencies = {};              // of rows the pairing alone
  TableOptions options = {};                 // of tables of these frequencies, with the executor of all work
  std::optional<Tensor> cos = {}, sin = {};  // f32, [rows, pairs], by position; then no frequencies
  Direction direction = Direction::forward;
  QueryScale query_scale = {};  // of queries: multiplies them by their positions, the whole head
  bool turns = true;            // false: of a layer without a rope, nothing but query_scale is done
  bool each_step = false;       // round after every operation, as a framework running in the tensor's dtype does
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};  // tokens of a long tensor; may be empty
};
// Sets rotary_dim to what the rows are for, which rotary_dim, if given, must be. Throws SHAPE.
void check_rows(Rotation&, std::optional<int> rotary_dim);

// Throws DTYPE unless each tensor is f32, f16, bf16 or f64.
void check_types(const std::string& operation, const std::vector<Tensor*>&);
// Rotates the block of every head of a tensor that lies so: of whole heads, or the bare block. f64 in double. table:
// that of the tensor before, which is taken where it has as many tokens. Throws SHAPE, POSITION.
void rotate_tensor(Tensor&, const Layout&, const Rotation&, std::optional<Table>& table);

}  // namespace rotary::tools
