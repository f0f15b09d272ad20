// Measurements on a CUDA device, for benchmarks: memory, streams, the time of calls. Throws CUDA as gpu.h does.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "medians.h"
#include "rotary/gpu.h"

namespace rotary::gpu {

// An uninitialised block of the device's memory.
class Memory {
 public:
  explicit Memory(std::size_t bytes = 0);
  std::byte* data() const noexcept { return data_.get(); }
  std::size_t size() const noexcept { return size_; }

 private:
  std::unique_ptr<std::byte, void (*)(std::byte*)> data_{nullptr, nullptr};
  std::size_t size_ = 0;
};

std::size_t free_memory();  // of the device, in bytes
std::size_t cache_bytes();  // its last cache

// Copies from and to the host's memory; both wait for the stream.
void upload(void* device, const void* host, std::size_t bytes, Stream);
void download(void* host, const void* device, std::size_t bytes, Stream);
// Enqueued on the stream.
void fill(void* device, int byte, std::size_t bytes, Stream);
void copy(const void* in, void* out, std::size_t bytes, Stream);  // by the runtime's own copy
// By a kernel, 16 bytes at a time: addresses and bytes are multiples of 16. in == out updates the same bytes; otherwise
// they do not overlap.
void move_bytes(const void* in, void* out, std::size_t bytes, Stream);

// A stream that does not wait for other streams.
class OwnStream {
 public:
  OwnStream();
  ~OwnStream();
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;
  Stream get() const noexcept { return stream_; }

 private:
  Stream stream_ = nullptr;
};

// Calls that enqueue the same work on one or more sets of memory. They are used in turn, so that no call finds its
// inputs in a cache that an earlier one filled.
using CallSets = std::vector<std::function<void()>>;

// Seconds of one call of each of the works, which are sampled in turn, for about `seconds` in all. Each has a set at
// least, and enqueues on the stream. By CUDA events around many calls enqueued one by one: the time per call of a
// caller who keeps the device busy or, for short calls, the time to enqueue one. replayed: around the replay of a graph
// that holds them, the time of the device alone.
rotary::detail::Medians times(const std::vector<CallSets>&, double seconds, Stream, bool replayed = false);

}  // namespace rotary::gpu
