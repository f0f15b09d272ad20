// Structs that carry their size, and what the two headers for C share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "rotary/rope.h"
#include "rotary/rotary_c.h"
#include "rotary/table.h"
#include "runtime/compiler.h"
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
  if (given == nullptr) return;
  Struct result = defaults<Struct>();
  result.size = static_cast<std::uint32_t>(size);
  std::memset(given, 0, size);
  std::memcpy(given, &result, std::min(size, sizeof result));
}

// The constants of one kind in rotary_c.h: the number of enumerator 0, the first and the last constant, their names.
struct Constants {
  std::int32_t zero, first, last;
  const char* names;
  Code code = Code::VALUE;

  // The enumerator of a constant. name: words for its field, in parts.
  template <class... Name>
  int index(const char* operation, std::int32_t number, const Name&... name) const {
    if (number >= first && number <= last) return number - zero;
    fail(code, operation, name..., " must be ", names, " but got ", number);
  }
  template <class Enum, class... Name>
  Enum as(const char* operation, std::int32_t number, const Name&... name) const {
    return static_cast<Enum>(index(operation, number, name...));
  }
};
inline constexpr Constants pairing_constants{100, ROTARY_HALF, ROTARY_INTERLEAVED_TO_HALF,
                                             "ROTARY_HALF, ROTARY_INTERLEAVED or ROTARY_INTERLEAVED_TO_HALF",
                                             Code::PAIRING};
inline constexpr Constants scaling_constants{ROTARY_UNSCALED, ROTARY_UNSCALED, ROTARY_THETA_SCALE,
                                             "one from ROTARY_UNSCALED to ROTARY_THETA_SCALE", Code::SCALING};
inline constexpr Constants position_constants{ROTARY_RUN, ROTARY_RUN, ROTARY_DOUBLE,
                                              "ROTARY_RUN, ROTARY_INT32, ROTARY_INT64 or ROTARY_DOUBLE"};
inline constexpr Constants angle_constants{ROTARY_EXACT, ROTARY_EXACT, ROTARY_FLOAT32,
                                           "ROTARY_EXACT or ROTARY_FLOAT32"};
inline constexpr Constants dtype_constants{ROTARY_F32, ROTARY_F32, ROTARY_BF16, "ROTARY_F32, ROTARY_F16 or ROTARY_BF16",
                                           Code::DTYPE};
inline constexpr Constants direction_constants{ROTARY_FORWARD, ROTARY_FORWARD, ROTARY_BACKWARD,
                                               "ROTARY_FORWARD or ROTARY_BACKWARD"};
inline constexpr Constants store_constants{ROTARY_AUTOMATIC, ROTARY_AUTOMATIC, ROTARY_STREAMING,
                                           "ROTARY_AUTOMATIC, ROTARY_CACHED or ROTARY_STREAMING"};
inline constexpr Constants cache_constants{ROTARY_CACHE_SAME, ROTARY_CACHE_SAME, ROTARY_CACHE_BF16,
                                           "one from ROTARY_CACHE_SAME to ROTARY_CACHE_BF16", Code::DTYPE};

// 0 is a pairing that is not set, for whoever checks it.
inline Pairing pairing_of(const char* operation, std::int32_t number) {
  return number == 0 ? Pairing::unset : pairing_constants.as<Pairing>(operation, number, "pairing");
}

inline void check_given(const char* operation, const char* name, const void* given) {
  if (given == nullptr) fail(Code::VALUE, operation, name, " must not be null");
}

// into: a struct of this version, which begins with its size, as the given one of another version does. Not inlined:
// few callers have one.
ROTARY_NOINLINE inline void read_into(const char* operation, const char* name, const void* given, void* into,
                                      std::size_t known) {
  std::uint32_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < sizeof size || size > 4096)
    fail(Code::VALUE, operation, name, " must be filled by its _init function but has the size ", size);
  std::memcpy(into, given, std::min<std::size_t>(size, known));
  const auto* bytes = static_cast<const unsigned char*>(given);
  if (size > known && std::any_of(bytes + known, bytes + size, [](unsigned char b) { return b != 0; }))
    fail(Code::VALUE, operation, name, " sets a field that this version of rotary does not know");
}
// The caller's struct or, where it is one of another version, its fields in `other`.
template <class Struct>
const Struct& fields_of(const char* operation, const char* name, const Struct* given, Struct& other) {
  check_given(operation, name, given);
  if (given->size == sizeof(Struct)) return *given;
  other = defaults<Struct>();
  read_into(operation, name, given, &other, sizeof other);
  return other;
}
// Copies what fields_of gives.
template <class Struct>
Struct read(const char* operation, const char* name, const Struct* given) {
  Struct other;
  return fields_of(operation, name, given, other);
}

// Writes the fields that the caller's struct has.
template <class Struct>
void write(Struct* to, const Struct& fields) {
  std::memcpy(to, &fields, std::min<std::size_t>(fields.size, sizeof fields));
}
// A reserved field is 0 until a version gives it a meaning. Throws VALUE.
inline void check_reserved(const char* operation, const char* name, std::int32_t value) {
  if (value != 0) fail(Code::VALUE, operation, name, "'s reserved field must be 0 but got ", value);
}

template <>
rotary_positions defaults<rotary_positions>();
template <>
rotary_rope defaults<rotary_rope>();
Positions positions_of(const char* operation, const rotary_positions&);
Rope rope_of(const rotary_rope&);  // throws SCALING
// As frequencies(rope, length), for a length of rotary_c.h.
inline Frequencies frequencies_of(const Rope& rope, std::int64_t length) {
  if (length == 0) return frequencies(rope);
  return frequencies(rope, length == ROTARY_TRAINED_LENGTH ? 0 : length);
}

}  // namespace rotary::c
