// Structs that carry their size, and what the two headers for C share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rotary/rope.h"
#include "rotary/rotary_c.h"
#include "rotary/table.h"
#include "values/fail.h"

struct rotary_frequencies {
  rotary::Frequencies values;
};

namespace rotary::c {

// A struct of this version with default values, specialised where one is not 0.
template <class Struct>
Struct defaults() {
  return Struct{};
}

template <class Struct>
void init(Struct* given, std::size_t size) {
  Struct result = defaults<Struct>();
  result.size = static_cast<std::uint32_t>(size);
  std::memset(given, 0, size);
  std::memcpy(given, &result, std::min(size, sizeof result));
}

// A number that is none stays one, for whoever checks the pairing.
inline Pairing pairing_of(std::int32_t number) noexcept { return static_cast<Pairing>(std::clamp(number, 0, 255)); }

inline void check_given(const char* operation, const char* name, const void* given) {
  if (given == nullptr) fail(Code::VALUE, operation, name, " must not be null");
}

// into: a struct of this version, which begins with its size, as the given one does.
inline void read_into(const char* operation, const char* name, const void* given, void* into, std::size_t known) {
  check_given(operation, name, given);
  std::uint32_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < sizeof size || size > 4096)
    fail(Code::VALUE, operation, name, " must be filled by its _init function but has the size ", size);
  std::memcpy(into, given, std::min<std::size_t>(size, known));
  const auto* bytes = static_cast<const unsigned char*>(given);
  if (size > known && std::any_of(bytes + known, bytes + size, [](unsigned char b) { return b != 0; }))
    fail(Code::VALUE, operation, name, " sets a field that this version of rotary does not know");
}
// The fields of the caller's struct, also one of another version.
template <class Struct>
Struct read(const char* operation, const char* name, const Struct* given) {
  Struct result = defaults<Struct>();
  read_into(operation, name, given, &result, sizeof result);
  return result;
}

template <>
rotary_positions defaults<rotary_positions>();
template <>
rotary_rope defaults<rotary_rope>();
Positions positions_of(const char* operation, const rotary_positions&);
Rope rope_of(const rotary_rope&);  // throws SCALING

}  // namespace rotary::c
