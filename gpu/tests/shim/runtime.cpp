// The queue of work, and the emulated runtime's calls about errors, the device and its memory.
#include "runtime.h"

#include <cstring>
#include <memory>
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

cudaError_t launch(const cudaLaunchConfig_t& config, std::function<void()> thread) {
  const Locked locked;
  if (!launchable(config)) return report(cudaErrorInvalidConfiguration);
  const cudaError_t error =
      enqueue(config.stream, [grid = config.gridDim, block = config.blockDim, thread = std::move(thread)] {
        ++runtime().counts.launches;
        run_grid(grid, block, thread);
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
  *count = 1;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  *properties = {"CPU emulator", 9, 0};
  return report(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
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
