// The constants that decide speed, and never a result. tuning.cpp says where each was measured; scripts/tune.sh sweeps
// them on the machine at hand.
#pragma once

#include <cstdint>

namespace rotary::detail {

struct Tuning {
  // How far ahead of the block that is rotated memory is fetched, in bytes; 0: the hardware fetches ahead by itself.
  std::int64_t prefetch_f32 = 0;
  std::int64_t prefetch_16_bit = 0;
  // Only if a call touches more bytes than these: less lies in a near cache.
  std::int64_t prefetch_from = 0;
  // A call out of place writes past the caches if it reads, for each of its threads, more bytes than stream_from; or
  // more than kept_from and at most kept_to: then what it reads fits the second-level cache, but not beside the result.
  std::int64_t stream_from = INT64_MAX;
  std::int64_t kept_from = 0;
  std::int64_t kept_to = 0;
  // Heads per read of a row of the table, in layouts whose tokens are adjacent: of floats in place, by a table of at
  // most near_table_bytes; and of all others.
  std::int64_t heads_together = 4;
  std::int64_t heads_together_else = 4;
  std::int64_t near_table_bytes = 512 * 1024;
  // Less work is not worth a thread: a fork and join costs about as much.
  std::int64_t grain_bytes = 64 * 1024;
  // Of the table at a time for q and k: an eighth of a second-level cache.
  std::int64_t table_bytes = 128 * 1024;

  bool streams(std::int64_t bytes_read) const noexcept {
    return bytes_read > stream_from || (bytes_read > kept_from && bytes_read <= kept_to);
  }
};

// Of the heads of a token that turn by one part of its row before the next part comes into registers: a fraction of a
// first-level cache. 16 heads of 128 floats on Granite Rapids, where 4 and 8 heads took 10 to 15 % longer with AVX2.
constexpr std::int64_t abreast_bytes = 8 * 1024;
// Heads, out of place where memory is fetched ahead. On Granite Rapids with AVX2 and 2048 tokens, half: one head and 16
// take 16 to 20 % longer.
constexpr std::int64_t abreast_of_large_results = 2;
// Rotated into the first-level cache at a time, where the output's lines do not allow non-temporal stores: a quarter of
// one.
constexpr std::int64_t stage_bytes = 8 * 1024;

// Of append and rotate_append:
// Of the table at a time, for q's heads and then for k's. On Granite Rapids 1 to 6 % faster than 32 KiB.
constexpr std::int64_t append_table_bytes = 128 * 1024;
constexpr std::int64_t staged_bytes = 16 * 1024;  // of k between its rotation and its conversion
// Tokens of k, and then of v.
constexpr std::int64_t stretch = 64;
// Bytes, where stores go past the caches: on Granite Rapids 20 % faster than none, and 1 KiB to 16 KiB are the same.
constexpr std::int64_t fetched_ahead = 4096;
// At most so many bytes of one token of each sequence go token by token: they fit a second-level cache.
constexpr std::int64_t most_bytes_by_token = 1024 * 1024;

// Of this machine, from its processor's name and caches. A measuring program may change the values between calls.
Tuning& tuning() noexcept;

}  // namespace rotary::detail
