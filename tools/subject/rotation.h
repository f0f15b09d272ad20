// The rotation of tensors in place by `rotary apply`, by the rope of their subject or by rows of cos and sin.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "rotary/rotary.h"
#include "rotary/tensors.h"
#include "subject.h"

namespace rotary::tools {

// The rotation of tensors of one subject, with any number of tokens.
struct Rotation {
  Subject subject = {};                      // positions may be open
  Frequencies frequencies = {};              // unused if rows are given
  TableOptions options = {};                 // for tables of these frequencies, and the executor of all work
  std::optional<Tensor> cos = {}, sin = {};  // rows by position, f32, [rows, pairs], instead of frequencies
  Direction direction = Direction::forward;
  bool each_step = false;  // rounds after every operation, like a framework in the tensor's dtype
};
// The number of elements, from the rope's first, that rows of cos and sin rotate in heads of its head_dim: rotary_dim,
// if that is given. Throws SHAPE.
int check_rows(const Tensor& cos, const Tensor& sin, const ModelRope&, std::optional<int> rotary_dim);

// Throws DTYPE unless each tensor is f32, f16, bf16 or f64.
void check_types(const std::vector<Tensor*>&);
// Rotates the block of every head of a tensor with that layout, of whole heads or the bare block; without `turns`
// nothing rotates. Whole heads are multiplied by the subject's scale, unless the tensor is named as keys. f64 rotates
// in double. table: from the previous tensor, reused for the same number of tokens. Throws SHAPE, POSITION.
void rotate_tensor(Tensor&, const Layout&, const Rotation&, std::optional<Table>& table);

// The largest |got - right| of a correct implementation that rotates elements in [-1, 1] by a table of each type; and,
// for each token, of one with float32 angles. The positions are closed, with one batch row.
struct Tolerances {
  double f32 = 0, f16 = 0, bf16 = 0;
  std::vector<double> float32_angles = {};
};
Tolerances tolerances(const Frequencies&, const PositionSet&);

}  // namespace rotary::tools
