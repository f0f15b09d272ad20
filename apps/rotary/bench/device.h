// Measures a cell on a CUDA device: verified first, then timed in turn with what a copy of the same bytes takes.
#pragma once

#include "measure.h"
#include "measure/gpu_measure.h"

namespace rotary::cli::bench {

// Throws CUDA where rotary was built without it or there is no device.
void require_cuda();

class CudaBench {
 public:
  explicit CudaBench(double seconds);  // as Bench

  // Throws CHECK where the result is wrong, and what the operations throw.
  Result measure(const Cell&);

 private:
  Result measure_heads(const Cell&);
  Result measure_table(const Cell&);
  int sets_of(const Cell&) const;

  double seconds_;
  gpu::OwnStream stream_;
};

}  // namespace rotary::cli::bench
