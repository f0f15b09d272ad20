// The queue of work, and the emulated runtime's calls about memory.
#include "runtime.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "grid.h"

namespace gpu_emulator {

Runtime& runtime() {
  static Runtime r;
  return r;
}

bool known(cudaStream_t stream) { return !stream || runtime().streams.count(stream); }
bool capturing(cudaStream_t stream) { return stream && stream->status != cudaStreamCaptureStatusNone; }

cudaError_t forbidden() {
  cudaError_t error = cudaSuccess;
  for (CUstream_st* s : runtime().streams) {
    const bool concerned = s->mode == cudaStreamCaptureModeGlobal ||
                           (s->mode == cudaStreamCaptureModeThreadLocal && s->capturer == std::this_thread::get_id());
    if (!capturing(s) || !concerned) continue;
    s->status = cudaStreamCaptureStatusInvalidated;
    error = cudaErrorStreamCaptureUnsupported;
  }
  return error;
}

cudaError_t implicit() {
  cudaError_t error = cudaSuccess;
  for (CUstream_st* s : runtime().streams) {
    if (!capturing(s) || s->mode == cudaStreamCaptureModeRelaxed || (s->flags & cudaStreamNonBlocking)) continue;
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
  if (!known(stream)) return cudaErrorInvalidResourceHandle;
  if (!stream)
    if (const cudaError_t error = implicit()) return error;
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
  if (config.dynamicSmemBytes || config.numAttrs) return report(cudaErrorNotSupported);
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

bool pinned(const void* p) {
  const auto* from = static_cast<const std::byte*>(p);
  auto found = runtime().pinned.upper_bound(from);
  return found != runtime().pinned.begin() && from < (--found)->first + found->second;
}

bool on_device(const void* p, std::size_t bytes) { return runtime().memory.holds(p, bytes); }
bool on_host(const void* p, std::size_t bytes) { return runtime().memory.avoids(p, bytes); }

cudaError_t check_copy(const void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  if (bytes == 0) return cudaSuccess;
  if (!to || !from) return cudaErrorInvalidValue;
  if (kind == cudaMemcpyDefault) {
    const bool valid = (on_device(to, bytes) || on_host(to, bytes)) && (on_device(from, bytes) || on_host(from, bytes));
    return valid ? cudaSuccess : cudaErrorInvalidValue;
  }
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool valid = (to_device ? on_device(to, bytes) : on_host(to, bytes)) &&
                     (from_device ? on_device(from, bytes) : on_host(from, bytes));
  return valid ? cudaSuccess : cudaErrorInvalidValue;
}

// As with a device, pageable host memory has been read or written when the call returns; a graph reads it later.
cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (const cudaError_t error = check_copy(to, from, bytes, kind)) return error;
  const bool staged = runtime().defers && !capturing(stream) && on_host(from, bytes) && !pinned(from);
  std::vector<std::byte> stage;
  if (staged && bytes) stage.assign(static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + bytes);
  const cudaError_t error = enqueue(stream, [to, from, bytes, staged, stage = std::move(stage)] {
    if (bytes) std::memmove(to, staged ? stage.data() : from, bytes);
  });
  if (error != cudaSuccess) return error;
  if (!capturing(stream) && on_host(to, bytes) && !pinned(to)) flush();
  ++runtime().counts.copies;
  return cudaSuccess;
}

cudaError_t set(void* p, int byte, std::size_t bytes, cudaStream_t stream) {
  if (bytes && !on_device(p, bytes)) return cudaErrorInvalidValue;
  const cudaError_t error = enqueue(stream, [p, byte, bytes] {
    if (bytes) std::memset(p, byte, bytes);
  });
  if (error == cudaSuccess) ++runtime().counts.copies;
  return error;
}

}  // namespace

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

cudaError_t cudaMallocHost(void** p, std::size_t bytes, unsigned) {
  const Locked locked;
  if (const cudaError_t error = forbidden()) return report(error);
  *p = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (posix_memalign(p, 256, bytes) != 0) return report(cudaErrorMemoryAllocation);
  runtime().pinned[static_cast<const std::byte*>(*p)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* p) {
  const Locked locked;
  if (const cudaError_t error = forbidden()) return report(error);
  flush();
  if (p && !runtime().pinned.erase(static_cast<const std::byte*>(p))) return report(cudaErrorInvalidValue);
  std::free(p);
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const Locked locked;
  *free = runtime().memory.free();
  *total = DeviceMemory::total;
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

cudaError_t cudaMemset(void* p, int byte, std::size_t bytes) {
  const Locked locked;
  if (const cudaError_t error = forbidden()) return report(error);
  if (const cudaError_t error = set(p, byte, bytes, nullptr)) return report(error);
  return synchronise();
}

cudaError_t cudaMemsetAsync(void* p, int byte, std::size_t bytes, cudaStream_t stream) {
  const Locked locked;
  return report(set(p, byte, bytes, stream));
}
