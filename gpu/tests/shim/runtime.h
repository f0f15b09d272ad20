// The state of the emulated runtime, and functions that its calls share.
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "cuda_runtime.h"
#include "device_memory.h"
#include "emulator.h"

using Work = std::function<void()>;

struct CUgraph_st {
  std::vector<Work> nodes;
};
struct CUgraphExec_st {
  std::vector<Work> nodes;
};
struct CUstream_st {
  unsigned flags = 0;
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id capturer;
  CUgraph_st graph;
};

namespace gpu_emulator {

struct Runtime {
  std::recursive_mutex lock;
  Counts counts;
  DeviceMemory memory;
  std::set<CUstream_st*> streams;
  std::int64_t waits = 0;      // threads of the running kernel that have waited for earlier kernels
  bool overlaps = false;       // whether the running kernel was launched to overlap these
  std::vector<Work> deferred;  // enqueued on any stream and not begun
  bool defers = false;
};
Runtime& runtime();

class Locked {
 private:
  std::lock_guard<std::recursive_mutex> guard_{runtime().lock};
};

cudaError_t report(cudaError_t);  // sets the thread's last error and returns it
bool capturing(cudaStream_t);
// The error of a call that no graph can hold, made while a capture is under way. The call ends the capture.
cudaError_t forbidden();
// The error of using this stream: it does not exist, or it is the legacy default stream while a blocking stream is
// capturing. The default stream waits for every blocking stream, so its use ends the capture.
cudaError_t usable(cudaStream_t);

// Runs the work, defers it, or records it if the stream is capturing.
cudaError_t enqueue(cudaStream_t, Work);
void flush();               // runs deferred work
cudaError_t synchronise();  // flushes, and counts

// Runs the body once for each thread. The grid must be within the device's limits.
void run_grid(dim3 grid, dim3 block, const std::function<void()>& body);

}  // namespace gpu_emulator
