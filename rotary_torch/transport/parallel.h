// Data-parallel training over several processes: MPI between machines, NCCL where the tensors are on GPUs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace rotary_torch {

// The processes that train together. Reductions must be called by all ranks in the same order.
//
// A lost rank. Nothing in MPI reports it to those that are left: they would wait for ever, and mpirun, a second after
// the loss, sends them SIGTERM and one more second later SIGKILL (srun: its KillWait, 30 s). So every wait below throws
// PEER with a sentence, within a tenth of a second of the moment when
//   - a process of the same machine is gone (whatever launched it),
//   - interrupt() was called, as a program's SIGTERM handler must: it is how the loss of a process elsewhere arrives,
//   or
//   - ROTARY_PEER_TIMEOUT (seconds; not set: never) has passed in one wait.
// After that the group is of no use: every call throws PEER, and the process should save what it has and exit with
// another status than 0. Nothing here touches weights, so they are those of the last completed step.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual const char* transport() const noexcept = 0;  // "none", "mpi", "nccl"

  // Of the processes on this machine: to share out its GPUs and its cores.
  virtual int local_rank() const noexcept { return 0; }
  virtual int local_size() const noexcept { return 1; }

  // Sums over ranks in place and at once (f32, f64, int64). All ranks get the same bits, and for a given number of
  // ranks they do not depend on timing.
  virtual void sum(at::Tensor& values) const = 0;
  virtual void broadcast(at::Tensor& values, int from) const = 0;  // from one rank to all; any type
  virtual void barrier() const = 0;

  // The same sum, begun now and ended by wait(). The tensor stays alive; its values are undefined until then.
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual void wait() = 0;
  };
  virtual std::unique_ptr<Pending> begin_sum(at::Tensor& values) const = 0;

  // Throws PEER where a rank is known to be lost or interrupt() was called; costs nothing to speak of. For long work
  // between two reductions.
  virtual void check() const {}
  // The lowest rank that is not known to be lost: the one that writes. 0 in an unhurt group.
  virtual int writer() const noexcept { return 0; }

  // Ends every wait of this process, now and later. Safe in a signal handler. Of no effect on alone().
  static void interrupt() noexcept;

  static const ProcessGroup& alone() noexcept;  // one process: every call does nothing
  // Under mpirun or srun: the world of MPI (initialised on first use, finalised when the process exits with status 0);
  // for a CUDA device NCCL over it. A device without index means this process's own, local_rank(). Otherwise alone():
  // MPI is never initialised. Throws MPI where several processes were started but the program was built without MPI or
  // its MPI cannot see them; NCCL where libnccl.so.2 cannot be loaded or refuses.
  static const ProcessGroup& world(at::Device device = at::kCPU);
};

// Averages gradients in buckets while the backward pass still runs: as soon as the gradients of a bucket's parameters
// are there, its sum over the ranks begins. Buckets fill in the reverse order of the parameters and are summed in that
// order on every rank. One object per model, alive as long as the model trains; it occupies the parameters' hooks that
// run after a gradient is accumulated. In a group of one it does nothing at all.
class GradientAverager {
 public:
  // Every rank must give parameters of the same shapes. Throws SHAPE on all ranks where they differ.
  GradientAverager(std::vector<at::Tensor> parameters, const ProcessGroup&, std::int64_t bucket_bytes = 1 << 20);
  ~GradientAverager();
  GradientAverager(const GradientAverager&) = delete;
  GradientAverager& operator=(const GradientAverager&) = delete;

  // Around one backward(): begin() before, finish() after, which waits until every parameter's grad is the mean over
  // the ranks. A parameter without a gradient on some ranks counts as zero there; without one on all ranks it is left
  // alone. Gradients accumulated before begin() take part. All three throw PEER, backward() by way of the hooks.
  void begin();
  void finish();
  std::int64_t bytes_per_step() const noexcept;  // that one rank gives to the sums

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rotary_torch
