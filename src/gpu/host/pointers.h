// Of what lies in the device's memory only the address can be checked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "rotate/refuse.h"

namespace rotary::gpu {

inline void check_aligned(const char* verb, const char* what, const void* p, std::size_t bytes) {
  const auto beyond = reinterpret_cast<std::uintptr_t>(p) % bytes;
  if (beyond == 0) return;
  fail("DTYPE", verb,
       std::string(what) + " must be aligned to " + std::to_string(bytes) + " bytes but got an address " +
           std::to_string(beyond) + " beyond");
}

// As check_aligned, and not null.
inline void check_pointer(const char* verb, const char* what, const void* p, std::size_t bytes) {
  if (p == nullptr) fail("SHAPE", verb, std::string(what) + " must point to its elements but got null");
  check_aligned(verb, what, p, bytes);
}

}  // namespace rotary::gpu
