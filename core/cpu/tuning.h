// Constants that affect speed and never a result. tuning.cpp has the machines where each was measured; scripts/tune.sh
// sweeps them on this machine.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace rotary::detail {

struct Tuning {
  // Bytes of the last cache that count: 32 MiB where its size is unknown, and at most, as a system may report a cache
  // larger than this process's share.
  std::int64_t last_cache = 32 * 1024 * 1024;
  // A call that touches more bytes works from memory. Interleaved floats in place: a quarter of the last cache; half
  // floats in place and 16-bit types: three eighths of it; floats out of place: the second-level cache. Intel, and
  // where it is unknown: a quarter.
  std::int64_t memory_from = 8 * 1024 * 1024;
  std::int64_t half_memory_from = 8 * 1024 * 1024;
  std::int64_t copy_memory_from = 8 * 1024 * 1024;
  // A call out of place writes past the caches if it reads, for each of its threads, more bytes than stream_from, so
  // that half of the last cache would not hold all; or more than kept_from and at most kept_to, so that its input stays
  // in the second-level cache, which it would not beside the result.
  std::int64_t stream_from = INT64_MAX;
  std::int64_t kept_from = 0;
  std::int64_t kept_to = 0;
  // The number of parts of the tokens that are walked at once from memory, each in the order of addresses.
  int runs_in_place = 2;
  // Prefetch distance in each part, in bytes; 0: left to the hardware.
  std::int64_t fetched_ahead = 0;
  // Floats of a call beyond copy_memory_from whose row is two fillings of the registers: the heads that rotate by the
  // first half of the row before they do by the second.
  std::int64_t heads_of_part = 8;
  // A call that touches at most so many bytes stays in the first-level cache.
  std::int64_t first_cache = 32 * 1024;
  // The number of heads walked at once in layouts whose tokens are adjacent: they share a row of the table.
  std::int64_t heads = 4;
  // The least work that is worth a thread: a fork and join costs about as much.
  std::int64_t grain_bytes = 64 * 1024;
  // Bytes of the table that q and then k use at a time: an eighth of a second-level cache.
  std::int64_t table_bytes = 128 * 1024;

  bool streams(std::int64_t bytes_read) const noexcept {
    return bytes_read > stream_from || (bytes_read > kept_from && bytes_read <= kept_to);
  }
};

constexpr int most_runs = 4;
constexpr int runs_out_of_place = 2;
// Prefetch distance of copies past the caches, in bytes.
constexpr std::int64_t copy_fetched_ahead = 1024;
// Bytes rotated into the first-level cache at a time: a quarter of it.
constexpr std::int64_t stage_bytes = 8 * 1024;

// Constants of append and rotate_append:
// Bytes of the table that q's and then k's heads use at a time. On Granite Rapids 1 to 6 % faster than 32 KiB.
constexpr std::int64_t append_table_bytes = 128 * 1024;
constexpr std::int64_t staged_bytes = 16 * 1024;  // bytes of k between rotation and conversion
// Tokens of k, and then of v, at a time.
constexpr std::int64_t stretch = 64;

// Bytes of the data or unified cache of level 1, 2, 3, 4 that processor 0 uses; 0 if there is none or it is unknown.
using DataCaches = std::array<std::size_t, 4>;
const DataCaches& data_caches() noexcept;

// The values for this machine, from its processor's name and caches. A measuring program may change them between calls.
Tuning& tuning() noexcept;

}  // namespace rotary::detail
