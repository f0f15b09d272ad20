#include "device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sanitizer.h"

namespace gpu_emulator {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t alignment = 256;
constexpr std::size_t reserved = 2 * DeviceMemory::total;  // addresses: chunks have gaps

std::size_t up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }
// The bytes of an allocation with a gap after it.
std::size_t extent(std::size_t bytes) { return up(bytes, alignment) + alignment; }

}  // namespace

DeviceMemory::DeviceMemory() {
  void* memory = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  base_ = static_cast<std::byte*>(memory);
  poison(base_, alignment);
}

DeviceMemory::~DeviceMemory() {
#ifdef GPU_EMULATOR_ASAN
  if (chunks_.empty()) return;
  std::fprintf(stderr, "[gpu emulator] %zu allocations of cudaMalloc were never freed, %zu bytes\n", chunks_.size(),
               used_);
  std::fflush(nullptr);
  std::_Exit(23);
#endif
}

void DeviceMemory::protect(bool reachable) {
  open_ += reachable ? 1 : -1;
  if (end_ == 0 || open_ != (reachable ? 1 : 0)) return;
  if (mprotect(base_, up(end_, page), reachable ? PROT_READ | PROT_WRITE : PROT_NONE) != 0) std::abort();
}

void* DeviceMemory::allocate(std::size_t bytes) {
  if (bytes > free()) return nullptr;
  std::byte* at = base_ + alignment;
  for (const auto& [chunk, size] : chunks_) {  // the first gap that is large enough
    if (at + extent(bytes) <= chunk) break;
    at = base_ + (chunk - base_) + extent(size);
  }
  if (at + extent(bytes) > base_ + reserved) return nullptr;
  chunks_[at] = bytes;
  used_ += bytes;
  end_ = std::max(end_, static_cast<std::size_t>(at - base_) + extent(bytes));
  const Open open(*this);
  unpoison(at, bytes);
  std::memset(at, 0xcd, bytes);  // marks memory that was never written
  poison(at + bytes, extent(bytes) - bytes);
  return at;
}

bool DeviceMemory::release(void* p) {
  const auto found = chunks_.find(static_cast<const std::byte*>(p));
  if (found == chunks_.end()) return false;
  poison(p, found->second);
  // Returns whole pages to the system.
  const auto first = up(reinterpret_cast<std::uintptr_t>(p), page);
  const auto last = (reinterpret_cast<std::uintptr_t>(p) + found->second) / page * page;
  if (last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
  used_ -= found->second;
  chunks_.erase(found);
  return true;
}

bool DeviceMemory::holds(const void* p, std::size_t bytes) const {
  const auto* from = static_cast<const std::byte*>(p);
  auto chunk = chunks_.upper_bound(from);
  if (chunk == chunks_.begin()) return false;
  --chunk;
  const auto offset = static_cast<std::size_t>(from - chunk->first);
  return offset <= chunk->second && bytes <= chunk->second - offset;
}

bool DeviceMemory::avoids(const void* p, std::size_t bytes) const {
  const auto* from = static_cast<const std::byte*>(p);
  return from + bytes <= base_ || from >= base_ + reserved;
}

}  // namespace gpu_emulator
