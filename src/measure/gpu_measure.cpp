#include "gpu_measure.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "gpu/kernels/kernels.h"
#include "rotate/refuse.h"

namespace rotary::gpu {

namespace {

constexpr double sample_seconds = 400e-6;  // at least, per measurement: events resolve half a microsecond
constexpr int max_calls = 1024;            // per measurement
constexpr rotary::detail::SampleLimits limits{.least = 7, .least_slow = 7, .most = 501};

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

// Calls a work several times in a row. Each call uses the set after that of the call before.
class Calls {
 public:
  explicit Calls(const Work& work) : work_(&work) {}
  void operator()(int count, Stream stream) {
    for (int i = 0; i < count; ++i) {
      (*work_)[next_](stream);
      next_ = (next_ + 1) % work_->size();
    }
  }
  int sets() const { return static_cast<int>(work_->size()); }

 private:
  const Work* work_;
  std::size_t next_ = 0;
};

class Graph {
 public:
  Graph(Calls& calls, int count, Stream stream) : count_(count) {
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
    try {
      calls(count, stream);
    } catch (...) {
      cudaGraph_t broken = nullptr;
      if (cudaStreamEndCapture(stream, &broken) == cudaSuccess && broken != nullptr) cudaGraphDestroy(broken);
      throw;
    }
    check_cuda(cudaStreamEndCapture(stream, &graph_), "capture");
    if (const int error = cudaGraphInstantiate(&executable_, graph_, 0); error != cudaSuccess) {
      cudaGraphDestroy(graph_);
      check_cuda(error, "graph");
    }
  }
  ~Graph() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Graph(Graph&& other) noexcept
      : count_(other.count_),
        graph_(std::exchange(other.graph_, nullptr)),
        executable_(std::exchange(other.executable_, nullptr)) {}
  Graph& operator=(Graph&&) = delete;
  void replay(Stream stream) const { check_cuda(cudaGraphLaunch(executable_, stream), "graph"); }
  int count() const { return count_; }

 private:
  int count_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

// The seconds, by events, of the work that run() enqueues.
template <class Run>
double timed(Event& begin, Event& end, Stream stream, const Run& run) {
  begin.record(stream);
  run();
  end.record(stream);
  return end.seconds_since(begin);
}

// The number of calls per measurement, a multiple of the number of sets. Also warms up.
int calls_of_sample(Calls& calls, Event& begin, Event& end, Stream stream) {
  calls(calls.sets(), stream);
  for (int count = calls.sets();; count *= 2) {
    const double seconds = timed(begin, end, stream, [&] { calls(count, stream); });
    if (seconds >= sample_seconds || 2 * count > std::max(max_calls, calls.sets())) return count;
  }
}

void check_sets(const char* operation, const std::vector<Work>& works) {
  const auto none = std::find_if(works.begin(), works.end(), [](const Work& work) { return work.empty(); });
  if (none == works.end()) return;
  fail(Code::SHAPE, operation,
       "each work must have a set of memory but work " + std::to_string(none - works.begin()) + " has none");
}

}  // namespace

Memory::Memory(std::size_t bytes) : size_(bytes) {
  void* memory = nullptr;
  if (bytes > 0) check_cuda(cudaMalloc(&memory, bytes), "memory");
  data_ = static_cast<std::byte*>(memory);
}
Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
Memory& Memory::operator=(Memory&& other) noexcept {
  Memory taken(std::move(other));
  std::swap(data_, taken.data_);
  std::swap(size_, taken.size_);
  return *this;
}
Memory::~Memory() {
  if (data_ != nullptr) cudaFree(data_);
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

Times event_times(const std::vector<Work>& works, double seconds, Stream stream) {
  check_sets("event_times", works);
  Event begin, end;
  std::vector<Calls> calls(works.begin(), works.end());
  std::vector<int> counts;
  for (Calls& each : calls) counts.push_back(calls_of_sample(each, begin, end, stream));
  return rotary::detail::medians_in_turn(works.size(), seconds, limits, [&](std::size_t i) {
    return timed(begin, end, stream, [&] { calls[i](counts[i], stream); }) / counts[i];
  });
}

Times graph_times(const std::vector<Work>& works, double seconds, Stream stream) {
  check_sets("graph_times", works);
  Event begin, end;
  std::vector<Graph> graphs;
  for (const Work& work : works) {
    Calls calls(work);
    graphs.emplace_back(calls, calls_of_sample(calls, begin, end, stream), stream);
    graphs.back().replay(stream);
  }
  return rotary::detail::medians_in_turn(works.size(), seconds, limits, [&](std::size_t i) {
    return timed(begin, end, stream, [&] { graphs[i].replay(stream); }) / graphs[i].count();
  });
}

}  // namespace rotary::gpu
