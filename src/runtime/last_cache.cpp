#include "last_cache.h"

#include <algorithm>
#include <cstdio>

namespace rotary::detail {
namespace {

// The largest cache of processor 0, from Linux's /sys; sysconf adds up the caches of the whole socket.
std::size_t found_last_cache() noexcept {
  std::size_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    char path[64];
    std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", index);
    std::FILE* file = std::fopen(path, "r");
    if (file == nullptr) break;
    unsigned long kib = 0;
    char unit = 0;
    if (std::fscanf(file, "%lu%c", &kib, &unit) == 2 && unit == 'K')
      largest = std::max<std::size_t>(largest, kib << 10);
    std::fclose(file);
  }
  return largest > 0 ? largest : std::size_t{32} << 20;
}

}  // namespace

std::size_t last_cache_bytes() noexcept {
  static const std::size_t bytes = found_last_cache();
  return bytes;
}

}  // namespace rotary::detail
