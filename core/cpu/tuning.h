// The constants that decide speed, and never a result. tuning.cpp says where each was measured; scripts/tune.sh sweeps
// them on the machine at hand.
#pragma once

#include <cstdint>

namespace rotary::detail {

struct Tuning {
  // A call that touches more bytes, read and written elsewhere, comes from memory: a quarter of the last cache.
  std::int64_t memory_from = 8 * 1024 * 1024;
  // A call out of place writes past the caches if it reads, for each of its threads, more bytes than stream_from, so
  // that half of the last cache would not hold all; or more than kept_from and at most kept_to: then what it reads
  // stays in the second-level cache, as it would not beside the result.
  std::int64_t stream_from = INT64_MAX;
  std::int64_t kept_from = 0;
  std::int64_t kept_to = 0;
  // Parts of the tokens walked at once, from memory, each in the order of addresses.
  int runs_in_place = 2;
  // How far ahead in each of them memory is fetched, in bytes; 0: the hardware fetches ahead by itself.
  std::int64_t fetched_ahead = 0;
  // Heads walked at once, in layouts whose tokens are adjacent: they share a row of the table.
  std::int64_t heads = 4;
  // Less work is not worth a thread: a fork and join costs about as much.
  std::int64_t grain_bytes = 64 * 1024;
  // The bytes of the table at a time for q and k: an eighth of a second-level cache.
  std::int64_t table_bytes = 128 * 1024;

  bool streams(std::int64_t bytes_read) const noexcept {
    return bytes_read > stream_from || (bytes_read > kept_from && bytes_read <= kept_to);
  }
};

constexpr int most_runs = 4;
constexpr int runs_out_of_place = 2;
// How far ahead copies past the caches fetch, in bytes.
constexpr std::int64_t copy_fetched_ahead = 1024;
// Rotated into the first-level cache at a time: a quarter of one.
constexpr std::int64_t stage_bytes = 8 * 1024;

// Constants of append and rotate_append:
// The bytes of the table at a time, for q's heads and then for k's. On Granite Rapids 1 to 6 % faster than 32 KiB.
constexpr std::int64_t append_table_bytes = 128 * 1024;
constexpr std::int64_t staged_bytes = 16 * 1024;  // k's bytes between its rotation and its conversion
// Tokens of k, and then of v.
constexpr std::int64_t stretch = 64;

// This machine's, from its processor's name and caches. A measuring program may change the values between calls.
Tuning& tuning() noexcept;

}  // namespace rotary::detail
