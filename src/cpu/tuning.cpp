#include "runtime/arithmetic.h"

#include "tuning.h"

#include <algorithm>
#include <cstring>

#include "runtime/cpuid.h"
#include "runtime/last_cache.h"

namespace rotary::detail {
namespace {

enum class Processor : std::uint8_t {
  other,
  x86,         // AMD, and Intel's without AVX-512
  intel_mesh,  // Intel with AVX-512: a large second-level cache, and a last one over a mesh
};

Processor processor() noexcept {
#if ROTARY_X86
  Registers r;
  char vendor[12];
  if (!cpuid(0, 0, r)) return Processor::x86;
  std::memcpy(vendor, &r.b, 4);
  std::memcpy(vendor + 4, &r.d, 4);
  std::memcpy(vendor + 8, &r.c, 4);
  const bool intel = std::memcmp(vendor, "GenuineIntel", sizeof vendor) == 0;
  const unsigned avx512f = 1u << 16;
  return intel && cpuid(7, 0, r) && (r.b & avx512f) != 0 ? Processor::intel_mesh : Processor::x86;
#else
  return Processor::other;
#endif
}

Tuning chosen() noexcept {
  Tuning best;
  const std::int64_t second_cache = data_caches()[1] > 0 ? static_cast<std::int64_t>(data_caches()[1]) : 1024 * 1024;
  switch (processor()) {
    case Processor::intel_mesh:
      // Measured on Granite Rapids (2 MiB of second-level cache, a guest that says 480 MiB of last-level cache) with
      // one thread: docs/speed.md. The last cache of these is far away and shared, and a guest does not learn how large
      // its part is: the second one decides. Between kept_to and stream_from stores into the caches, with prefetching,
      // are as fast as streaming and leave the result near.
      best.prefetch_f32 = 3 * 1024;
      best.prefetch_16_bit = 16 * 1024;
      best.prefetch_from = 2 * second_cache;
      best.stream_from = 10 * second_cache;
      best.kept_from = second_cache / 16 * 9;
      best.kept_to = second_cache;
      // 16 heads instead of 4: bf16 takes 10 to 25 % less, f32 from 2048 tokens in place and out of place 5 to 10 %;
      // f32 in place at 64 and 512 tokens takes 10 % longer.
      best.heads_together_else = 16;
      best.near_table_bytes = second_cache / 4;
      break;
    case Processor::x86:
      // Measured on Zen 4, whose 32 MiB of last-level cache belong to 8 cores: three quarters of it in motion, half of
      // which is read. More than 32 MiB is a sum over several such caches, but for the processors with stacked caches
      // (96 MiB), which begin too soon to stream.
      best.stream_from = static_cast<std::int64_t>(std::min<std::size_t>(last_cache_bytes(), 32u << 20)) / 8 * 3;
      break;
    case Processor::other:  // AArch64 has no non-temporal stores that are faster
      break;
  }
  return best;
}

}  // namespace

Tuning& tuning() noexcept {
  static Tuning values = chosen();
  return values;
}

}  // namespace rotary::detail
