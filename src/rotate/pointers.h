// Checks of pointers for null and alignment; the memory is not read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "refuse.h"

namespace rotary::detail {

inline void check_aligned(const char* operation, const char* what, const void* p, std::size_t bytes) {
  const auto beyond = reinterpret_cast<std::uintptr_t>(p) % bytes;
  if (beyond == 0) return;
  fail(Code::DTYPE, operation,
       std::string(what) + " must be aligned to " + std::to_string(bytes) + " bytes but got an address " +
           std::to_string(beyond) + " beyond");
}

// Checks alignment as check_aligned does, and refuses null.
inline void check_pointer(const char* operation, const char* what, const void* p, std::size_t bytes) {
  if (p == nullptr) fail(Code::SHAPE, operation, std::string(what) + " must point to its elements but got null");
  check_aligned(operation, what, p, bytes);
}

}  // namespace rotary::detail
