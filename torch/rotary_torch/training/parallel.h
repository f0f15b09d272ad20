// The device of a training run, and data-parallel training over several processes by torch's c10d: Gloo over TCPStore.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <functional>
#include <string>
#include <vector>

namespace rotary_torch {

// "cpu" or "cuda", index: which GPU. For a GPU it first loads torch's CUDA library, which nothing here links. Throws
// DEVICE, naming what is missing.
c10::Device open_device(const std::string& word, int index = 0);

// The processes that train together. All ranks call the functions in the same order, with tensors of the same shapes.
// A lost rank: its connections close, and every call that waits for it throws PEER, as does the caller's next one; so
// the ranks that notice it end, and the others notice them. A rank that does not answer is noticed after
// ROTARY_PEER_TIMEOUT seconds (1800 where it is not set).
class ProcessGroup {
 public:
  // One process: every call does nothing.
  static const ProcessGroup& alone() noexcept;
  // The processes that torchrun started, or that were started by hand with its variables (docs/torch.md); alone()
  // where WORLD_SIZE is not set or 1. The group lives until the process ends, which from then on ignores SIGPIPE.
  // Throws VALUE for variables that are missing or no such numbers, PEER if the others cannot be reached, TORCH if the
  // build has no Gloo.
  static const ProcessGroup& world();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  int local_rank() const noexcept { return local_rank_; }  // on this machine, to divide its GPUs and cores
  int local_size() const noexcept { return local_size_; }

  // The mean over the ranks in place, by one all-reduce; tensors of one type, f32 or f64. All ranks get the same bits.
  void average(const std::vector<at::Tensor>&) const;
  void copy_first(const std::vector<at::Tensor>&) const;  // gives every rank the values of rank 0, in place
  void wait_for_all() const;

 private:
  void sum(const std::vector<at::Tensor>&, int divisor) const;  // the sum over the ranks, divided, in place

  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::function<void(at::Tensor&)> all_reduce_;  // sums a dense tensor on the CPU over the ranks
};

}  // namespace rotary_torch
