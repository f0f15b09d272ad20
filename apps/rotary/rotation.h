// Rotating tensors of a file as a command's options ask.
#pragma once

#include <string>
#include <vector>

#include "readings.h"
#include "rotary/rotary.h"
#include "rotary/tensors.h"
#include "tables.h"

namespace rotary::cli {

struct RotationRequest {
  TableRequest tables;
  std::string layout;  // a word of layout_words; empty: by the tensors' dimensions and the config's heads
  bool backward = false;
  bool each_step = false;  // round after every operation, as a framework running in the tensor's dtype does
};

class Rotation {
 public:
  // Decides how the tensors are read and what turns them. They must outlive this; operation, the word in brackets in
  // error sentences, too. Throws SHAPE, DTYPE (not f32, f16, bf16 or f64), and what TableSource throws.
  Rotation(const char* operation, const RotationRequest&, std::vector<Tensor*> tensors);

  void run(const Executor&);  // rotates the tensors in place

  const std::vector<Tensor*>& tensors() const noexcept { return tensors_; }
  const std::vector<Reading>& readings() const noexcept { return readings_.tensors; }  // one for each tensor
  const TableSource& tables() const noexcept { return tables_; }
  std::vector<std::string> notes() const;                                                   // for standard output
  const std::vector<std::string>& warnings() const noexcept { return readings_.warnings; }  // for standard error

 private:
  Layout rotated_block(const Tensor& tensor, const Layout& layout, int& first) const;
  void rotate_tensor(Tensor& tensor, const Layout& layout, const Executor& executor);

  const char* operation_;
  RotationRequest request_;
  std::vector<Tensor*> tensors_;
  TableSource tables_;
  Readings readings_;
};

}  // namespace rotary::cli
