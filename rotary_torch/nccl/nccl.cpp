// NCCL by torch's c10d. The only code here that links torch's CUDA library: a library of its own, loaded where several
// processes train on GPUs.
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "rotary_torch/training/nccl.h"

extern "C" [[gnu::visibility("default")]] c10d::Backend* rotary_torch_nccl(const c10::intrusive_ptr<c10d::Store>& store,
                                                                           int rank, int size,
                                                                           std::chrono::milliseconds timeout) {
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options).release();
}
