// The parts of ProcessGroup::world(), for parallel.cpp, mpi.cpp, nccl.cpp and their tests.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "rotary_torch/transport/parallel.h"

namespace rotary_torch::parallel {

extern std::atomic<bool> interrupted;  // set by ProcessGroup::interrupt()

// How many processes a launcher says that it has started with this one: from the environment of mpirun (Open MPI's and
// others') and srun. Throws MPI for srun without PMIx, which leaves the tasks no way to find each other.
int launched_processes();

// The world of MPI, which must have this many ranks. Throws MPI.
const ProcessGroup& mpi_world(int processes);

// What NCCL needs of a device: a stream other than the one that computes. One object is used by one thread at a time.
class SideStream {
 public:
  virtual ~SideStream() = default;
  // Makes the side stream wait for all that the current stream has been given by now; its native handle.
  virtual void* after_current() = 0;
  // A question: has all that the side stream has been given by now been done?
  class Mark {
   public:
    virtual ~Mark() = default;
    virtual bool done() = 0;
  };
  virtual std::unique_ptr<Mark> mark() = 0;
};
std::unique_ptr<SideStream> side_stream(at::Device device);  // by torch's own streams and events

// NCCL among the ranks of host, which spreads the communicator's id and stays alive. Throws NCCL.
std::unique_ptr<ProcessGroup> nccl_group(const ProcessGroup& host, at::Device device, std::unique_ptr<SideStream>,
                                         const std::string& library = "libnccl.so.2");

}  // namespace rotary_torch::parallel
