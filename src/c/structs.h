// Structs that carry their size, and what the two headers for C share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "rotary/rope.h"
#include "rotary/rotary_c.h"
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
  Struct made = defaults<Struct>();
  made.size = static_cast<std::uint32_t>(size);
  std::memset(given, 0, size);
  std::memcpy(given, &made, std::min(size, sizeof made));
}

inline void check_given(const char* operation, const char* name, const void* given) {
  if (given == nullptr) fail(Code::VALUE, operation, std::string(name) + " must not be null");
}

// What the caller's struct says, also one of another version.
template <class Struct>
Struct read(const char* operation, const char* name, const Struct* given) {
  check_given(operation, name, given);
  Struct made = defaults<Struct>();
  const std::size_t size = given->size;
  if (size < sizeof given->size || size > 4096) {
    fail(Code::VALUE, operation,
         std::string(name) + " must be filled by its _init function but has the size " + std::to_string(size));
  }
  std::memcpy(&made, given, std::min(size, sizeof made));
  const auto* bytes = reinterpret_cast<const unsigned char*>(given);
  if (size > sizeof made && std::any_of(bytes + sizeof made, bytes + size, [](unsigned char b) { return b != 0; })) {
    fail(Code::VALUE, operation, std::string(name) + " sets a field that this version of rotary does not know");
  }
  return made;
}

template <>
rotary_rope defaults<rotary_rope>();
Rope rope_of(const rotary_rope&);  // throws SCALING

}  // namespace rotary::c
