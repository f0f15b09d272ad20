// The device of a training run, and data-parallel training over several processes by torch's c10d, Gloo and TCPStore.
// Tensors on GPUs are summed in the host's memory.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace rotary_torch {

// "cpu" or "cuda". For a GPU it first loads torch's CUDA library, which nothing here links. operation is the word in
// brackets in error sentences. index: which GPU. Throws DEVICE, naming what is missing.
c10::Device open_device(const std::string& operation, const std::string& word, int index = 0);

// The processes that train together. Reductions must be called by all ranks in the same order.
//
// A lost rank: its connections close, and every call that waits for it throws PEER, as does the caller's next one; so
// the ranks that notice it end, and the others notice them. A rank that is alive but does not answer is noticed after
// ROTARY_PEER_TIMEOUT seconds (torch's 30 minutes where it is not set). The group is then unusable; nothing here
// changes weights, so they are those of the last completed step.
class ProcessGroup {
 public:
  // One process: every call does nothing.
  static const ProcessGroup& alone() noexcept;
  // The processes that torchrun started, or that were started by hand with RANK, WORLD_SIZE, MASTER_ADDR and
  // MASTER_PORT (and LOCAL_RANK and LOCAL_WORLD_SIZE where they are on several machines); alone() where WORLD_SIZE is
  // not set or 1. The group lives until the process ends. Throws VALUE for variables that are missing or no such
  // numbers, PEER if the others cannot be reached, TORCH if the build has no Gloo.
  static const ProcessGroup& world();

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }
  // Among the processes on this machine, to divide its GPUs and cores.
  int local_rank() const noexcept { return local_rank_; }
  int local_size() const noexcept { return local_size_; }

  // Sums over ranks in place (f32, f64, int64). All ranks get the same bits, which for a given number of ranks do not
  // depend on timing.
  void sum(at::Tensor& values) const;
  void broadcast(at::Tensor& values, int from) const;  // from one rank to all; any type
  void barrier() const;

 private:
  friend class GradientAverager;
  struct Backends;
  ProcessGroup() = default;

  int rank_ = 0, size_ = 1, local_rank_ = 0, local_size_ = 1;
  std::shared_ptr<Backends> backends_;
};

// Averages gradients in buckets while the backward pass still runs: the sum of a bucket over the ranks begins as soon
// as all of its gradients are accumulated. Buckets are filled in the reverse order of the parameters and summed in that
// order on every rank. There is one object per model, which must live as long as the model trains; it uses the
// parameters' post-accumulate-gradient hooks. In a group of one it does nothing.
class GradientAverager {
 public:
  // Gives every rank the parameters of rank 0, which are f32 or f64. Throws SHAPE on all ranks if their shapes differ.
  GradientAverager(std::vector<at::Tensor> parameters, const ProcessGroup&, std::int64_t bucket_bytes = 1 << 20);
  ~GradientAverager();
  GradientAverager(const GradientAverager&) = delete;
  GradientAverager& operator=(const GradientAverager&) = delete;

  // Call begin() before and finish() after one backward(). finish() waits until every parameter's grad is the mean over
  // the ranks; a gradient that is missing counts as zero. Gradients accumulated before begin() are included. All three
  // throw PEER, backward() through the hooks.
  void begin();
  void finish();
  std::int64_t begun() const noexcept;  // sums of this step that have begun

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rotary_torch
