// The queue of work, and the emulated runtime's calls about errors, the device and its memory.
#include "runtime.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

namespace gpu_emulator {

Runtime& runtime() {
  static Runtime r;
  return r;
}

bool capturing(cudaStream_t stream) { return stream && stream->status != cudaStreamCaptureStatusNone; }

cudaError_t forbidden() {
  cudaError_t error = cudaSuccess;
  for (CUstream_st* s : runtime().streams) {
    const bool concerned = s->mode == cudaStreamCaptureModeGlobal || s->capturer == std::this_thread::get_id();
    if (!capturing(s) || !concerned) continue;
    s->status = cudaStreamCaptureStatusInvalidated;
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

cudaError_t usable(cudaStream_t stream) {
  if (stream) return runtime().streams.count(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle;
  cudaError_t error = cudaSuccess;
  for (CUstream_st* s : runtime().streams) {
    if (!capturing(s) || (s->flags & cudaStreamNonBlocking)) continue;
    s->status = cudaStreamCaptureStatusInvalidated;
    error = cudaErrorStreamCaptureImplicit;
  }
  return error;
}

void flush() {
  if (runtime().deferred.empty()) return;
  const DeviceMemory::Open open(runtime().memory);
  for (const Work& work : std::exchange(runtime().deferred, {})) work();
}

cudaError_t synchronise() {
  flush();
  ++runtime().counts.synchronisations;
  return cudaSuccess;
}

cudaError_t enqueue(cudaStream_t stream, Work work) {
  if (const cudaError_t error = usable(stream)) return error;
  if (!capturing(stream)) {
    runtime().deferred.push_back(std::move(work));
    if (!runtime().defers) flush();
    return cudaSuccess;
  }
  if (stream->status == cudaStreamCaptureStatusInvalidated) return cudaErrorStreamCaptureInvalidated;
  stream->graph.nodes.push_back(std::move(work));
  return cudaSuccess;
}

Counts counts() {
  const Locked locked;
  return runtime().counts;
}

void reset_counts() {
  const Locked locked;
  runtime().counts = {};
}

void set_deferred(bool deferred) {
  const Locked locked;
  if (!deferred) flush();
  runtime().defers = deferred;
}

namespace {

bool launchable(const cudaLaunchConfig_t& c) {
  const dim3 g = c.gridDim, b = c.blockDim;
  return g.x > 0 && g.y > 0 && g.z > 0 && b.x > 0 && b.y > 0 && b.z > 0 && g.x <= 0x7fffffff && g.y <= 65535 &&
         g.z <= 65535 && b.x <= 1024 && b.y <= 1024 && b.z <= 64 && b.x * b.y * b.z <= 1024;
}

}  // namespace

void wait_for_kernels() {
  if (runtime().waits++ == 0 && runtime().overlaps) runtime().memory.protect(true);
}

cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> thread) {
  const Locked locked;
  if (!launchable(config)) return report(cudaErrorInvalidConfiguration);
  bool overlaps = false;
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config.attrs[i];
    if (attribute.id != cudaLaunchAttributeProgrammaticStreamSerialization) return report(cudaErrorInvalidValue);
    overlaps = attribute.val.programmaticStreamSerializationAllowed != 0;
  }
  const cudaError_t error =
      enqueue(config.stream, [grid = config.gridDim, block = config.blockDim, overlaps, thread = std::move(thread)] {
        Runtime& r = runtime();
        ++r.counts.launches;
        r.counts.overlapped += overlaps;
        r.waits = 0;
        r.overlaps = overlaps;
        if (overlaps) r.memory.protect(false);
        run_grid(grid, block, thread);
        const auto threads = std::int64_t{grid.x} * grid.y * grid.z * block.x * block.y * block.z;
        if (!overlaps || r.waits == threads) return;
        std::fprintf(stderr, "[gpu emulator] a kernel overlaps earlier ones, and %lld waits of %lld threads\n",
                     static_cast<long long>(r.waits), static_cast<long long>(threads));
        std::abort();
      });
  return report(error);
}

}  // namespace gpu_emulator

using namespace gpu_emulator;  // NOLINT: these are its calls

namespace {

bool on_device(const void* p, std::size_t bytes) { return runtime().memory.holds(p, bytes); }
bool on_host(const void* p, std::size_t bytes) { return runtime().memory.avoids(p, bytes); }

// As with a device, host memory has been read or written when the call returns; a graph reads it later.
cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const bool from_host = kind == cudaMemcpyHostToDevice, to_host = kind == cudaMemcpyDeviceToHost;
  if (bytes > 0 && !((from_host ? on_host(from, bytes) : on_device(from, bytes)) &&
                     (to_host ? on_host(to, bytes) : on_device(to, bytes)))) {
    return cudaErrorInvalidValue;
  }
  const bool staged = runtime().defers && !capturing(stream) && from_host;
  std::vector<std::byte> stage;
  if (staged && bytes) stage.assign(static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + bytes);
  const cudaError_t error = enqueue(stream, [to, from, bytes, staged, stage = std::move(stage)] {
    if (bytes) std::memmove(to, staged ? stage.data() : from, bytes);
  });
  if (error != cudaSuccess) return error;
  if (!capturing(stream) && to_host) flush();
  ++runtime().counts.copies;
  return cudaSuccess;
}

constexpr int devices = 2;
constexpr int capability[devices] = {90, 80};
thread_local int current_device = 0;

thread_local cudaError_t last_error = cudaSuccess;

}  // namespace

// ---- errors, the device --------------------------------------------------------------------------

cudaError_t gpu_emulator::report(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

const char* cudaGetErrorString(cudaError_t error) {
  thread_local std::string text;
  text = "CUDA error " + std::to_string(error);
  return text.c_str();
}
cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = devices;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = current_device;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (device < 0 || device >= devices) return report(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (device < 0 || device >= devices) return report(cudaErrorInvalidDevice);
  *properties = {"CPU emulator", capability[device] / 10, capability[device] % 10};
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel) {
  const Locked locked;
  if (!kernel) return report(cudaErrorInvalidValue);
  ++runtime().counts.queries;
  *attributes = {capability[current_device]};
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  const Locked locked;
  if (const cudaError_t error = forbidden()) return report(error);
  return synchronise();
}

// ---- memory --------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  const Locked locked;
  if (!p) return report(cudaErrorInvalidValue);
  if (const cudaError_t error = forbidden()) return report(error);
  *p = nullptr;
  if (bytes == 0) return cudaSuccess;
  *p = runtime().memory.allocate(bytes);
  if (!*p) return report(cudaErrorMemoryAllocation);
  ++runtime().counts.allocations;
  return cudaSuccess;
}

cudaError_t cudaFree(void* p) {
  const Locked locked;
  if (const cudaError_t error = forbidden()) return report(error);
  if (!p) return cudaSuccess;
  flush();
  if (!runtime().memory.release(p)) return report(cudaErrorInvalidValue);
  ++runtime().counts.frees;
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const Locked locked;
  if (const cudaError_t error = forbidden()) return report(error);
  if (const cudaError_t error = copy(to, from, bytes, kind, nullptr)) return report(error);
  return synchronise();
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const Locked locked;
  return report(copy(to, from, bytes, kind, stream));
}
