#include "rotary/ceiling.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "cpu/targets.h"
#include "float_state.h"
#include "rotary/error.h"

namespace rotary {
namespace {

constexpr std::int64_t line = 64;
constexpr std::int64_t grain = 64 * 1024 / line;  // as rotate's

struct Work {
  Traffic traffic;
  const char* in;
  char* out;
  std::int64_t bytes;
  cpu::MoveKernel kernel;
};

void move_lines(void* context, std::int64_t begin, std::int64_t end) {
  const FloatState ours;
  const Work& work = *static_cast<const Work*>(context);
  const std::int64_t last = std::min(end * line, work.bytes);
  work.kernel(work.traffic, work.in + begin * line, work.out + begin * line,
              static_cast<std::size_t>(last - begin * line));
}

// The largest cache that processor 0 sees, as Linux tells it; sysconf counts those of a whole socket.
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

void move_bytes(Traffic traffic, const void* in, void* out, std::size_t bytes, const Executor& executor) {
  const auto from = reinterpret_cast<std::uintptr_t>(in), to = reinterpret_cast<std::uintptr_t>(out);
  if (from % line != 0 || to % line != 0)
    throw Error(Code::SHAPE, "[move_bytes] in and out must be aligned to 64 bytes but lie " + std::to_string(from % line) +
                             " and " + std::to_string(to % line) + " beyond");
  const bool apart = from + bytes <= to || to + bytes <= from;
  if (traffic == Traffic::update ? from != to : !apart)
    throw Error(Code::ALIAS, std::string("[move_bytes] in and out must be ") +
                             (traffic == Traffic::update ? "the same for update" : "apart") + " but out begins " +
                             std::to_string(static_cast<std::int64_t>(to - from)) + " bytes from in");
  Work work{traffic, static_cast<const char*>(in), static_cast<char*>(out), static_cast<std::int64_t>(bytes),
            cpu::chosen().move};
  executor.run((work.bytes + line - 1) / line, grain, move_lines, &work);
}

std::size_t last_cache_bytes() noexcept {
  static const std::size_t bytes = found_last_cache();
  return bytes;
}

}  // namespace rotary
