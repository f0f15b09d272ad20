// Unsigned integers of 128 bits, for products of two 64-bit words.
#pragma once

#include <cstdint>

#include "runtime/device_code.h"

namespace rotary::detail {

// Where the compiler has none (32-bit machines, MSVC): two words. Only what the wide computations need.
struct TwoWords {
  std::uint64_t lower = 0, upper = 0;

  constexpr TwoWords() = default;
  ROTARY_DEVICE constexpr TwoWords(std::uint64_t x) noexcept : lower(x) {}  // NOLINT: a word is one
  ROTARY_DEVICE constexpr TwoWords(std::uint64_t high, std::uint64_t low) noexcept : lower(low), upper(high) {}

  ROTARY_DEVICE friend constexpr TwoWords operator+(TwoWords a, TwoWords b) noexcept {
    const std::uint64_t sum = a.lower + b.lower;
    return {a.upper + b.upper + (sum < a.lower ? 1 : 0), sum};
  }
  ROTARY_DEVICE friend constexpr TwoWords operator-(TwoWords a, TwoWords b) noexcept {
    return {a.upper - b.upper - (a.lower < b.lower ? 1 : 0), a.lower - b.lower};
  }
  ROTARY_DEVICE friend constexpr TwoWords operator*(TwoWords a, std::uint64_t b) noexcept {
    const std::uint64_t mask = 0xffffffffu;
    const std::uint64_t a0 = a.lower & mask, a1 = a.lower >> 32, b0 = b & mask, b1 = b >> 32;
    const std::uint64_t bottom = a0 * b0, crossed = a1 * b0 + (bottom >> 32), other = a0 * b1 + (crossed & mask);
    return {a.upper * b + a1 * b1 + (crossed >> 32) + (other >> 32), other << 32 | (bottom & mask)};
  }
  ROTARY_DEVICE friend constexpr TwoWords operator<<(TwoWords a, int bits) noexcept {
    if (bits == 0) return a;
    if (bits >= 64) return {a.lower << (bits - 64), 0};
    return {a.upper << bits | a.lower >> (64 - bits), a.lower << bits};
  }
  ROTARY_DEVICE friend constexpr TwoWords operator>>(TwoWords a, int bits) noexcept {
    if (bits == 0) return a;
    if (bits >= 64) return {0, a.upper >> (bits - 64)};
    return {a.upper >> bits, a.upper << (64 - bits) | a.lower >> bits};
  }
  ROTARY_DEVICE friend constexpr bool operator==(TwoWords a, TwoWords b) noexcept {
    return a.lower == b.lower && a.upper == b.upper;
  }
};
ROTARY_DEVICE constexpr std::uint64_t high(TwoWords x) noexcept { return x.upper; }
ROTARY_DEVICE constexpr std::uint64_t low(TwoWords x) noexcept { return x.lower; }

#if defined(__SIZEOF_INT128__)
__extension__ typedef unsigned __int128 Wide;
ROTARY_DEVICE constexpr std::uint64_t high(Wide x) noexcept { return static_cast<std::uint64_t>(x >> 64); }
ROTARY_DEVICE constexpr std::uint64_t low(Wide x) noexcept { return static_cast<std::uint64_t>(x); }
#else
using Wide = TwoWords;
#endif

}  // namespace rotary::detail
