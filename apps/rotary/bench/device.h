// Measures a cell on a CUDA device: verifies it, then times it in turn with a copy of the same bytes.
#pragma once

#include "measure.h"
#include "measure/gpu_measure.h"

namespace rotary::cli::bench {

// Throws CUDA if rotary was built without CUDA or no device is found.
void require_cuda();

class CudaBench {
 public:
  explicit CudaBench(double seconds);  // as for Bench

  // Throws CHECK if the result is wrong, and what the operations throw.
  Result measure(const Cell&);

 private:
  Result measure_heads(const Cell&);
  Result measure_table(const Cell&);
  int sets_of(const Cell&) const;

  double seconds_;
  gpu::OwnStream stream_;
};

}  // namespace rotary::cli::bench
