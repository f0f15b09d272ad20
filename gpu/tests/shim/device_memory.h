// The emulated device's memory, which the host can access only while the device works.
#pragma once

#include <cstddef>
#include <map>

namespace gpu_emulator {

class DeviceMemory {
 public:
  DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();  // under AddressSanitizer, reports memory that was never freed

  static constexpr std::size_t total = std::size_t{16} << 30;
  std::size_t free() const { return total - used_; }

  // Returns memory that is aligned to 256 bytes and filled with 0xcd; null if there is not enough. AddressSanitizer
  // knows its exact end.
  void* allocate(std::size_t bytes);
  bool release(void*);                                // false: the pointer is not from allocate
  bool holds(const void*, std::size_t bytes) const;   // whether the range lies in one allocation
  bool avoids(const void*, std::size_t bytes) const;  // whether no byte of the range is device memory

  class Open {  // the memory is accessible while an object of this class exists
   public:
    explicit Open(DeviceMemory& memory) : memory_(memory) { memory_.protect(true); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    ~Open() { memory_.protect(false); }

   private:
    DeviceMemory& memory_;
  };

  void protect(bool reachable);  // accessible while this was called more often with true than with false

 private:
  std::byte* base_ = nullptr;
  std::size_t end_ = 0;                             // the end of all that was ever allocated, from base_
  std::size_t used_ = 0;                            // bytes
  std::map<const std::byte*, std::size_t> chunks_;  // the allocations, with the bytes asked for
  int open_ = 0;
};

}  // namespace gpu_emulator
