#include "runtime/arithmetic.h"

#include "last_cache.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace rotary::detail {
namespace {

// One value that Linux reports for a cache of processor 0; "" if it reports none.
struct Word {
  Word(int index, const char* name) noexcept {
    char path[80];
    std::snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    std::FILE* file = std::fopen(path, "r");
    if (file == nullptr) return;
    if (std::fscanf(file, "%31s", text) != 1) text[0] = 0;
    std::fclose(file);
  }
  char text[32] = {};
};

// From /sys: sysconf counts the caches of a whole socket.
DataCaches found_caches() noexcept {
  DataCaches bytes{};
  for (int index = 0; index < 8; ++index) {
    unsigned level = 0;
    unsigned long kib = 0;
    char unit = 0;
    const bool known = std::sscanf(Word(index, "size").text, "%lu%c", &kib, &unit) == 2 && unit == 'K' &&
                       std::sscanf(Word(index, "level").text, "%u", &level) == 1;
    const bool of_data = std::strcmp(Word(index, "type").text, "Instruction") != 0;
    if (known && of_data && level >= 1 && level <= bytes.size()) bytes[level - 1] = std::size_t{kib} << 10;
  }
  return bytes;
}

}  // namespace

const DataCaches& data_caches() noexcept {
  static const DataCaches bytes = found_caches();
  return bytes;
}

std::size_t last_cache_bytes() noexcept {
  static const std::size_t largest = *std::max_element(data_caches().begin(), data_caches().end());
  return largest > 0 ? largest : std::size_t{32} << 20;
}

}  // namespace rotary::detail
