// AddressSanitizer, if the emulator is compiled with it.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define GPU_EMULATOR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GPU_EMULATOR_ASAN 1
#endif
#endif
#ifdef GPU_EMULATOR_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace gpu_emulator {

inline void poison([[maybe_unused]] const void* p, [[maybe_unused]] std::size_t bytes) {
#ifdef GPU_EMULATOR_ASAN
  __asan_poison_memory_region(p, bytes);
#endif
}

inline void unpoison([[maybe_unused]] const void* p, [[maybe_unused]] std::size_t bytes) {
#ifdef GPU_EMULATOR_ASAN
  __asan_unpoison_memory_region(p, bytes);
#endif
}

}  // namespace gpu_emulator
