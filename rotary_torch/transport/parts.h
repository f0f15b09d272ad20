// The parts of ProcessGroup::world(), for parallel.cpp, mpi.cpp, nccl.cpp and their tests.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "rotary_torch/transport/parallel.h"

namespace rotary_torch::parallel {

extern std::atomic<bool> interrupted;  // set by ProcessGroup::interrupt()

// The number of processes that the launcher started, from the environment of mpirun (Open MPI's and others') or srun.
// Throws MPI for srun without PMIx, where the tasks cannot find each other.
int launched_processes();

// The world of MPI, which must have `processes` ranks. Throws MPI.
const ProcessGroup& mpi_world(int processes);

// The stream of a device that NCCL uses, other than the one that computes. One object is used by one thread at a time.
class SideStream {
 public:
  virtual ~SideStream() = default;
  // Makes the side stream wait for all work enqueued so far on the current stream. Returns the side stream's native
  // handle.
  virtual void* after_current() = 0;
  // Tells whether all work enqueued on the side stream before the mark is done.
  class Mark {
   public:
    virtual ~Mark() = default;
    virtual bool done() = 0;
  };
  virtual std::unique_ptr<Mark> mark() = 0;
};
std::unique_ptr<SideStream> side_stream(at::Device device);  // by torch's own streams and events

// NCCL among the ranks of host, which broadcasts the communicator's id and must outlive the group. Throws NCCL.
std::unique_ptr<ProcessGroup> nccl_group(const ProcessGroup& host, at::Device device, std::unique_ptr<SideStream>,
                                         const std::string& library = "libnccl.so.2");

}  // namespace rotary_torch::parallel
