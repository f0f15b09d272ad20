// The names of enumerators: one row each, read in both directions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "rotary/error.h"
#include "rotary/rope.h"
#include "values/fail.h"

namespace rotary::detail {

template <class Enum>
struct Named {
  Enum value;
  const char* name;
};

// Row: Named, or any struct with its two members.
template <class Row, std::size_t N>
constexpr const char* name_in(const Row (&rows)[N], decltype(Row::value) value) noexcept {
  for (const Row& row : rows) {
    if (row.value == value) return row.name;
  }
  return "unknown";
}

// "a, b or c"
template <class Row, std::size_t N>
std::string list_of(const Row (&rows)[N], std::size_t first = 0) {
  std::string list;
  for (std::size_t i = first; i < N; ++i) {
    list += i == first ? "" : i + 1 == N ? " or " : ", ";
    list += rows[i].name;
  }
  return list;
}

// The value whose name is `text`, among the rows from `first` on. Throws Error(code), which lists the names.
template <class Row, std::size_t N>
decltype(Row::value) parse_in(const Row (&rows)[N], std::string_view text, const char* operation, Code code,
                              std::size_t first = 0) {
  for (std::size_t i = first; i < N; ++i) {
    if (rows[i].name == text) return rows[i].value;
  }
  fail(code, operation, "the name must be ", list_of(rows, first), " but got \"", text, "\"");
}

// The name of a pairing, for people: with the words of other libraries beside it.
inline std::string familiar(Pairing pairing) {
  return name(pairing) + std::string(pairing == Pairing::half          ? " (rotate_half, NeoX)"
                                     : pairing == Pairing::interleaved ? " (GPT-J)"
                                                                       : "");
}
// Likewise for a text that is such a name; any other text as it is.
inline std::string with_familiar_name(std::string_view text) {
  for (const Pairing pairing : {Pairing::half, Pairing::interleaved})
    if (text == name(pairing)) return familiar(pairing);
  return std::string(text);
}

}  // namespace rotary::detail
