// One row for each storage type, in the order of DType: its size, name and range. The lanes have the loads and stores
// of kernels.
#pragma once

#include <cstddef>
#include <limits>

#include "names.h"
#include "rotary/rotary.h"

namespace rotary::detail {

struct StorageType {
  DType value;
  const char* name;
  int bytes;
  int digits;     // significant bits
  int lowest;     // the exponent of the smallest subnormal
  float largest;  // finite value
};

inline constexpr StorageType storage_types[] = {
    {DType::f32, "f32", 4, 24, -149, std::numeric_limits<float>::max()},
    {DType::f16, "f16", 2, 11, -24, 65504.0f},
    {DType::bf16, "bf16", 2, 8, -133, 0x1.fep127f},
};
inline constexpr std::size_t storage_count = std::size(storage_types);

constexpr bool is_storage(DType dtype) noexcept { return static_cast<std::size_t>(dtype) < storage_count; }
// A type that CMake's ROTARY_DTYPES leaves out is still a storage type of tables and caches, but not of heads.
#ifndef ROTARY_HAS_F16
#define ROTARY_HAS_F16 1
#endif
#ifndef ROTARY_HAS_BF16
#define ROTARY_HAS_BF16 1
#endif
constexpr bool is_built(DType dtype) noexcept {
  return dtype == DType::f16 ? ROTARY_HAS_F16 : dtype == DType::bf16 ? ROTARY_HAS_BF16 : is_storage(dtype);
}
constexpr const StorageType& storage_type(DType dtype) noexcept {
  return storage_types[static_cast<std::size_t>(dtype)];
}
constexpr int bytes_of(DType dtype) noexcept { return storage_type(dtype).bytes; }

// "f32, f16 or bf16", for sentences.
ROTARY_API std::string storage_names();

// Throws DTYPE for a value that is no storage type or is not built.
void check_dtype(const char* operation, DType);

static_assert([] {
  for (std::size_t i = 0; i < storage_count; ++i) {
    if (static_cast<std::size_t>(storage_types[i].value) != i) return false;
  }
  return true;
}());

}  // namespace rotary::detail
