// Measuring on a CUDA device, for benchmarks: its memory, a stream of one's own, the time of work on it. Throws CUDA as
// gpu.h does.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "medians.h"
#include "rotary/gpu.h"

namespace rotary::gpu {

// A block of the device's memory. What it holds at first is not defined.
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes);
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&& other) noexcept;
  ~Memory();
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

std::size_t free_memory();  // of the device, in bytes
std::size_t cache_bytes();  // its last cache

// From and to the host's memory; wait for the stream.
void upload(void* device, const void* host, std::size_t bytes, Stream);
void download(void* host, const void* device, std::size_t bytes, Stream);
// Enqueued on the stream.
void fill(void* device, int byte, std::size_t bytes, Stream);
void copy(const void* in, void* out, std::size_t bytes, Stream);  // by the runtime's own copy
// By a kernel, 16 bytes at a time. in == out updates the same bytes; otherwise they must not overlap (ALIAS). Addresses
// are multiples of 16 (DTYPE), and so is bytes (SHAPE).
void move_bytes(const void* in, void* out, std::size_t bytes, Stream);

// A stream that waits for no other.
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

// The same work on one or more sets of memory, used in turn, so that no call finds its inputs in a cache that an
// earlier call of the same work filled. Each enqueues its calls on the stream. Without a set: throws SHAPE.
using Work = std::vector<std::function<void(Stream)>>;

using Times = rotary::detail::Medians;  // of one call of each work
// By CUDA events around many calls enqueued one by one: the time of a caller who keeps the device busy; of short calls,
// the time to enqueue them. The works are sampled in turn, for about `seconds` in all.
Times event_times(const std::vector<Work>&, double seconds, Stream);
// By CUDA events around the replay of a graph that holds many calls in a row: the device alone.
Times graph_times(const std::vector<Work>&, double seconds, Stream);

}  // namespace rotary::gpu
