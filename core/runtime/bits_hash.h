// A hash of the bits of results, the same on every machine, whatever its byte order. Not for hostile data.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace rotary::detail {

struct BitsHash {
  std::uint64_t value = 0xcbf29ce484222325u;

  void add(std::uint64_t word) noexcept {
    value = (value ^ word) * 0x9e3779b97f4a7c15u;
    value ^= value >> 29;
  }
  void add(double x) noexcept { add(x != x ? 1 : std::bit_cast<std::uint64_t>(x)); }
  void add(float x) noexcept { add(std::uint64_t{x != x ? 1 : std::bit_cast<std::uint32_t>(x)}); }  // one NaN
  template <class T>
  void add(std::span<const T> all) noexcept {
    for (const T& x : all) add(x);
  }
};

}  // namespace rotary::detail
