// What a test asks of the emulated CUDA runtime (cuda_runtime.h beside this), on which the library's .cu files run
// where they are compiled by a C++ compiler. Every call of the runtime has done its work when it returns (but see
// set_deferred); the blocks of a grid run one after the other; the threads of a block take turns where they wait for
// each other.
//
// Not modelled: concurrency between blocks or streams, dynamic shared memory, more than one device.
//
// Ends the process with a sentence on stderr where threads of a block wait for others that have ended or wait
// elsewhere. The host faults where it touches the device's memory.
#pragma once

#include <cstdint>

namespace gpu_emulator {

struct Counts {               // of calls that succeeded
  std::int64_t launches = 0;  // of kernels, recorded ones included; of a graph's, each replay
  std::int64_t graph_launches = 0;
  std::int64_t allocations = 0;  // cudaMalloc
  std::int64_t frees = 0;
  std::int64_t copies = 0;            // and sets
  std::int64_t synchronisations = 0;  // of the device, a stream, an event; by cudaMemcpy and cudaMemset
};
Counts counts();
void reset_counts();

// In which order the blocks of a grid and the threads of a block begin, and go on behind where they met. Race-free
// kernels give the same in every order.
enum class Order : std::uint8_t { forward, backward, shuffled };
void set_order(Order, std::uint64_t seed = 1);

// Work waits until somebody waits for it (or for other work), or for an allocation to be freed: as late as on a device.
// Shows what reads a result too early, or lets go too early of what a call reads.
void set_deferred(bool);

}  // namespace gpu_emulator
