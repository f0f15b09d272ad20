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

// The tables for tensors of any number of tokens.
class Tables {
 public:
  // Of a rope at positions, which may be open. operation: the word in brackets in error sentences.
  Tables(std::string operation, const ModelRope&, Frequencies, PositionSet, const TableOptions&);
  // Of rows of cos and sin, f32 [rows, pairs] each, selected by positions, for heads of head_dim elements of which
  // those from `first` on turn. rotary_dim: if given, what the rows must be for. Throws SHAPE.
  struct Rows {
    Tensor cos;
    Tensor sin;
    Pairing pairing = Pairing::unset;
    int head_dim = 0;
    int first = 0;
    std::optional<int> rotary_dim = {};
  };
  Tables(std::string operation, const Rows&, PositionSet);

  // For a tensor of that many tokens; label names it in errors. Valid until the next call. Throws SHAPE, POSITION.
  const Table& table(std::int64_t tokens, const std::string& label, const Executor&);
  PositionSet positions(std::int64_t tokens, const std::string& label) const;

  const PositionSet& all_positions() const noexcept { return positions_; }  // may be open
  const std::string& operation() const noexcept { return operation_; }
  int head_dim() const noexcept { return head_dim_; }
  int rotary_dim() const noexcept { return rotary_dim_; }
  int first() const noexcept { return first_; }
  // The tables are the correctly rounded ones of frequencies(): neither rows, nor other angles or roundings.
  bool exact() const noexcept;
  const Frequencies& frequencies() const noexcept { return frequencies_; }  // of rows the pairing alone
  double first_factor() const;                                              // of rows: the length of the first turn

 private:
  Table table_of_rows(const PositionSet& rows) const;
  [[noreturn]] void fail(Code code, const std::string& sentence) const;

  std::string operation_;
  bool by_rows_ = false;
  TableOptions options_;
  int head_dim_ = 0;
  int rotary_dim_ = 0;
  int first_ = 0;
  Frequencies frequencies_;
  std::vector<float> cos_;
  std::vector<float> sin_;
  PositionSet positions_;
  std::optional<Table> table_;
};

struct RotationOptions {
  Direction direction = Direction::forward;
  bool each_step = false;  // round after every operation, as a framework running in the tensor's dtype does
  std::function<void(std::int64_t done, std::int64_t total)> progress = {};  // tokens of a long tensor; may be empty
};

// Throws DTYPE unless each tensor is f32, f16, bf16 or f64.
void check_types(const std::string& operation, const std::vector<Tensor*>&);
// Rotates the block of every head of a tensor that lies so: the whole heads of the tables, or the bare block. f64 in
// double. Throws SHAPE, POSITION.
void rotate_tensor(Tensor&, const Layout&, Tables&, const RotationOptions&, const Executor&);

}  // namespace rotary::tools
