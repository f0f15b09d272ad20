// Data-parallel training over several processes: MPI between machines, NCCL for tensors on GPUs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace rotary_torch {

// The processes that train together. Reductions must be called by all ranks in the same order.
//
// A lost rank. MPI does not report it to the other ranks, which would wait for ever; mpirun sends them SIGTERM a second
// after the loss and SIGKILL another second later (srun: after its KillWait, 30 s). So every wait below throws PEER
// within a tenth of a second after
//   - a process of the same machine has ended (whatever launched it),
//   - interrupt() was called, as a program's SIGTERM handler must do: the signal reports the loss of a process on
//   another
//     machine, or
//   - one wait has lasted ROTARY_PEER_TIMEOUT seconds (not set: never).
// The group is then unusable: every call throws PEER, and the process should save its state and exit with a status
// other than 0. Nothing here changes weights, so they are those of the last completed step.
class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;
  virtual int rank() const noexcept = 0;
  virtual int size() const noexcept = 0;
  virtual const char* transport() const noexcept = 0;  // "none", "mpi", "nccl"

  // Among the processes on this machine, to divide its GPUs and cores.
  virtual int local_rank() const noexcept { return 0; }
  virtual int local_size() const noexcept { return 1; }

  // Sums over ranks in place and returns when done (f32, f64, int64). All ranks get the same bits, which for a given
  // number of ranks do not depend on timing.
  virtual void sum(at::Tensor& values) const = 0;
  virtual void broadcast(at::Tensor& values, int from) const = 0;  // from one rank to all; any type
  virtual void barrier() const = 0;

  // The same sum, begun now and completed by wait(). The tensor is kept alive; its values are undefined until then.
  class Pending {
   public:
    virtual ~Pending() = default;
    virtual void wait() = 0;
  };
  virtual std::unique_ptr<Pending> begin_sum(at::Tensor& values) const = 0;

  // Throws PEER if a rank is known to be lost or interrupt() was called. Cheap; for long work between two reductions.
  virtual void check() const {}
  // The rank that writes files: the lowest one that is not known to be lost; 0 if none is.
  virtual int writer() const noexcept { return 0; }

  // Ends every wait of this process, now and later. Safe in a signal handler. Has no effect on alone().
  static void interrupt() noexcept;

  static const ProcessGroup& alone() noexcept;  // one process: every call does nothing
  // Under mpirun or srun: the world of MPI (initialised on first use, finalised when the process exits with status 0);
  // for a CUDA device, NCCL over it. A device without index means that of local_rank(). Otherwise alone(), and MPI is
  // never initialised. Throws MPI if several processes were started but the program was built without MPI or its MPI
  // cannot see them; NCCL if libnccl.so.2 cannot be loaded or fails.
  static const ProcessGroup& world(at::Device device = at::kCPU);
};

// Averages gradients in buckets while the backward pass still runs: the sum of a bucket over the ranks begins as soon
// as all of its gradients are accumulated. Buckets are filled in the reverse order of the parameters and summed in that
// order on every rank. There is one object per model, which must live as long as the model trains; it uses the
// parameters' post-accumulate-gradient hooks. In a group of one it does nothing.
class GradientAverager {
 public:
  // Every rank must pass parameters of the same shapes. Throws SHAPE on all ranks if they differ.
  GradientAverager(std::vector<at::Tensor> parameters, const ProcessGroup&, std::int64_t bucket_bytes = 1 << 20);
  ~GradientAverager();
  GradientAverager(const GradientAverager&) = delete;
  GradientAverager& operator=(const GradientAverager&) = delete;

  // Call begin() before and finish() after one backward(). finish() waits until every parameter's grad is the mean over
  // the ranks. A gradient that is missing on some ranks counts as zero there; one that is missing on all ranks stays
  // missing. Gradients accumulated before begin() are included. All three throw PEER, backward() through the hooks.
  void begin();
  void finish();
  std::int64_t bytes_per_step() const noexcept;  // that one rank contributes to the sums

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace rotary_torch
