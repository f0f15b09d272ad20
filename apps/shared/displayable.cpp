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

// C0 and C1 controls, line separators, bidirectional controls.
constexpr std::array<Range, 4> controls = {{{0, 0x1F}, {0x7F, 0x9F}, {0x2028, 0x202E}, {0x2066, 0x2069}}};
constexpr std::array<Range, 3> combining = {{{0x300, 0x36F}, {0x200B, 0x200F}, {0xFE00, 0xFE0F}}};
constexpr std::array<Range, 8> wide = {{{0x1100, 0x115F},
                                        {0x2E80, 0xA4CF},
                                        {0xAC00, 0xD7A3},
                                        {0xF900, 0xFAFF},
                                        {0xFE30, 0xFE6F},
                                        {0xFF00, 0xFF60},
                                        {0x1F300, 0x1FAFF},
                                        {0x20000, 0x3FFFD}}};

bool is_shown(char32_t code) { return !lies_in(code, controls) && (code & 0xFFFE) != 0xFFFE; }

std::size_t columns_of(char32_t code) { return lies_in(code, combining) ? 0 : lies_in(code, wide) ? 2 : 1; }

}  // namespace

std::string displayable(std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string shown;
  while (!text.empty()) {
    const files::Character character = files::first_character(text);
    const std::size_t length = std::max<std::size_t>(character.length, 1);
    const std::string_view bytes = text.substr(0, length);
    text.remove_prefix(length);
    if (character.length > 0 && is_shown(character.code)) {
      shown += bytes;
      continue;
    }
    for (const char byte : bytes) {
      const auto value = static_cast<unsigned char>(byte);
      shown.append("\\x").append(1, hex[value >> 4]).append(1, hex[value & 15]);
    }
  }
  return shown;
}

char32_t next_character(std::string_view& text) {
  const files::Character character = files::first_character(text);
  text.remove_prefix(std::max<std::size_t>(character.length, 1));
  return character.code;
}

std::size_t columns(std::string_view text) {
  std::size_t sum = 0;
  while (!text.empty()) sum += columns_of(next_character(text));
  return sum;
}

std::string shorten(std::string_view text, std::size_t max_columns) {
  if (columns(text) <= max_columns) return std::string(text);
  std::string_view rest = text;
  std::size_t used = 1;  // the ellipsis
  std::size_t kept = 0;  // bytes
  while (!rest.empty()) {
    used += columns_of(next_character(rest));
    if (used > max_columns) break;
    kept = text.size() - rest.size();
  }
  return std::string(text.substr(0, kept)) + "…";
}

std::string shorten_middle(std::string_view text, std::size_t max_columns) {
  if (columns(text) <= max_columns || max_columns < 4) return shorten(text, max_columns);
  const std::size_t end = max_columns * 2 / 5;
  const std::string begin = shorten(text, max_columns - end);
  while (columns(text) > end) next_character(text);
  return begin + std::string(text);
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

std::string shorten_for_terminal(std::string_view text, std::size_t max_columns) {
  if (shows_utf8() || columns(text) <= max_columns || max_columns < 4) return shorten(text, max_columns);
  std::string shown = shorten(text, max_columns - 2);  // ends in a character of one column
  shown.resize(shown.size() - std::string_view("…").size());
  return shown + "...";
}

std::string shorten_middle_for_terminal(std::string_view text, std::size_t max_columns) {
  constexpr std::string_view dots = "…";
  if (shows_utf8() || columns(text) <= max_columns || max_columns < 6) return shorten_middle(text, max_columns);
  std::string shown = shorten_middle(text, max_columns - 2);
  return shown.replace(shown.find(dots), dots.size(), "...");
}

}  // namespace rotary::cli
