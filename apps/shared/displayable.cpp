#include "displayable.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "files/text/io.h"

namespace rotary::cli {

namespace {

struct Range {
  char32_t first;
  char32_t last;
};

template <std::size_t n>
bool lies_in(char32_t code, const std::array<Range, n>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [code](const Range& range) { return code >= range.first && code <= range.last; });
}

constexpr std::array<Range, 3> combining = {{{0x300, 0x36F}, {0x200B, 0x200F}, {0xFE00, 0xFE0F}}};
constexpr std::array<Range, 8> wide = {{{0x1100, 0x115F},
                                        {0x2E80, 0xA4CF},
                                        {0xAC00, 0xD7A3},
                                        {0xF900, 0xFAFF},
                                        {0xFE30, 0xFE6F},
                                        {0xFF00, 0xFF60},
                                        {0x1F300, 0x1FAFF},
                                        {0x20000, 0x3FFFD}}};

std::size_t columns_of(char32_t code) { return lies_in(code, combining) ? 0 : lies_in(code, wide) ? 2 : 1; }

// Removes the first character of a text that is not empty, and returns it.
char32_t next_character(std::string_view& text) {
  const files::Character character = files::first_character(text);
  text.remove_prefix(std::max<std::size_t>(character.length, 1));
  return character.code;
}

}  // namespace

std::size_t columns(std::string_view text) {
  std::size_t sum = 0;
  while (!text.empty()) sum += columns_of(next_character(text));
  return sum;
}

bool shows_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    const std::string locale = files::lower(value);
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace rotary::cli
