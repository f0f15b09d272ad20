// Whether standard output is a terminal, how wide it is, and colours for it.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

#include "system.h"
#include "text/descriptors.h"
#include "text/io.h"

namespace rotary::cli {

inline bool out_is_terminal() { return files::is_terminal(files::standard_output); }

// In columns; 80 where standard output is no terminal, or one that does not say.
inline std::size_t terminal_width() { return terminal_columns().value_or(80); }

// Colours are for a terminal only, and not where NO_COLOR is set (no-color.org) or TERM is dumb.
inline bool out_has_colour() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool refused =
      (no_color != nullptr && *no_color != '\0') || (term != nullptr && std::string_view(term) == "dumb");
  return !refused && out_is_terminal();
}

// Whether the locale (LC_ALL, LC_CTYPE, LANG) shows UTF-8.
inline bool shows_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == '\0') continue;
    const std::string locale = files::lower(value);
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

// Text of a file as the locale can show it: bytes beyond ASCII as \xNN where it is not UTF-8.
inline std::string in_locale(std::string_view text) {
  if (shows_utf8()) return std::string(text);
  constexpr const char* digits = "0123456789ABCDEF";
  std::string shown;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      shown += c;
    } else {
      shown += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return shown;
}

enum class Colour { none = 0, bold = 1, red = 31, green = 32, yellow = 33, cyan = 36 };  // as terminals number them

// text in that colour where out_has_colour(), else as it is. The escapes have no width: align first.
inline std::string painted(std::string_view text, Colour colour) {
  if (colour == Colour::none || !out_has_colour()) return std::string(text);
  return "\x1B[" + std::to_string(static_cast<int>(colour)) + "m" + std::string(text) + "\x1B[0m";
}

}  // namespace rotary::cli
