#include "gpu_measure.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "gpu/host/memory.h"

namespace rotary::gpu {

using namespace rotary::detail;

namespace {

constexpr double sample_seconds = 400e-6;  // at least, per measurement: events resolve half a microsecond
constexpr int max_calls = 1024;            // per measurement
constexpr SampleLimits limits{.least = 7, .least_slow = 7, .most = 501};

class Event {
 public:
  Event() { check_cuda(cudaEventCreate(&event_), "event"); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(Stream stream) { check_cuda(cudaEventRecord(event_, stream), "event"); }
  double seconds_since(const Event& begin) {
    float milliseconds = 0;
    check_cuda(cudaEventSynchronize(event_), "event");
    check_cuda(cudaEventElapsedTime(&milliseconds, begin.event_, event_), "event");
    return 1e-3 * static_cast<double>(milliseconds);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

// Enqueues calls in a row. Each call uses the set after that of the call before.
class Calls {
 public:
  explicit Calls(const CallSets& sets) : sets_(&sets) {}
  void operator()(int count) {
    for (int i = 0; i < count; ++i) {
      (*sets_)[next_]();
      next_ = (next_ + 1) % sets_->size();
    }
  }
  int sets() const { return static_cast<int>(sets_->size()); }

 private:
  const CallSets* sets_;
  std::size_t next_ = 0;
};

// A graph of so many calls.
class Graph {
 public:
  Graph(Calls& calls, int count, Stream stream) {
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    try {
      calls(count);
    } catch (...) {
      cudaGraph_t broken = nullptr;
      if (cudaStreamEndCapture(stream, &broken) == cudaSuccess && broken != nullptr) cudaGraphDestroy(broken);
      throw;
    }
    cudaGraph_t graph = nullptr;
    check_cuda(cudaStreamEndCapture(stream, &graph), "capture");
    const int error = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(error, "graph");
  }
  ~Graph() { cudaGraphExecDestroy(executable_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void replay(Stream stream) const { check_cuda(cudaGraphLaunch(executable_, stream), "graph"); }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

// Measures what run() enqueues on a stream.
class Clock {
 public:
  explicit Clock(Stream stream) : stream_(stream) {}
  template <class Run>
  double seconds(const Run& run) {
    begin_.record(stream_);
    run();
    end_.record(stream_);
    return end_.seconds_since(begin_);
  }
  // The number of calls per measurement, a multiple of the number of sets. Also warms up.
  int calls_of_sample(Calls& calls) {
    calls(calls.sets());
    for (int count = calls.sets();; count *= 2) {
      const double took = seconds([&] { calls(count); });
      if (took >= sample_seconds || 2 * count > std::max(max_calls, calls.sets())) return count;
    }
  }

 private:
  Stream stream_;
  Event begin_, end_;
};

}  // namespace

Memory::Memory(std::size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  Block block = allocate(bytes, "memory");
  data_ = {static_cast<std::byte*>(block.release()), [](std::byte* memory) { Free()(memory); }};
}

std::size_t free_memory() {
  std::size_t free = 0, all = 0;
  check_cuda(cudaMemGetInfo(&free, &all), "memory");
  return free;
}

std::size_t cache_bytes() {
  int device = 0, bytes = 0;
  check_cuda(cudaGetDevice(&device), "device");
  check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, device), "device");
  return static_cast<std::size_t>(bytes);
}

void upload(void* device, const void* host, std::size_t bytes, Stream stream) {
  check_cuda(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream), "upload");
  check_cuda(cudaStreamSynchronize(stream), "upload");
}
void download(void* host, const void* device, std::size_t bytes, Stream stream) {
  check_cuda(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream), "download");
  check_cuda(cudaStreamSynchronize(stream), "download");
}
void fill(void* device, int byte, std::size_t bytes, Stream stream) {
  check_cuda(cudaMemsetAsync(device, byte, bytes, stream), "fill");
}
void copy(const void* in, void* out, std::size_t bytes, Stream stream) {
  check_cuda(cudaMemcpyAsync(out, in, bytes, cudaMemcpyDeviceToDevice, stream), "copy");
}

OwnStream::OwnStream() { check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream"); }
OwnStream::~OwnStream() { cudaStreamDestroy(stream_); }

Medians times(const std::vector<CallSets>& works, double seconds, Stream stream, bool replayed) {
  Clock clock(stream);
  std::vector<Calls> calls(works.begin(), works.end());
  std::vector<int> counts;
  std::vector<std::unique_ptr<const Graph>> graphs;
  for (Calls& each : calls) {
    counts.push_back(clock.calls_of_sample(each));
    if (!replayed) continue;
    graphs.push_back(std::make_unique<const Graph>(each, counts.back(), stream));
    graphs.back()->replay(stream);
  }
  return medians_in_turn(works.size(), seconds, limits, [&](std::size_t i) {
    return clock.seconds([&] { replayed ? graphs[i]->replay(stream) : calls[i](counts[i]); }) / counts[i];
  });
}

}  // namespace rotary::gpu
