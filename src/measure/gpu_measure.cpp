#include "gpu_measure.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>

#include "gpu/host/memory.h"

namespace rotary::gpu {

using namespace rotary::detail;

namespace {

constexpr double sample_seconds = 400e-6;  // at least, per measurement: events resolve half a microsecond
constexpr int max_calls = 1024;            // per measurement
constexpr SampleLimits limits{.least = 7, .least_slow = 7, .most = 501};

// Calls in a row on a stream, one by one or replayed from a graph. Each call uses the set after that of the call
// before.
class Sampled {
 public:
  Sampled(const CallSets& sets, Stream stream, bool replayed)
      : sets_(&sets), stream_(stream), count_(static_cast<int>(sets.size())) {
    check_cuda(cudaEventCreate(&begin_), "event");
    check_cuda(cudaEventCreate(&end_), "event");
    const int most = std::max(max_calls, count_);
    call();  // warms up
    while (seconds() * count_ < sample_seconds && 2 * count_ <= most) count_ *= 2;
    if (replayed) capture();
  }
  ~Sampled() {
    if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
    cudaEventDestroy(begin_);
    cudaEventDestroy(end_);
  }
  Sampled(const Sampled&) = delete;
  Sampled& operator=(const Sampled&) = delete;

  // Of one call.
  double seconds() {
    check_cuda(cudaEventRecord(begin_, stream_), "event");
    run();
    check_cuda(cudaEventRecord(end_, stream_), "event");
    float milliseconds = 0;
    check_cuda(cudaEventSynchronize(end_), "event");
    check_cuda(cudaEventElapsedTime(&milliseconds, begin_, end_), "event");
    return 1e-3 * static_cast<double>(milliseconds) / count_;
  }

 private:
  void call() {
    for (int i = 0; i < count_; ++i) {
      (*sets_)[next_]();
      next_ = (next_ + 1) % sets_->size();
    }
  }
  void run() { graph_ == nullptr ? call() : check_cuda(cudaGraphLaunch(graph_, stream_), "graph"); }

  void capture() {
    check_cuda(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
    cudaGraph_t graph = nullptr;
    try {
      call();
    } catch (...) {
      if (cudaStreamEndCapture(stream_, &graph) == cudaSuccess && graph != nullptr) cudaGraphDestroy(graph);
      throw;
    }
    check_cuda(cudaStreamEndCapture(stream_, &graph), "capture");
    const int error = cudaGraphInstantiate(&graph_, graph, 0);
    cudaGraphDestroy(graph);
    check_cuda(error, "graph");
    run();
  }

  const CallSets* sets_;
  Stream stream_;
  int count_;
  std::size_t next_ = 0;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  cudaGraphExec_t graph_ = nullptr;
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
  std::vector<std::unique_ptr<Sampled>> sampled;
  for (const CallSets& sets : works) sampled.push_back(std::make_unique<Sampled>(sets, stream, replayed));
  return medians_in_turn(works.size(), seconds, limits, [&](std::size_t i) { return sampled[i]->seconds(); });
}

}  // namespace rotary::gpu
