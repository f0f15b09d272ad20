// The tests' interface to the emulated CUDA runtime (cuda_runtime.h in this folder), which runs the library's .cu files
// compiled by a C++ compiler. Every call of the runtime has done its work when it returns (but see set_deferred). The
// blocks of a grid run one after the other; the threads of a block switch only where they wait for each other.
//
// Device 0 has compute capability 9.0, device 1 has 8.0; they share their memory and streams. Not modelled: concurrency
// between blocks or streams, dynamic shared memory.
//
// Ends the process with a sentence on stderr if threads of a block wait for others that have ended or wait elsewhere,
// or if a kernel is launched to overlap earlier ones and not each of its threads waits for them once. An access of the
// host to the device's memory faults, and so does one of such a kernel before a thread of it waits.
#pragma once

#include <cstdint>

namespace gpu_emulator {

struct Counts {                  // calls that succeeded
  std::int64_t launches = 0;     // kernels, also in captures; those of a graph count once per replay
  std::int64_t overlapped = 0;   // the launches that overlap earlier ones
  std::int64_t queries = 0;      // cudaFuncGetAttributes
  std::int64_t allocations = 0;  // cudaMalloc
  std::int64_t frees = 0;
  std::int64_t copies = 0;
  std::int64_t synchronisations = 0;  // with the device or a stream; by cudaMemcpy
};
Counts counts();
void reset_counts();

// The order in which the blocks of a grid and the threads of a block begin, and continue after a synchronisation. A
// kernel without races has the same results in every order.
enum class Order : std::uint8_t { forward, backward, shuffled };
void set_order(Order, std::uint64_t seed = 1);

// Defers work until the host waits for any work, or frees memory: as late as a device might. Shows code that reads a
// result too early, or frees too early what a call reads.
void set_deferred(bool);

}  // namespace gpu_emulator
