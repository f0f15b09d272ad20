// Rotating tensors in place: by the rope of their subject, or by rows of cos and sin.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "rotary/rotary.h"
#include "rotary/tensors.h"
#include "subject.h"

namespace rotary::tools {

// How tensors of one subject are rotated, whatever number of tokens they have.
struct Rotation {
  std::string operation;                     // the word in brackets in error sentences
  Subject subject = {};                      // its positions may be open
  Frequencies frequencies = {};              // none where rows are given
  TableOptions options = {};                 // for tables of these frequencies, with the executor of all work
  std::optional<Tensor> cos = {}, sin = {};  // f32, [rows, pairs], by position; then no frequencies
  Direction direction = Direction::forward;
  bool each_step = false;  // round after every operation, as a framework running in the tensor's dtype does
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};  // tokens of a long tensor; may be empty
};
// How many elements of heads of that rope's head_dim, from its first, the rows of cos and sin turn: rotary_dim, if that
// is given. Throws SHAPE.
int check_rows(const std::string& operation, const Tensor& cos, const Tensor& sin, const ModelRope&,
               std::optional<int> rotary_dim);

// Throws DTYPE unless each tensor is f32, f16, bf16 or f64.
void check_types(const std::string& operation, const std::vector<Tensor*>&);
// Rotates the block of every head of a tensor that lies so: of whole heads, or the bare block; without `turns` nothing
// is rotated. Whole heads are multiplied by the scale of the subject, unless the tensor is named as keys. f64 in
// double. table: that of the tensor before, which is taken where it has as many tokens. Throws SHAPE, POSITION.
void rotate_tensor(Tensor&, const Layout&, const Rotation&, std::optional<Table>& table);

// The largest |got - right| of a right implementation that rotates elements in [-1, 1] by a table of each type; and of
// one that takes angles in float32, for each token. The positions are closed, of one batch row.
struct Tolerances {
  double f32 = 0, f16 = 0, bf16 = 0;
  std::vector<double> float32_angles = {};
};
Tolerances tolerances(const Frequencies&, const PositionSet&);

}  // namespace rotary::tools
